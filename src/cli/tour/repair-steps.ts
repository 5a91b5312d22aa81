import { Nodes, Pods } from '../../api/builtin.ts';
import { Freezes } from '../../api/freeze.ts';
import { API_VERSION } from '../../api/kind.ts';
import { NodeRemediers } from '../../api/node-remedier.ts';
import type { TourFleet } from './fleet.ts';
import { CELL, POOL, RepairCell } from './repair-cell.ts';
import { FAULTS, RULES_FILE, RULES_TEXT } from './rules.ts';
import type { TourSystem } from './system.ts';
import { RUNTIME, type TourStep } from './tour-step.ts';
import { cliError } from '../errors.ts';

/**
 * The second part of the tour: repairs. A fault is a line in the kernel log of a node, from which its detector makes a Node condition, as Node
 * Problem Detector does. Everything is observed through the API, on the nodes' own processes and by their boot IDs.
 */
export function repairSteps(system: TourSystem, fleet: TourFleet): TourStep[] {
  const repairs = new RepairCell(system);
  return [
    rulesByCommit(repairs, fleet),
    fromCondition(repairs),
    overBudget(repairs),
    migrated(repairs),
    frozen(repairs, fleet),
    inTurns(repairs),
    climbed(repairs),
  ];
}

const rulesByCommit = (repairs: RepairCell, fleet: TourFleet): TourStep => ({
  name: 'repair rules come by commit, like any change, and are accepted cell by cell',
  async run() {
    const commit = await fleet.add(RULES_FILE, RULES_TEXT, 'Add the rules of the tour');
    await repairs.system.until(
      'the rollout is done',
      60_000,
      async () => (await repairs.system.rolloutOf(commit))?.status?.phase === 'Done',
    );
    const rules = (await repairs.cell.listAll(NodeRemediers)).items.filter((rule) => rule.metadata.name.startsWith('tour-'));
    const refused = rules.filter((rule) => !accepted(rule.status?.conditions));
    if (rules.length === 0 || refused.length > 0)
      throw cliError('Violated', `not accepted: ${refused.map((rule) => rule.metadata.name).join(', ')}`);
    return `${rules.length} rules accepted in ${CELL}: ${rules.map((rule) => rule.metadata.name).join(', ')}`;
  },
});

const fromCondition = (repairs: RepairCell): TourStep => ({
  name: 'a condition set by the detector becomes a granted job, which the agent carries out and the rule verifies',
  async run() {
    const machine = await repairs.machineAt(0);
    const [boot, before] = [await repairs.bootOf(machine), await repairs.system.ask(machine, RUNTIME)];
    await repairs.fault(machine, FAULTS.readonly);
    const seen: string[] = [];
    const job = await repairs.healed(machine, 'tour-readonly', 40_000, seen);
    const after = await repairs.system.ask(machine, RUNTIME);
    if ((await repairs.bootOf(machine)) === boot || after?.pid === before?.pid)
      throw cliError('Violated', 'the job reports that it rebooted the node, and the node did not');
    if (job.status?.operationID === undefined) throw cliError('Violated', 'it had no reservation in the ledger');
    return `${seen.join(' → ')}; boot ${boot.slice(0, 8)} → ${(await repairs.bootOf(machine)).slice(0, 8)}, pid ${before?.pid} → ${after?.pid}`;
  },
});

const overBudget = (repairs: RepairCell): TourStep => ({
  name: 'a second fault over the budget is refused with its reason, and let through when the first is done',
  async run() {
    const [first, second] = [await repairs.machineAt(1), await repairs.machineAt(2)];
    await Promise.all([repairs.fault(first, FAULTS.readonly), repairs.fault(second, FAULTS.readonly)]);
    const refused = await repairs.system.until('one of them waits for the other', 20_000, async () => {
      for (const machine of [first, second]) {
        const [job] = await repairs.jobsOf(machine, 'tour-readonly');
        if (job?.status?.phase === 'Pending' && job.status.verdict?.allowed === false) return job;
      }
      return undefined;
    });
    const most = { reservations: 0 };
    const watching = repairs.system.until('both are healed', 70_000, async () => {
      most.reservations = Math.max(most.reservations, (await repairs.reservationsNow()).length);
      const [a] = await repairs.jobsOf(first, 'tour-readonly');
      const [b] = await repairs.jobsOf(second, 'tour-readonly');
      return a?.status?.finishedAt !== undefined && b?.status?.finishedAt !== undefined;
    });
    await watching;
    await Promise.all([repairs.healed(first, 'tour-readonly', 30_000), repairs.healed(second, 'tour-readonly', 30_000)]);
    if (most.reservations > 1) throw cliError('Violated', `${most.reservations} machines had a reservation at once`);
    const { verdict } = refused.status ?? {};
    return `${refused.spec.node}: ${verdict?.limit}, ${verdict?.used} of ${verdict?.of} by ${verdict?.holders?.join(', ')}; both healed, one after the other`;
  },
});

