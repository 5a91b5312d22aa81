/**
 * What repairs are about: nodes that fall ill, recover and boot, their agents under orders of kind Repair, the remedy controller that makes jobs,
 * the provider, and time.
 */
import type { Machine, Operation, OperationStatus, Outcome } from '../../src/api/machine.ts';
import { API_VERSION } from '../../src/api/kind.ts';
import { ANNOTATIONS, MACHINE_CONDITIONS } from '../../src/api/names.ts';
import { isFinished, type RemedyOperationJob } from '../../src/api/remedy-operation-job.ts';
import type { Stored } from '../../src/api/wire.ts';
import { isControllers } from '../../src/agent/repair/task.ts';
import { reservationOfMachine, stateOf } from '../../src/defender/state.ts';
import {
  machineName,
  POOL,
  replaced,
  TIMES,
  type Agent,
  type RepairEvent,
  type RepairPlan,
  type Scenario,
  type Site,
  type World,
  type Successor,
} from './world.ts';

/** The condition by which the node is ill or well. */
export const SICK = 'Sick';

/** Which processes of the node report. */
export function reporting({ health, power }: Site): { agent: boolean; kubelet: boolean } {
  const on = power === 'Running' && health !== 'hung';
  return { agent: on && health !== 'cut', kubelet: on };
}

export const bootName = (boot: number): string => `b${boot}`;

/** Whether the rule matches. */
export function needsRepair(world: World, index: number): boolean {
  const site = world.sites[index];
  return !world.withdrawn && site !== undefined && (site.health !== 'well' || site.power === 'Stopped');
}

/** Attempts that the ladder has left after the job that is there. */
export function rungsLeft(world: World, index: number, plan: RepairPlan): number {
  const last = world.jobs[index]?.object;
  return plan.ladder.length - (last === undefined ? 0 : last.spec.rung + (last.status?.orderedAt === undefined ? 0 : 1));
}

export const withSite = (world: World, index: number, change: Partial<Site>): World => {
  const site = world.sites[index];
  return site === undefined ? world : { ...world, sites: replaced(world.sites, index, { ...site, ...change }) };
};

const withAgent = (world: World, index: number, agent: Agent): World => ({ ...world, agents: replaced(world.agents, index, agent) });

function withStatus(world: World, index: number, status: Partial<NonNullable<Machine['status']>>): World {
  const slot = world.machines[index];
  if (slot?.object === undefined) return world;
  const object = { ...slot.object, status: { ...slot.object.status, ...status } };
  return { ...world, machines: replaced(world.machines, index, { ...slot, version: slot.version + 1, object }) };
}

export function repairMoves(world: World, scenario: Scenario, fresh: () => string): Successor[] {
  const { repair } = scenario;
  if (repair === undefined) return [];
  return world.machines.flatMap((slot, index) =>
    slot.object === undefined
      ? []
      : [
          ...remedyController(world, index, slot.object, repair, fresh),
          ...agentUnderRepair(world, index, slot.object, repair),
          ...site(world, index, repair),
        ],
  );
}

const conditionOf = (machine: Machine): boolean =>
  machine.status?.conditions?.some(({ type, status }) => type === MACHINE_CONDITIONS.repairNeeded && status === 'True') === true;

export const repairNeeded = (needed: boolean): NonNullable<NonNullable<Machine['status']>['conditions']> =>
  needed
    ? [{ type: MACHINE_CONDITIONS.repairNeeded, status: 'True', reason: 'rule', message: '', lastTransitionTime: '2026-11-19T00:00:00Z' }]
    : [];

