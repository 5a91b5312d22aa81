/** What happens on nodes, and what the machine controller makes of it: whether something may begin is judged by its own code. */
import type { ComponentEntry, ComponentStatus, Machine } from '../../src/api/machine.ts';
import { contentOf } from '../../src/api/machine/values.ts';
import type { LedgerReservation } from '../../src/api/disruption-ledger.ts';
import type { DefenderPolicy } from '../../src/api/defender-policy.ts';
import type { Stored } from '../../src/api/wire.ts';
import { askOf, orderable, scopesOf, type AskFacts } from '../../src/controllers/machine/reservation/ask.ts';
import { cellSets } from '../../src/controllers/machine/observe/cell-sets.ts';
import { isRecorded } from '../../src/controllers/machine/order/components.ts';
import { scopeUsage } from '../../src/defender/scope-usage.ts';
import { judge } from '../../src/defender/judge.ts';
import { reservationFor } from '../../src/defender/request.ts';
import { createAvailabilityIndex } from '../../src/defender/availability-index.ts';
import { withMachine } from './component-set-leader.ts';
import {
  AT,
  keptReservation,
  keyOfMachine,
  machineAt,
  NOW,
  replaced,
  setAt,
  spent,
  type Scenario,
  type Step,
  type World,
} from './component-set-world.ts';

const FREEZE = [{ metadata: { name: 'night' }, spec: {} }];
const POLICY: Pick<DefenderPolicy, 'metadata' | 'spec'> = {
  metadata: { name: 'noon' },
  spec: {
    limits: [{ name: 'all', scope: 'Cluster', maxConcurrent: 10 }],
    windows: [{ name: 'noon', timeZone: 'Etc/UTC', schedule: '0 11 * * *', durationMinutes: 120 }],
  },
};
const NIGHT = NOW + 10 * 3_600_000;

const isNew = ({ status }: Machine): boolean => status?.firstReadyAt === undefined;

export function nodeMoves(world: World, scenario: Scenario): Step[] {
  return world.machines.flatMap(({ object }, index) => {
    if (object === undefined || world.sites[index] !== 'alive') return [];
    return [
      ...(object.spec.components ?? []).flatMap((entry) => agentMoves(world, index, object, entry, scenario)),
      ...reservationMoves(world, index, object, scenario),
    ];
  });
}

const reportOf = (machine: Machine, name: string): ComponentStatus | undefined =>
  machine.status?.components?.find((each) => each.name === name);

function reported(machine: Stored<Machine>, status: ComponentStatus, rest: Pick<NonNullable<Machine['status']>, 'operation'> = {}) {
  const others = (machine.status?.components ?? []).filter(({ name }) => name !== status.name);
  const components = [...others, status].toSorted((a, b) => (a.name < b.name ? -1 : 1));
  return { ...machine, status: { ...machine.status, components, ...rest } };
}

function agentMoves(world: World, index: number, machine: Stored<Machine>, entry: ComponentEntry, scenario: Scenario): Step[] {
  const report = reportOf(machine, entry.name);
  if (report !== undefined && report.revision >= entry.revision) return [];
  const content = contentOf(entry);
  const { revision } = entry;
  const at = (status: ComponentStatus): World => withMachine(world, index, reported(machine, status));
  const what = `m${index}'s agent`;
  if (report?.content === content) {
    const { failed: _, needs: _needs, needsFor: _for, ...same } = report;
    const status: ComponentStatus = { ...same, revision, running: revision, state: 'Healthy' };
    return [{ label: `${what} has ${entry.name} ${entry.version} already`, world: at(status), fault: false }];
  }
  if (scenario.restarts === true && report !== undefined && !isNew(machine)) {
    const { failed: _, ...same } = report;
    const status: ComponentStatus = { ...same, revision, state: 'Waiting', needs: 'Restart', needsFor: 'Change' };
    return [{ label: `${what} waits for an operation`, world: at(status), fault: false }];
  }
  return outcomes(world, machine, entry, scenario).map(({ label, status, world: next, fault }) => ({
    label: `${what} ${label}`,
    world: withMachine(next, index, reported(machine, status)),
    fault,
  }));
}

interface Outcome {
  label: string;
  status: ComponentStatus;
  world: World;
  fault: boolean;
}

function outcomes(world: World, machine: Machine, entry: ComponentEntry, { risky = [], bad = [] }: Scenario): Outcome[] {
  const { name, version, revision } = entry;
  const report = reportOf(machine, name);
  const content = contentOf(entry);
  const found: Outcome[] = [];
  if (!bad.includes(version)) {
    const status: ComponentStatus = { name, version, content, revision, running: revision, state: 'Healthy', bootID: 'boot' };
    found.push({ label: `carries out ${name} ${version}`, status, world, fault: false });
  }
  const mayFail = risky.includes(version) && world.budget.fail > 0;
  if (bad.includes(version) || mayFail) {
    const { needs: _, needsFor: _for, ...before } = report ?? { name, version: '', content: '', revision: 0, running: 0, state: 'Failed' };
    const failed = { revision, reason: 'ProbesFailed', message: '', restored: before.running > 0 };
    const state = before.running > 0 ? 'Healthy' : 'Failed';
    const status: ComponentStatus = { ...before, revision, state, failed };
    found.push({ label: `fails at ${name} ${version}`, status, world: mayFail ? spent(world, 'fail') : world, fault: mayFail });
  }
  return found;
}

