import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { MachineComponentSets } from '../../api/machine-component-set.ts';
import { Rollouts } from '../../api/rollout.ts';
import { accepted, everywhere, follow, machinesWith, runs, statusOf, unitOf } from './change-progress.ts';
import type { TourFleet } from './fleet.ts';
import { unitPids } from './node-service.ts';
import type { TourSystem } from './system.ts';
import { DETECTOR, KUBELET, MACHINES, RUNTIME, type TourStep } from './tour-step.ts';
import { cliError } from '../errors.ts';

/** The first part of the tour: changes. Each step observes the API and the nodes' own files and processes. */
export const changeSteps = (system: TourSystem, fleet: TourFleet): TourStep[] => [
  noUnit(system, fleet),
  inStages(system, fleet),
  failingProbe(system, fleet),
  revertHalfway(system, fleet),
  killedService(system),
  editedFile(system),
];

const noUnit = (system: TourSystem, fleet: TourFleet): TourStep => ({
  name: 'a commit that changes no unit makes no rollout',
  async run() {
    const before = (await system.client('hub').listAll(Rollouts)).items.length;
    const commit = await fleet.remark();
    await accepted(system, commit);
    const after = (await system.client('hub').listAll(Rollouts)).items.length;
    if (after !== before) throw cliError('Violated', `${after - before} rollouts were made`);
    return 'accepted, nothing written to any cell';
  },
});

const inStages = (system: TourSystem, fleet: TourFleet): TourStep => ({
  name: 'a bumped component goes test → pre → prod in batches, and another component does not wait for it',
  async run() {
    const first = await fleet.bump(RUNTIME, '1.0.1');
    await system.until('test has begun', 20_000, async () => (await machinesWith(system, 'test', RUNTIME, '1.0.1')) > 0);
    const second = await fleet.bump(DETECTOR, '1.0.1');
    let overlapped = false;
    let mostInProd = 0;
    const seen: number[] = [];
    const { order } = await follow(system, { commit: first, component: RUNTIME, version: '1.0.1', ms: 90_000 }, async () => {
      if (!overlapped) {
        overlapped =
          (await machinesWith(system, 'test', DETECTOR, '1.0.1')) > 0 &&
          (await machinesWith(system, 'prod', RUNTIME, '1.0.1')) < MACHINES.prod;
      }
      const [set] = (await system.client('prod').listAll(MachineComponentSets)).items.filter((each) => each.spec.componentName === RUNTIME);
      const inProd = await machinesWith(system, 'prod', RUNTIME, '1.0.1');
      if (set?.status?.batch !== undefined && set.spec.version === '1.0.1' && inProd > mostInProd) {
        mostInProd = inProd;
        seen.push(set.status.batch);
      }
    });
    if (!overlapped) throw cliError('Violated', 'the second component waited for the first');
    await follow(system, { commit: second, component: DETECTOR, version: '1.0.1', ms: 60_000 });
    if (!(await everywhere(system, RUNTIME, '1.0.1')) || !(await everywhere(system, DETECTOR, '1.0.1')))
      throw cliError('Violated', 'files or processes differ from what the API reports');
    return `order: ${order.map((each) => each.name).join(' → ')}; the other component ran beside it`;
  },
});

