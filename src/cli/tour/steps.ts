import { readFile, readdir, realpath, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Nodes } from '../../api/builtin.ts';
import { Fleets } from '../../api/fleet.ts';
import { CodedError } from '../../api/errors.ts';
import type { Machine } from '../../api/machine.ts';
import { MachineComponentSets } from '../../api/machine-component-set.ts';
import { Rollouts, type Rollout } from '../../api/rollout.ts';
import type { TourFleet } from './fleet.ts';
import { CELLS, unitPids, type CellName, type TourSystem } from './system.ts';

export interface TourStep {
  name: string;
  /** Returns what was observed, in words; throws when it did not come true. */
  run: () => Promise<string>;
}

const MACHINES = { test: 1, pre: 2, prod: 4 } as const;
const RUNTIME = 'local-runtime';
const KUBELET = 'local-kubelet';
const DETECTOR = 'local-detector';

/** Waits until the fleet is as the repository says. */
export function importStep(system: TourSystem): TourStep {
  const hub = system.client('hub');
  const { until } = system;
  return {
    name: 'nodes are imported, stage by stage',
    async run() {
      await until('7 machines run and their nodes are Ready', 100_000, async () => {
        for (const cell of CELLS) {
          const machines = await system.machines(cell);
          if (machines.length !== MACHINES[cell] || machines.some((machine) => machine.status?.phase !== 'Running')) return undefined;
          const nodes = (await system.client(cell).listAll(Nodes)).items;
          const ready = nodes.filter(
            (node) =>
              node.status?.conditions?.some((condition) => condition.type === 'Ready' && condition.status === 'True') &&
              node.spec?.unschedulable !== true,
          );
          if (ready.length !== MACHINES[cell]) return undefined;
        }
        return true;
      });
      await until('the first rollouts are done', 30_000, async () =>
        (await hub.listAll(Rollouts)).items.every((rollout) => rollout.status?.phase === 'Done'),
      );
      const pids = new Set<number>();
      for (const { machine } of await system.allMachines()) {
        for (const component of [KUBELET, RUNTIME, DETECTOR]) {
          const answer = await until(`${component} answers on ${machine.metadata.name}`, 10_000, () => system.ask(machine, component));
          pids.add(answer.pid);
        }
      }
      return `7 machines Running, 7 nodes Ready, ${pids.size} services answer`;
    },
  };
}