function factsOf(world: World, { mutation = {} }: Scenario): AskFacts {
  const sets = cellSets(world.sets.map(setAt)).facts;
  return {
    nowMs: world.closed && mutation.freezes !== 'ignored' ? NIGHT : NOW,
    epoch: 1,
    sets,
    freezes: world.frozen && mutation.freezes !== 'ignored' ? FREEZE : [],
    policies: [POLICY],
    jobsOf: () => [],
    canPowerCycle: () => false,
    agentAnswers: true,
  };
}

/** The ledger of one leader of the machine controller; what two of them may do is another world. */
function reservationMoves(world: World, index: number, machine: Stored<Machine>, scenario: Scenario): Step[] {
  const facts = factsOf(world, scenario);
  const reservation = world.reservations[index];
  const withRow = (next: LedgerReservation | undefined, from = world): World => ({
    ...from,
    reservations: replaced(from.reservations, index, next),
  });
  if (reservation === undefined) return grant(world, index, machine, facts, scenario);
  const order = machine.spec.operation;
  if (order?.id === reservation.id) {
    const isDone = isRecorded(machine, order, (uid) => world.sets.some(({ object }) => object.metadata.uid === uid));
    return isDone ? [{ label: `the reservation of m${index} goes`, world: withRow(undefined), fault: false }] : [];
  }
  const [first] = orderable(reservation, machine, facts);
  const entry = machine.spec.components?.find(({ name }) => name === first?.name);
  if (first === undefined || entry === undefined)
    return [{ label: `the reservation of m${index} is given up`, world: withRow(undefined), fault: false }];
  const components = [{ name: first.name, revision: first.revision }];
  const operation = { id: reservation.id, epoch: 1, kind: 'Change' as const, components, notAfter: AT };
  const broken = forbidden(world, reservation);
  return outcomes(world, machine, entry, scenario).map(({ label, status, world: next, fault }) => {
    const outcome = status.failed === undefined ? ('Succeeded' as const) : ('PermanentFailure' as const);
    const ended = reported(machine, status, { operation: { id: reservation.id, state: 'Done', outcome } });
    return {
      label: `m${index} is ordered and ${label}`,
      world: withMachine(next, index, { ...ended, spec: { ...ended.spec, operation } }),
      fault,
      ...(broken === undefined ? {} : { broken }),
    };
  });
}

function forbidden(world: World, reservation: LedgerReservation): string | undefined {
  if (reservation.class === 'Restore') return undefined;
  return world.frozen ? `D11: ${reservation.machine} begins under a Freeze` : undefined;
}

function grant(world: World, index: number, machine: Stored<Machine>, facts: AskFacts, { mutation = {} }: Scenario): Step[] {
  const ask = askOf(machine, facts);
  if (ask.state !== 'Asks') return [];
  const availabilityIndex = createAvailabilityIndex(
    world.machines.flatMap(({ object, version }, at) =>
      object === undefined
        ? []
        : [
            {
              uid: object.metadata.uid,
              name: keyOfMachine(at),
              scopes: scopesOf(machineAt(object, version), facts.sets),
              unavailable: world.sites[at] === 'dead',
              isNew: isNew(object),
              persistently: world.sites[at] === 'dead',
            },
          ],
    ),
  );
  const reservations = world.reservations.flatMap((each) => each ?? []);
  const sets = mutation.limits === 'ignored' ? new Map<string, never>() : facts.sets;
  const request = { ...ask.request, since: NOW };
  const { granted } = judge(
    [request],
    scopeUsage(availabilityIndex, reservations),
    { policies: facts.policies, sets },
    { reservations: reservations.length, nowMs: facts.nowMs },
  );
  if (granted.length === 0) return [];
  const revisions = ask.components.map(({ name, revision }) => `${name}${revision}`).join('+');
  const reservation = keptReservation(reservationFor(request, `m${index}-${revisions}-${ask.request.class}`, NOW));
  const next = { ...world, reservations: replaced(world.reservations, index, reservation) };
  const broken =
    tooMany(next) ??
    forbidden(world, reservation) ??
    (world.closed && reservation.class !== 'Restore' ? `D8: m${index} is reserved outside its window` : undefined);
  return [
    { label: `m${index} is reserved (${reservation.class})`, world: next, fault: false, ...(broken === undefined ? {} : { broken }) },
  ];
}

/** Of those in use, by each set's own doing. */
function tooMany(world: World): string | undefined {
  for (const { object: set } of world.sets) {
    const many = world.reservations.filter((reservation, index) => {
      const machine = world.machines[index]?.object;
      return reservation?.requesterUID === set.metadata.uid && machine !== undefined && !isNew(machine);
    }).length;
    const most = set.spec.maxUnavailable ?? 1;
    if (typeof most === 'number' && many > most)
      return `B8: ${many} machines of ${set.metadata.name} are in flight, maxUnavailable is ${most}`;
  }
  return undefined;
}