const migrated = (repairs: RepairCell): TourStep => ({
  name: "a hung node's pods are migrated before it is rebooted, and a rule in Shadow reports what it would have done",
  async run() {
    const machine = await repairs.machineAt(0);
    const { name } = machine.metadata;
    const boot = await repairs.bootOf(machine);
    await repairs.cell.create(Pods, {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { namespace: POOL, name: 'shop' },
      spec: { nodeName: name, terminationGracePeriodSeconds: 1, containers: [{ name: 'shop', image: 'shop' }] },
    });
    await repairs.fault(machine, FAULTS.hungTask);
    await repairs.system.until('the pod is taken away', 40_000, async () => {
      if ((await repairs.bootOf(machine)) !== boot) throw cliError('Violated', 'the node was rebooted with the pod on it');
      return (await repairs.cell.find(Pods, { namespace: POOL, name: 'shop' })) === undefined;
    });
    const migrated = await repairs.ended(machine, 'tour-hung-task', 'MigratePods', 20_000);
    if (migrated.status?.phase !== 'Succeeded') throw cliError('Violated', `${migrated.metadata.name}: ${migrated.status?.explanation}`);
    await repairs.healed(machine, 'tour-hung-task', 40_000);
    if ((await repairs.bootOf(machine)) === boot) throw cliError('Violated', 'the node was not rebooted');
    const [shadow] = await repairs.jobsOf(machine, 'tour-shadow');
    if (shadow?.status?.phase !== 'Shadow' || shadow.status.operationID !== undefined)
      throw cliError('Violated', 'the rule in Shadow reported nothing, or did something');
    return `pod gone, then boot ${boot.slice(0, 8)} → ${(await repairs.bootOf(machine)).slice(0, 8)}; tour-shadow: ${shadow.status.explanation}`;
  },
});

const frozen = (repairs: RepairCell, fleet: TourFleet): TourStep => ({
  name: 'a Freeze stops a repair and lifts',
  async run() {
    // For the step after this one: it takes a while until a commit has come to prod.
    await fleet.bump(RUNTIME, '1.1.0');
    const machine = await repairs.machineAt(1);
    const boot = await repairs.bootOf(machine);
    await repairs.cell.create(Freezes, {
      apiVersion: API_VERSION,
      kind: 'Freeze',
      metadata: { name: 'sale' },
      spec: { reason: 'the great sale' },
    });
    await repairs.fault(machine, FAULTS.hungTask);
    const frozen = await repairs.system.until('the job waits for the Freeze', 20_000, async () => {
      const [job] = await repairs.jobsOf(machine, 'tour-hung-task');
      return job?.status?.verdict?.limit === 'Freeze/sale' ? job : undefined;
    });
    if ((await repairs.reservationsNow()).length > 0) throw cliError('Violated', 'something was reserved under the Freeze');
    await repairs.cell.delete(Freezes, { name: 'sale' });
    await repairs.healed(machine, 'tour-hung-task', 60_000);
    if ((await repairs.bootOf(machine)) === boot) throw cliError('Violated', 'the node was not rebooted');
    return `${frozen.status?.verdict?.wouldPassWhen}; then healed`;
  },
});

const inTurns = (repairs: RepairCell): TourStep => ({
  name: 'a rollout and a repair want the same node and take turns',
  async run() {
    const machine = await repairs.machineAt(2);
    const { name, uid } = machine.metadata;
    await repairs.system.until('the rollout has reached prod', 60_000, async () =>
      (await repairs.machines()).some((each) => each.spec.components?.some((entry) => entry.name === RUNTIME && entry.version === '1.1.0')),
    );
    await repairs.fault(machine, FAULTS.hungTask);
    const reservations: string[] = [];
    const kinds: string[] = [];
    await repairs.system.until('both are done with it', 100_000, async () => {
      const mine = (await repairs.reservationsNow()).filter((reservation) => reservation.machineUID === uid);
      if (mine.length > 1) throw cliError('Violated', `${name} had two reservations at once`);
      for (const reservation of mine)
        if (!reservations.includes(reservation.id)) {
          reservations.push(reservation.id);
          kinds.push(reservation.kind);
        }
      const now = await repairs.named(name);
      const runtime = now.status?.components?.find((each) => each.name === RUNTIME);
      const job = (await repairs.jobsOf(machine, 'tour-hung-task')).findLast((each) => each.spec.action === 'Reboot');
      return runtime?.version === '1.1.0' && job?.status?.finishedAt !== undefined;
    });
    await repairs.healed(machine, 'tour-hung-task', 20_000);
    if (!kinds.includes('Change') || !kinds.includes('Repair')) throw cliError('Violated', `reservations of ${name}: ${kinds.join(', ')}`);
    return `${name}: ${kinds.join(' → ')}; ${RUNTIME} 1.1.0 runs there, and it is healed`;
  },
});

const climbed = (repairs: RepairCell): TourStep => ({
  name: 'a repair that does not help climbs the ladder and ends with a human asked',
  async run() {
    const machine = await repairs.machineAt(3);
    let boot = await repairs.bootOf(machine);
    let boots = 0;
    await repairs.fault(machine, FAULTS.readonly);
    const job = await repairs.system.until('a human is asked', 60_000, async () => {
      const now = await repairs.bootOf(machine);
      if (now !== boot && now !== '' && (await repairs.system.ask(machine, 'local-detector')) !== undefined) {
        // A broken disk stays broken after any reboot.
        boot = now;
        boots += 1;
        await repairs.fault(machine, FAULTS.readonly);
      }
      return (await repairs.jobsOf(machine, 'tour-readonly')).find((each) => each.status?.phase === 'NeedsHuman');
    });
    if (boots !== 1) throw cliError('Violated', `it was rebooted ${boots} times`);
    const node = await repairs.cell.get(Nodes, { name: machine.metadata.name });
    if (node.spec?.unschedulable !== true) throw cliError('Violated', 'a node that is not healed was put back into use');
    return `${boots} reboot did not help; ${job.metadata.name} asks: ${job.status?.diagnosis?.[0] ?? ''}`;
  },
});

const accepted = (conditions: readonly { type: string; status: string }[] | undefined): boolean =>
  conditions?.some(({ type, status }) => type === 'Accepted' && status === 'True') === true;