const failingProbe = (system: TourSystem, fleet: TourFleet): TourStep => ({
  name: 'a version whose probe fails stops at the first node of the first stage, which restores itself',
  async run() {
    const commit = await fleet.bump(RUNTIME, '1.9.0');
    const rollout = await system.until('the rollout halts', 60_000, async () => {
      const found = await system.rolloutOf(commit);
      return unitOf(found, RUNTIME)?.phase === 'Halted' ? found : undefined;
    });
    const [machine] = await system.machines('test');
    if (machine === undefined) throw cliError('Violated', 'test has no machine');
    await system.until('the node runs what it ran before', 20_000, async () => {
      const [now] = await system.machines('test');
      return now !== undefined && (await runs(system, now, RUNTIME, '1.0.1'));
    });
    for (const cell of ['pre', 'prod'] as const) {
      const sets = (await system.client(cell).listAll(MachineComponentSets)).items.filter((set) => set.spec.componentName === RUNTIME);
      if (sets.some((set) => set.spec.version === '1.9.0') || (await machinesWith(system, cell, RUNTIME, '1.9.0')) > 0)
        throw cliError('Violated', `${cell} was touched`);
    }
    await fleet.revert();
    await system.until('the revert is done', 60_000, async () => {
      const latest = (await system.client('hub').listAll(Rollouts)).items.sort((a, b) => b.spec.sequence - a.spec.sequence)[0];
      return latest !== undefined && latest.spec.commit !== commit && latest.status?.phase === 'Done';
    });
    return `${unitOf(rollout, RUNTIME)?.message ?? 'halted'}; pre and prod untouched; reverted`;
  },
});

const revertHalfway = (system: TourSystem, fleet: TourFleet): TourStep => ({
  name: 'git revert of a change that is half-way out takes the restore lane',
  async run() {
    await fleet.bump(KUBELET, '1.0.1');
    await system.until('prod has begun and is not done', 90_000, async () => {
      const count = await machinesWith(system, 'prod', KUBELET, '1.0.1');
      if (count === MACHINES.prod) throw cliError('Violated', 'it was done before it could be reverted');
      return count > 0;
    });
    const touched = new Set<string>();
    const commit = await fleet.revert();
    const rollout = await system.until('the restore is done', 60_000, async () => {
      for (const machine of await system.machines('prod'))
        if (statusOf(machine, KUBELET)?.version === '1.0.1') touched.add(machine.metadata.name);
      const found = await system.rolloutOf(commit);
      return unitOf(found, KUBELET)?.phase === 'Done' ? found : undefined;
    });
    if (unitOf(rollout, KUBELET)?.lane !== 'Restore') throw cliError('Violated', `lane ${unitOf(rollout, KUBELET)?.lane}`);
    await system.until('every node runs 1.0.0 again', 20_000, () => everywhere(system, KUBELET, '1.0.0'));
    return `${touched.size} of ${MACHINES.prod} prod machines had it; all are back, lane Restore`;
  },
});

const killedService = (system: TourSystem): TourStep => ({
  name: 'a service that is killed on a node is started again',
  async run() {
    const [machine] = await system.machines('pre');
    if (machine === undefined) throw cliError('Violated', 'pre has no machine');
    const before = (await unitPids(system.root(machine))).get(RUNTIME);
    const answer = await system.ask(machine, RUNTIME);
    if (before === undefined || answer?.pid !== before)
      throw cliError('Violated', `the agent records pid ${before}, the service reports ${answer?.pid}`);
    process.kill(before, 'SIGKILL');
    const started = performance.now();
    const after = await system.until('it answers with another pid', 20_000, async () => {
      const now = await system.ask(machine, RUNTIME);
      return now !== undefined && now.pid !== before ? now : undefined;
    });
    return `pid ${before} → ${after.pid} after ${Math.round(performance.now() - started)} ms`;
  },
});

const editedFile = (system: TourSystem): TourStep => ({
  name: 'a file that is edited on a node is repaired',
  async run() {
    const [machine] = await system.machines('pre');
    if (machine === undefined) throw cliError('Violated', 'pre has no machine');
    const path = join(system.root(machine), 'etc', RUNTIME, 'config.json');
    const before = await readFile(path, 'utf8');
    await writeFile(path, '{"edited": "by hand"}\n');
    const started = performance.now();
    await system.until('the file is as it was', 20_000, async () => (await readFile(path, 'utf8')) === before);
    const ms = Math.round(performance.now() - started);
    await system.until('the repair is counted', 10_000, async () => {
      const now = (await system.machines('pre')).find((each) => each.metadata.name === machine.metadata.name);
      return now !== undefined && (statusOf(now, RUNTIME)?.driftRepairs ?? 0) > 0;
    });
    return `repaired after ${ms} ms`;
  },
});