/** Of the remedy controller: the condition, and the next job of the ladder. What has ended without an order was no attempt. */
function remedyController(world: World, index: number, machine: Stored<Machine>, plan: RepairPlan, fresh: () => string): Successor[] {
  const moves: Successor[] = [];
  const needed = needsRepair(world, index);
  if (conditionOf(machine) !== needed)
    moves.push({
      label: `the remedy controller reports for ${machineName(index)} that a repair is ${needed ? '' : 'not '}needed`,
      world: withStatus(world, index, { conditions: repairNeeded(needed) }),
      fault: false,
    });
  const last = world.jobs[index]?.object;
  if (!needed || machine.metadata.deletionTimestamp !== undefined || (last !== undefined && !isFinished(last))) return moves;
  // docs/protocols.md#f2: while the machine has a reservation nothing is due; one that an ended job has left behind does not count.
  const reservation = reservationOfMachine(stateOf(world.ledger.object ?? {}), machine.metadata.uid);
  if (reservation !== undefined && reservation.kind !== 'Repair') return moves;
  if (rungsLeft(world, index, plan) > 0) {
    const slot = world.jobs[index] ?? { version: 0, object: undefined };
    const object = jobOf(index, fresh(), plan.ladder.length - rungsLeft(world, index, plan), plan);
    moves.push({
      label: `the remedy controller makes a job for ${machineName(index)}: ${object.spec.action}`,
      world: { ...world, jobs: replaced(world.jobs, index, { version: slot.version + 1, object }) },
      fault: false,
    });
  }
  return moves;
}

export function jobOf(index: number, uid: string, rung: number, plan: RepairPlan): Stored<RemedyOperationJob> {
  const name = machineName(index);
  return {
    apiVersion: API_VERSION,
    kind: 'RemedyOperationJob',
    metadata: { name: `job-${name}`, namespace: POOL, uid, resourceVersion: '', creationTimestamp: '2026-11-19T00:00:00Z' },
    spec: {
      rule: 'rule',
      machine: { name, uid: `${name}-1` },
      node: name,
      mode: 'Enforce',
      rung,
      attempt: 1,
      action: plan.ladder[rung] ?? 'Human',
      timeoutSeconds: 600,
      healedWhen: { condition: SICK, is: 'False', forSeconds: 60 },
      priority: 0,
      matchedSince: '2026-11-19T00:00:00Z',
      why: '',
    },
    status: {},
  };
}

const isPast = (time: string): boolean => TIMES[0] > Date.parse(time);

/**
 * An agent's journal and reports under an order of kind Repair, as src/agent/operation/decide.ts and src/agent/repair/decide.ts have it: noted on its disk,
 * reported to the cell, reread, done once, reported until the report has arrived.
 */
function agentUnderRepair(world: World, index: number, machine: Stored<Machine>, plan: RepairPlan): Successor[] {
  const agent = world.agents[index];
  const site = world.sites[index];
  if (agent === undefined || site === undefined || agent.state === 'dead' || site.power === 'Stopped' || site.health === 'hung') return [];
  const moves: Successor[] = [];
  const move = (label: string, next: World): void =>
    void moves.push({ label: `agent ${machineName(index)} ${label}`, world: next, fault: false });
  const ends = (from: Agent, order: Operation, outcome: Outcome): Agent => {
    const { boot: _, ...rest } = from;
    return {
      ...rest,
      state: 'idle',
      order: undefined,
      last: order.id,
      epoch: order.epoch,
      report: { id: order.id, state: 'Done', outcome },
    };
  };

  const { order } = agent;
  // What it was about to do needs no report.
  if (order?.kind === 'Repair' && agent.state === 'about-to-start')
    move('starts the repair', withSite(withAgent(world, index, { ...agent, state: 'acting' }), index, { acts: [...site.acts, order.id] }));
  if (order?.kind === 'Repair' && agent.state === 'acting') {
    const health = site.health === 'sick' && plan.helps.some((each) => each === order.action) ? 'well' : site.health;
    const after = withAgent(world, index, ends(agent, order, 'Succeeded'));
    move('has done the repair', withSite(after, index, { health, ...(order.action === 'Reboot' ? { boot: site.boot + 1 } : {}) }));
  }
  if (!reporting(site).agent) return moves;

  if (machine.status?.agent !== undefined && machine.status.agent.bootID !== bootName(site.boot))
    move('names its boot', withStatus(world, index, { agent: { ...machine.status.agent, bootID: bootName(site.boot) } }));
  if (agent.report !== undefined) move(`reports ${agent.report.outcome ?? agent.report.state}`, sent(world, index, agent, agent.report));
  if (order?.kind === 'Repair' && agent.state === 'begun' && agent.report === undefined) {
    const now = machine.spec.operation;
    if (order.action === 'Reboot' && agent.boot !== site.boot)
      move('is in another boot already', withAgent(world, index, ends(agent, order, 'Succeeded')));
    else if (now?.id !== order.id || now.kind !== 'Repair' || isPast(now.notAfter))
      move('leaves the repair', withAgent(world, index, ends(agent, order, 'Cancelled')));
    else move('reads again that it is to repair', withAgent(world, index, { ...agent, state: 'about-to-start' }));
  }
  const wanted = machine.spec.operation;
  const isNew = agent.state === 'idle' && agent.report === undefined && wanted?.kind === 'Repair' && !isControllers(wanted);
  if (isNew && wanted.id !== agent.last && wanted.epoch >= agent.epoch) {
    const begun: Agent = {
      ...agent,
      state: 'begun',
      last: wanted.id,
      epoch: wanted.epoch,
      order: wanted,
      boot: site.boot,
      report: { id: wanted.id, state: 'Running' },
    };
    move('notes the repair', withAgent(world, index, isPast(wanted.notAfter) ? ends(agent, wanted, 'Cancelled') : begun));
  }
  return moves;
}