/** The first part of the tour: changes. Each step observes the API and the nodes' own files and processes. */
export function changeSteps(system: TourSystem, fleet: TourFleet): TourStep[] {
  const hub = system.client('hub');
  const { until } = system;
  const statusOf = (machine: Machine, component: string) => machine.status?.components?.find((each) => each.name === component);
  const unitOf = (rollout: Rollout | undefined, component: string) => rollout?.status?.units?.find((unit) => unit.unit.includes(component));

  /** A version counts only when the API says so, the installed files say so, and the process itself says so. */
  async function runs(machine: Machine, component: string, version: string): Promise<boolean> {
    const found = statusOf(machine, component);
    if (found?.version !== version || found.state !== 'Healthy') return false;
    return (await onDisk(system.root(machine), component)) === version && (await system.ask(machine, component))?.version === version;
  }

  async function everywhere(component: string, version: string): Promise<boolean> {
    for (const { machine } of await system.allMachines()) if (!(await runs(machine, component, version))) return false;
    return true;
  }

  async function holds(cell: CellName, component: string, version: string): Promise<number> {
    let count = 0;
    for (const machine of await system.machines(cell)) if (statusOf(machine, component)?.version === version) count += 1;
    return count;
  }

  /** Follows a rollout until it ends, and notes when each machine was first seen with the new version. */
  async function follow(
    commit: string,
    component: string,
    version: string,
    ms: number,
    onLook?: () => Promise<void>,
  ): Promise<{ rollout: Rollout; order: { cell: CellName; name: string }[] }> {
    const order: { cell: CellName; name: string }[] = [];
    const rollout = await until(`commit ${commit.slice(0, 10)} is done everywhere`, ms, async () => {
      for (const { cell, machine } of await system.allMachines()) {
        const { name } = machine.metadata;
        if (statusOf(machine, component)?.version === version && !order.some((each) => each.name === name)) order.push({ cell, name });
      }
      assertStages(order);
      await onLook?.();
      const found = await system.rolloutOf(commit);
      if (unitOf(found, component)?.phase === 'Halted')
        throw new CodedError('Violated', `the rollout halted: ${unitOf(found, component)?.message}`);
      return unitOf(found, component)?.phase === 'Done' ? found : undefined;
    });
    return { rollout, order };
  }

  function assertStages(order: { cell: CellName; name: string }[]): void {
    for (const [index, { cell }] of order.entries()) {
      for (const earlier of CELLS.slice(0, CELLS.indexOf(cell))) {
        const before = order.slice(0, index).filter((each) => each.cell === earlier).length;
        if (before < MACHINES[earlier])
          throw new CodedError(
            'Violated',
            `${cell} was changed while ${earlier} was not done: ${order.map((each) => each.name).join(', ')}`,
          );
      }
    }
  }

  return [
    {
      name: 'a commit that changes no unit makes no rollout',
      async run() {
        const before = (await hub.listAll(Rollouts)).items.length;
        const commit = await fleet.remark();
        await accepted(system, commit);
        const after = (await hub.listAll(Rollouts)).items.length;
        if (after !== before) throw new CodedError('Violated', `${after - before} rollouts were made`);
        return 'accepted, nothing written to any cell';
      },
    },
    {
      name: 'a bumped component goes test → pre → prod in batches, and another component does not wait for it',
      async run() {
        const first = await fleet.bump(RUNTIME, '1.0.1');
        await until('test has begun', 20_000, async () => (await holds('test', RUNTIME, '1.0.1')) > 0);
        const second = await fleet.bump(DETECTOR, '1.0.1');
        let overlapped = false;
        let mostInProd = 0;
        const seen: number[] = [];
        const { order } = await follow(first, RUNTIME, '1.0.1', 90_000, async () => {
          if (!overlapped) {
            overlapped = (await holds('test', DETECTOR, '1.0.1')) > 0 && (await holds('prod', RUNTIME, '1.0.1')) < MACHINES.prod;
          }
          const [set] = (await system.client('prod').listAll(MachineComponentSets)).items.filter(
            (each) => each.spec.componentName === RUNTIME,
          );
          const inProd = await holds('prod', RUNTIME, '1.0.1');
          if (set?.status?.batch !== undefined && set.spec.version === '1.0.1' && inProd > mostInProd) {
            mostInProd = inProd;
            seen.push(set.status.batch);
          }
        });
        if (!overlapped) throw new CodedError('Violated', 'the second component waited for the first');
        await follow(second, DETECTOR, '1.0.1', 60_000);
        if (!(await everywhere(RUNTIME, '1.0.1')) || !(await everywhere(DETECTOR, '1.0.1')))
          throw new CodedError('Violated', 'files or processes do not hold what the API says');
        return `order: ${order.map((each) => each.name).join(' → ')}; the other component ran beside it`;
      },
    },
    {
      name: 'a version whose probe fails stops at the first node of the first stage, which restores itself',
      async run() {
        const commit = await fleet.bump(RUNTIME, '1.9.0');
        const rollout = await until('the rollout halts', 60_000, async () => {
          const found = await system.rolloutOf(commit);
          return unitOf(found, RUNTIME)?.phase === 'Halted' ? found : undefined;
        });
        const [machine] = await system.machines('test');
        if (machine === undefined) throw new CodedError('Violated', 'test has no machine');
        await until('the node runs what it ran before', 20_000, async () => {
          const [now] = await system.machines('test');
          return now !== undefined && (await runs(now, RUNTIME, '1.0.1'));
        });
        for (const cell of ['pre', 'prod'] as const) {
          const sets = (await system.client(cell).listAll(MachineComponentSets)).items.filter((set) => set.spec.componentName === RUNTIME);
          if (sets.some((set) => set.spec.version === '1.9.0') || (await holds(cell, RUNTIME, '1.9.0')) > 0)
            throw new CodedError('Violated', `${cell} was touched`);
        }
        await fleet.revert();
        await until('the revert is done', 60_000, async () => {
          const latest = (await hub.listAll(Rollouts)).items.sort((a, b) => b.spec.sequence - a.spec.sequence)[0];
          return latest !== undefined && latest.spec.commit !== commit && latest.status?.phase === 'Done';
        });
        return `${unitOf(rollout, RUNTIME)?.message ?? 'halted'}; pre and prod untouched; reverted`;
      },
    },
    {
      name: 'git revert of a change that is half-way out takes the restore lane',
      async run() {
        await fleet.bump(KUBELET, '1.0.1');
        await until('prod has begun and is not done', 90_000, async () => {
          const count = await holds('prod', KUBELET, '1.0.1');
          if (count === MACHINES.prod) throw new CodedError('Violated', 'it was done before it could be reverted');
          return count > 0;
        });
        const touched = new Set<string>();
        const commit = await fleet.revert();
        const rollout = await until('the restore is done', 60_000, async () => {
          for (const machine of await system.machines('prod'))
            if (statusOf(machine, KUBELET)?.version === '1.0.1') touched.add(machine.metadata.name);
          const found = await system.rolloutOf(commit);
          return unitOf(found, KUBELET)?.phase === 'Done' ? found : undefined;
        });
        if (unitOf(rollout, KUBELET)?.lane !== 'Restore') throw new CodedError('Violated', `lane ${unitOf(rollout, KUBELET)?.lane}`);
        await until('every node runs 1.0.0 again', 20_000, () => everywhere(KUBELET, '1.0.0'));
        return `${touched.size} of ${MACHINES.prod} prod machines had it; all are back, lane Restore`;
      },
    },
    {
      name: 'a service that is killed on a node is started again',
      async run() {
        const [machine] = await system.machines('pre');
        if (machine === undefined) throw new CodedError('Violated', 'pre has no machine');
        const before = (await unitPids(system.root(machine))).get(RUNTIME);
        const answer = await system.ask(machine, RUNTIME);
        if (before === undefined || answer?.pid !== before)
          throw new CodedError('Violated', `the agent records pid ${before}, the service says ${answer?.pid}`);
        process.kill(before, 'SIGKILL');
        const started = performance.now();
        const after = await until('it answers with another pid', 20_000, async () => {
          const now = await system.ask(machine, RUNTIME);
          return now !== undefined && now.pid !== before ? now : undefined;
        });
        return `pid ${before} → ${after.pid} after ${Math.round(performance.now() - started)} ms`;
      },
    },
    {
      name: 'a file that is edited on a node is repaired',
      async run() {
        const [machine] = await system.machines('pre');
        if (machine === undefined) throw new CodedError('Violated', 'pre has no machine');
        const path = join(system.root(machine), 'etc', RUNTIME, 'config.json');
        const before = await readFile(path, 'utf8');
        await writeFile(path, '{"edited": "by hand"}\n');
        const started = performance.now();
        await until('the file is as it was', 20_000, async () => (await readFile(path, 'utf8')) === before);
        const ms = Math.round(performance.now() - started);
        await until('the repair is counted', 10_000, async () => {
          const now = (await system.machines('pre')).find((each) => each.metadata.name === machine.metadata.name);
          return now !== undefined && (statusOf(now, RUNTIME)?.driftRepairs ?? 0) > 0;
        });
        return `repaired after ${ms} ms`;
      },
    },
  ];
}

async function accepted(system: TourSystem, commit: string): Promise<void> {
  await system.until(`commit ${commit.slice(0, 10)} is accepted`, 20_000, async () => {
    const [fleet] = (await system.client('hub').listAll(Fleets)).items;
    return fleet?.status?.commit === commit;
  });
}

/** The version in the files that the component's `current` link leads to. */
async function onDisk(root: string, component: string): Promise<string | undefined> {
  try {
    const dir = await realpath(join(root, 'var/lib/kubenode/components', component, 'current'));
    const release = await findRelease(dir, component);
    return release === undefined ? undefined : (JSON.parse(await readFile(release, 'utf8')) as { version: string }).version;
  } catch {
    return undefined;
  }
}

async function findRelease(dir: string, component: string): Promise<string | undefined> {
  for (const entry of await readdir(dir, { recursive: true }))
    if (entry.endsWith(join(component, 'release.json')) || entry === 'release.json') return join(dir, entry);
  return undefined;
}
