import { appendFile, mkdir, readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { Nodes, Pods } from '../../api/builtin.ts';
import { DisruptionLedgers, LEDGER_NAME } from '../../api/disruption-ledger.ts';
import { CodedError } from '../../api/errors.ts';
import { Freezes } from '../../api/freeze.ts';
import { API_VERSION } from '../../api/kind.ts';
import type { Machine } from '../../api/machine.ts';
import { NodeRemediers } from '../../api/node-remedier.ts';
import { ANNOTATIONS } from '../../api/names.ts';
import { RemedyOperationJobs, type RemedyOperationJob } from '../../api/remedy-operation-job.ts';
import type { Stored } from '../../api/wire.ts';
import type { TourFleet } from './fleet.ts';
import { FAULTS, RULES_FILE, RULES_TEXT } from './rules.ts';
import type { TourStep } from './steps.ts';
import type { TourSystem } from './system.ts';

type Job = Stored<RemedyOperationJob>;

const CELL = 'prod';
const POOL = 'web';
const RUNTIME = 'local-runtime';

/**
 * The second part of the tour: repairs. A fault is a line in the kernel log of a node, from which its detector makes a Node condition, as Node
 * Problem Detector does. Everything is observed through the API, on the nodes' own processes and by their boot IDs.
 */
export function repairSteps(system: TourSystem, fleet: TourFleet): TourStep[] {
  const cell = system.client(CELL);
  const { until } = system;
  const machines = async (): Promise<Stored<Machine>[]> =>
    (await system.machines(CELL)).sort((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1));
  /** The prod machines by place, always in the same order. */
  const machineAt = async (index: number): Promise<Stored<Machine>> => {
    const machine = (await machines())[index];
    if (machine === undefined) throw new CodedError('Violated', `${CELL} has no machine ${index}`);
    return machine;
  };
  const named = async (name: string): Promise<Stored<Machine>> => {
    const machine = (await machines()).find((each) => each.metadata.name === name);
    if (machine === undefined) throw new CodedError('Violated', `Machine ${name} is gone`);
    return machine;
  };
  const bootOf = async (machine: Machine): Promise<string> =>
    (await readFile(join(system.root(machine), 'run/kubenode/boot-id'), 'utf8').catch(() => '')).trim();

  async function fault(machine: Machine, line: string): Promise<void> {
    const path = join(system.root(machine), 'var/log/kern.log');
    await mkdir(dirname(path), { recursive: true });
    await appendFile(path, `${line}\n`);
  }

  async function jobsOf(machine: Machine, rule?: string): Promise<Job[]> {
    const { items } = await cell.listAll(RemedyOperationJobs);
    return items
      .filter((job) => job.spec.machine.uid === machine.metadata.uid && (rule === undefined || job.spec.rule === rule))
      .sort((a, b) => Number(a.metadata.resourceVersion) - Number(b.metadata.resourceVersion))
      .sort((a, b) => Date.parse(a.metadata.creationTimestamp) - Date.parse(b.metadata.creationTimestamp));
  }

  const reservationsNow = async () => (await cell.get(DisruptionLedgers, { name: LEDGER_NAME })).status?.reservations ?? [];

  /** Follows the job of a machine to its end; `seen` gets every phase that it was found in. */
  async function ended(machine: Machine, rule: string, action: string, ms: number, seen: string[] = []): Promise<Job> {
    return await until(`${rule}'s ${action} of ${machine.metadata.name} ends`, ms, async () => {
      const job = (await jobsOf(machine, rule)).findLast((each) => each.spec.action === action);
      const phase = job?.status?.phase;
      if (phase !== undefined && seen.at(-1) !== phase) seen.push(phase);
      return job?.status?.finishedAt !== undefined ? job : undefined;
    });
  }

  /** Ends well, leaves no cordon and no reservation, and the services answer. */
  async function healed(machine: Machine, rule: string, ms: number, seen: string[] = []): Promise<Job> {
    const job = await ended(machine, rule, 'Reboot', ms, seen);
    if (job.status?.phase !== 'Succeeded') throw new CodedError('Violated', `${job.metadata.name}: ${job.status?.explanation}`);
    await until(`${machine.metadata.name} is back in use`, 20_000, async () => {
      const node = await cell.get(Nodes, { name: machine.metadata.name });
      const free = node.spec?.unschedulable !== true && node.metadata.annotations?.[ANNOTATIONS.cordonOwner] === undefined;
      const reservation = (await reservationsNow()).find((each) => each.machineUID === machine.metadata.uid);
      return free && reservation === undefined && (await system.ask(machine, RUNTIME)) !== undefined;
    });
    return job;
  }

  return [
    {
      name: 'repair rules come by commit, like any change, and are accepted cell by cell',
      async run() {
        const commit = await fleet.add(RULES_FILE, RULES_TEXT, 'Add the rules of the tour');
        await until('the rollout is done', 60_000, async () => (await system.rolloutOf(commit))?.status?.phase === 'Done');
        const rules = (await cell.listAll(NodeRemediers)).items.filter((rule) => rule.metadata.name.startsWith('tour-'));
        const refused = rules.filter((rule) => !accepted(rule.status?.conditions));
        if (rules.length === 0 || refused.length > 0)
          throw new CodedError('Violated', `not accepted: ${refused.map((rule) => rule.metadata.name).join(', ')}`);
        return `${rules.length} rules accepted in ${CELL}: ${rules.map((rule) => rule.metadata.name).join(', ')}`;
      },
    },
    {
      name: 'a condition set by the detector becomes a granted job, which the agent carries out and the rule verifies',
      async run() {
        const machine = await machineAt(0);
        const [boot, before] = [await bootOf(machine), await system.ask(machine, RUNTIME)];
        await fault(machine, FAULTS.readonly);
        const seen: string[] = [];
        const job = await healed(machine, 'tour-readonly', 40_000, seen);
        const after = await system.ask(machine, RUNTIME);
        if ((await bootOf(machine)) === boot || after?.pid === before?.pid)
          throw new CodedError('Violated', 'the job says it rebooted the node, and the node did not');
        if (job.status?.operationID === undefined) throw new CodedError('Violated', 'it had no reservation in the ledger');
        return `${seen.join(' → ')}; boot ${boot.slice(0, 8)} → ${(await bootOf(machine)).slice(0, 8)}, pid ${before?.pid} → ${after?.pid}`;
      },
    },
    {
      name: 'a second fault over the budget is refused with its reason, and let through when the first is done',
      async run() {
        const [first, second] = [await machineAt(1), await machineAt(2)];
        await Promise.all([fault(first, FAULTS.readonly), fault(second, FAULTS.readonly)]);
        const refused = await until('one of them waits for the other', 20_000, async () => {
          for (const machine of [first, second]) {
            const [job] = await jobsOf(machine, 'tour-readonly');
            if (job?.status?.phase === 'Pending' && job.status.verdict?.allowed === false) return job;
          }
          return undefined;
        });
        const most = { reservations: 0 };
        const watching = until('both are healed', 70_000, async () => {
          most.reservations = Math.max(most.reservations, (await reservationsNow()).length);
          const [a] = await jobsOf(first, 'tour-readonly');
          const [b] = await jobsOf(second, 'tour-readonly');
          return a?.status?.finishedAt !== undefined && b?.status?.finishedAt !== undefined;
        });
        await watching;
        await Promise.all([healed(first, 'tour-readonly', 30_000), healed(second, 'tour-readonly', 30_000)]);
        if (most.reservations > 1) throw new CodedError('Violated', `${most.reservations} machines had a reservation at once`);
        const { verdict } = refused.status ?? {};
        return `${refused.spec.node}: ${verdict?.limit}, ${verdict?.used} of ${verdict?.of} by ${verdict?.holders?.join(', ')}; both healed, one after the other`;
      },
    },
    {
      name: "a hung node's pods are migrated before it is rebooted, and a rule in Shadow says what it would have done",
      async run() {
        const machine = await machineAt(0);
        const { name } = machine.metadata;
        const boot = await bootOf(machine);
        await cell.create(Pods, {
          apiVersion: 'v1',
          kind: 'Pod',
          metadata: { namespace: POOL, name: 'shop' },
          spec: { nodeName: name, terminationGracePeriodSeconds: 1, containers: [{ name: 'shop', image: 'shop' }] },
        });
        await fault(machine, FAULTS.hungTask);
        await until('the pod is taken away', 40_000, async () => {
          if ((await bootOf(machine)) !== boot) throw new CodedError('Violated', 'the node was rebooted with the pod on it');
          return (await cell.find(Pods, { namespace: POOL, name: 'shop' })) === undefined;
        });
        const migrated = await ended(machine, 'tour-hung-task', 'MigratePods', 20_000);
        if (migrated.status?.phase !== 'Succeeded')
          throw new CodedError('Violated', `${migrated.metadata.name}: ${migrated.status?.explanation}`);
        await healed(machine, 'tour-hung-task', 40_000);
        if ((await bootOf(machine)) === boot) throw new CodedError('Violated', 'the node was not rebooted');
        const [shadow] = await jobsOf(machine, 'tour-shadow');
        if (shadow?.status?.phase !== 'Shadow' || shadow.status.operationID !== undefined)
          throw new CodedError('Violated', 'the rule in Shadow said nothing, or did something');
        return `pod gone, then boot ${boot.slice(0, 8)} → ${(await bootOf(machine)).slice(0, 8)}; tour-shadow: ${shadow.status.explanation}`;
      },
    },
    {
      name: 'a Freeze stops a repair and lifts',
      async run() {
        // For the step after this one: it takes a while until a commit has come to prod.
        await fleet.bump(RUNTIME, '1.1.0');
        const machine = await machineAt(1);
        const boot = await bootOf(machine);
        await cell.create(Freezes, {
          apiVersion: API_VERSION,
          kind: 'Freeze',
          metadata: { name: 'sale' },
          spec: { reason: 'the great sale' },
        });
        await fault(machine, FAULTS.hungTask);
        const frozen = await until('the job waits for the Freeze', 20_000, async () => {
          const [job] = await jobsOf(machine, 'tour-hung-task');
          return job?.status?.verdict?.limit === 'Freeze/sale' ? job : undefined;
        });
        if ((await reservationsNow()).length > 0) throw new CodedError('Violated', 'something was reserved under the Freeze');
        await cell.delete(Freezes, { name: 'sale' });
        await healed(machine, 'tour-hung-task', 60_000);
        if ((await bootOf(machine)) === boot) throw new CodedError('Violated', 'the node was not rebooted');
        return `${frozen.status?.verdict?.wouldPassWhen}; then healed`;
      },
    },
    {
      name: 'a rollout and a repair want the same node and take turns',
      async run() {
        const machine = await machineAt(2);
        const { name, uid } = machine.metadata;
        await until('the rollout has reached prod', 60_000, async () =>
          (await machines()).some((each) => each.spec.components?.some((entry) => entry.name === RUNTIME && entry.version === '1.1.0')),
        );
        await fault(machine, FAULTS.hungTask);
        const reservations: string[] = [];
        const kinds: string[] = [];
        await until('both are done with it', 100_000, async () => {
          const mine = (await reservationsNow()).filter((reservation) => reservation.machineUID === uid);
          if (mine.length > 1) throw new CodedError('Violated', `${name} had two reservations at once`);
          for (const reservation of mine)
            if (!reservations.includes(reservation.id)) {
              reservations.push(reservation.id);
              kinds.push(reservation.kind);
            }
          const now = await named(name);
          const runtime = now.status?.components?.find((each) => each.name === RUNTIME);
          const job = (await jobsOf(machine, 'tour-hung-task')).findLast((each) => each.spec.action === 'Reboot');
          return runtime?.version === '1.1.0' && job?.status?.finishedAt !== undefined;
        });
        await healed(machine, 'tour-hung-task', 20_000);
        if (!kinds.includes('Change') || !kinds.includes('Repair'))
          throw new CodedError('Violated', `reservations of ${name}: ${kinds.join(', ')}`);
        return `${name}: ${kinds.join(' → ')}; ${RUNTIME} 1.1.0 runs there, and it is healed`;
      },
    },
    {
      name: 'a repair that does not help climbs the ladder and ends with a human asked',
      async run() {
        const machine = await machineAt(3);
        let boot = await bootOf(machine);
        let boots = 0;
        await fault(machine, FAULTS.readonly);
        const job = await until('a human is asked', 60_000, async () => {
          const now = await bootOf(machine);
          if (now !== boot && now !== '' && (await system.ask(machine, 'local-detector')) !== undefined) {
            // A disk that is broken stays so, whatever is rebooted.
            boot = now;
            boots += 1;
            await fault(machine, FAULTS.readonly);
          }
          return (await jobsOf(machine, 'tour-readonly')).find((each) => each.status?.phase === 'NeedsHuman');
        });
        if (boots !== 1) throw new CodedError('Violated', `it was rebooted ${boots} times`);
        const node = await cell.get(Nodes, { name: machine.metadata.name });
        if (node.spec?.unschedulable !== true) throw new CodedError('Violated', 'a node that is not healed was put back into use');
        return `${boots} reboot did not help; ${job.metadata.name} asks: ${job.status?.diagnosis?.[0] ?? ''}`;
      },
    },
  ];
}

const accepted = (conditions: readonly { type: string; status: string }[] | undefined): boolean =>
  conditions?.some(({ type, status }) => type === 'Accepted' && status === 'True') === true;