function sent(world: World, index: number, agent: Agent, report: OperationStatus): World {
  const { report: _, ...rest } = agent;
  return withStatus(withAgent(world, index, rest), index, { operation: report });
}

/** What boots was not doing anything. An agent goes on from its disk: a repair that it had not started is decided again, one it had is over. */
export function booted(world: World, index: number, health: Site['health']): World {
  const site = world.sites[index];
  const agent = world.agents[index];
  if (site === undefined || agent === undefined) return world;
  const after = withSite(world, index, { boot: site.boot + 1, power: 'Running', health });
  if (agent.order?.kind !== 'Repair') return after;
  return withAgent(after, index, { ...agent, state: 'begun' });
}

/** What happens to the node itself. */
function site(world: World, index: number, plan: RepairPlan): Successor[] {
  const site = world.sites[index];
  const { budget } = world;
  if (site === undefined) return [];
  const moves: Successor[] = [];
  const name = machineName(index);
  const spend = (what: RepairEvent, next: World): World => ({
    ...next,
    budget: { ...budget, [what]: budget[what] - 1 },
  });
  const happens = (label: string, next: World): void => void moves.push({ label, world: next, fault: true });
  const ill = plan.ill[index] !== undefined;
  if (site.power === 'Running') {
    if (budget.clears > 0 && site.health !== 'well')
      happens(`${name} recovers by itself`, spend('clears', withSite(world, index, { health: 'well' })));
    if (ill && budget.sickens > 0 && site.health === 'well')
      happens(`${name} falls ill`, spend('sickens', withSite(world, index, { health: 'sick' })));
    if (ill && budget.cuts > 0 && (site.health === 'well' || site.health === 'sick'))
      happens(`the agent of ${name} does not report any more`, spend('cuts', withSite(world, index, { health: 'cut' })));
    if (ill && budget.hangs > 0 && site.health !== 'hung')
      happens(`${name} hangs`, spend('hangs', withSite(world, index, { health: 'hung' })));
  } else if (budget.powerOn > 0)
    happens(`a human turns ${name} on, which stays unresponsive`, spend('powerOn', booted(world, index, 'hung')));
  const job = world.jobs[index];
  if (job?.object !== undefined && budget.removeJob > 0 && !isFinished(job.object))
    happens(
      `a human removes the job of ${name}`,
      spend('removeJob', { ...world, jobs: replaced(world.jobs, index, { version: job.version + 1, object: undefined }) }),
    );
  if (budget.withdraw > 0 && !world.withdrawn) happens('the rule is deleted', { ...spend('withdraw', world), withdrawn: true });
  if (site.terminating > 0 && reporting(site).kubelet)
    moves.push({
      label: `the kubelet of ${name} ends a pod`,
      world: withSite({ ...world, pods: replaced(world.pods, index, (world.pods[index] ?? 0) - site.terminating) }, index, {
        terminating: 0,
      }),
      fault: false,
    });
  return moves;
}

/** Once for an operation. A node that did not report does, for a while at least. */
export function cyclePower(world: World, index: number, operationID: string, plan: RepairPlan): World {
  const site = world.sites[index];
  if (site === undefined || site.keys.includes(operationID)) return world;
  const health = plan.helps.includes('PowerCycle') ? 'well' : 'sick';
  return withSite(booted(world, index, health), index, { keys: [...site.keys, operationID], acts: [...site.acts, operationID] });
}

const DAY = /2026-11-20T/g;
const NOW = new RegExp(String(TIMES[0]), 'g');
const shifted = new WeakMap<object, object>();

/** The same, a day older. What is older than a day stays as it is: nothing here distinguishes such times. */
function aged<T extends object | undefined>(value: T): T {
  if (value === undefined) return value;
  let older = shifted.get(value);
  if (older === undefined) {
    const text = JSON.stringify(value);
    const next = text.replace(DAY, '2026-11-19T').replace(NOW, String(TIMES[0] - 86_400_000));
    older = next === text ? value : (JSON.parse(next) as object);
    shifted.set(value, older);
  }
  return older as T;
}

const agedSlot = <T extends { version: number; object: object | undefined }>(slot: T): T => {
  const object = aged(slot.object);
  return object === slot.object ? slot : { ...slot, object };
};

/**
 * More time than any deadline takes: it is always the same moment, and everything that was written before is older. So time may pass
 * any number of times, and the world stays finite.
 */
export function timePassed(world: World): World {
  return {
    ...world,
    machines: world.machines.map(agedSlot),
    nodes: world.nodes.map(agedSlot),
    ledger: agedSlot(world.ledger),
    jobs: world.jobs.map(agedSlot),
    agents: world.agents.map((agent) => (agent.order === undefined ? agent : { ...agent, order: aged(agent.order) })),
    leaders: world.leaders.map((leader) => ({
      ...leader,
      flights: leader.flights.map((flight) => ({
        ...flight,
        what: typeof flight.what === 'string' ? flight.what : aged(flight.what),
        ...(flight.machine === undefined ? {} : { machine: agedSlot(flight.machine) }),
        ...(flight.node === undefined ? {} : { node: agedSlot(flight.node) }),
        ...(flight.ledger === undefined ? {} : { ledger: agedSlot(flight.ledger) }),
      })),
      frozen: {
        ...(leader.frozen.machines === undefined ? {} : { machines: leader.frozen.machines.map(agedSlot) }),
        ...(leader.frozen.nodes === undefined ? {} : { nodes: leader.frozen.nodes.map(agedSlot) }),
        ...(leader.frozen.ledger === undefined ? {} : { ledger: agedSlot(leader.frozen.ledger) }),
        ...(leader.frozen.jobs === undefined ? {} : { jobs: leader.frozen.jobs.map(agedSlot) }),
      },
      jobPasses: leader.jobPasses.map((pass) => ({
        ...pass,
        job: aged(pass.job),
        ...(pass.ledger === undefined ? {} : { ledger: agedSlot(pass.ledger) }),
        ...(pass.status === undefined ? {} : { status: aged(pass.status) }),
      })),
    })),
  };
}

/** The node as an earlier repair has left it. */
export const degradedNode = <T extends World['nodes'][number]>(slot: T): T =>
  slot.object === undefined
    ? slot
    : {
        ...slot,
        object: {
          ...slot.object,
          metadata: { ...slot.object.metadata, annotations: { [ANNOTATIONS.cordonOwner]: 'Degraded' } },
          spec: { ...slot.object.spec, unschedulable: true },
        },
      };
