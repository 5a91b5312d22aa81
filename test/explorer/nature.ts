/** Everything that is not a leader, as small faithful stand-ins: agents, the set controller, people, time. */
import { controllerErrorCodes } from '../../src/controllers/shared/errors.ts';
import type { ComponentEntry, Machine, MachineStatus, Operation } from '../../src/api/machine.ts';
import { contentOf } from '../../src/api/machine/values.ts';
import type { Stored } from '../../src/api/wire.ts';
import { isCoded } from '../../src/api/errors.ts';
import { operatorRelease } from '../../src/controllers/machine/order/operator-release.ts';
import { isCordoned } from '../../src/controllers/machine/cordon/cordon.ts';
import { isFinished } from '../../src/api/remedy-operation-job.ts';
import { reporting, repairMoves, rungsLeft } from './repairs.ts';
import {
  component,
  entry,
  FRESH_AGENT,
  machineName,
  machineObject,
  nodeObject,
  replaced,
  TIMES,
  type Agent,
  type Budget,
  type Scenario,
  type World,
  type Successor,
} from './world.ts';

const OLD = '1.0.0';
const NEW = '2.0.0';

function withMachine(world: World, index: number, change: (machine: Stored<Machine>) => Stored<Machine>): World {
  const slot = world.machines[index];
  if (slot?.object === undefined) return world;
  const object = change(slot.object);
  const isSame = object.spec === slot.object.spec && object.metadata === slot.object.metadata;
  const own = isSame ? slot.own : slot.version + 1;
  return { ...world, machines: replaced(world.machines, index, { ...slot, version: slot.version + 1, own, object }) };
}

const withStatus = (world: World, index: number, change: (status: MachineStatus) => MachineStatus): World =>
  withMachine(world, index, (machine) => ({ ...machine, status: change(machine.status ?? {}) }));

const withAgent = (world: World, index: number, agent: Agent): World => ({ ...world, agents: replaced(world.agents, index, agent) });
const spend = (world: World, what: keyof Budget): World => ({ ...world, budget: { ...world.budget, [what]: world.budget[what] - 1 } });

export function natureMoves(world: World, scenario: Scenario, fresh: () => string = () => ''): Successor[] {
  const repairs = repairMoves(world, scenario, fresh);
  return world.machines
    .flatMap((slot, index) =>
      slot.object === undefined
        ? recreation(world, index)
        : [
            ...agentMoves(world, index, slot.object, scenario),
            ...setController(world, index, slot.object, scenario),
            ...people(world, index, slot.object, scenario),
          ],
    )
    .concat(scenario.repair === undefined ? once(world) : repairs)
    .concat(forgets(world));
}

const waits = (machine: Machine): boolean => machine.status?.components?.[0]?.state === 'Waiting';

function agentMoves(world: World, index: number, machine: Stored<Machine>, scenario: Scenario): Successor[] {
  const agent = world.agents[index];
  const wanted = machine.spec.components?.[0];
  const found = machine.status?.components?.[0];
  if (agent === undefined || wanted === undefined || found === undefined || agent.state === 'dead') return [];
  const site = world.sites[index];
  if ((site !== undefined && !reporting(site).agent) || agent.order?.kind === 'Repair' || agent.report !== undefined) return [];
  const name = `agent ${machineName(index)}`;
  const moves: Successor[] = [];
  const move = (label: string, next: World, fault = false): void => void moves.push({ label: `${name} ${label}`, world: next, fault });

  if (agent.state === 'acting' && agent.order !== undefined) {
    const { order } = agent;
    const idle: Agent = { ...agent, state: 'idle', order: undefined };
    const done = (outcome: 'Succeeded' | 'PermanentFailure', changed: MachineStatus['components']): World =>
      withStatus(withAgent(world, index, idle), index, (status) => ({
        ...status,
        ...(changed === undefined ? {} : { components: changed }),
        operation: { id: order.id, state: 'Done', outcome },
      }));
    if (order.kind === 'Delete') {
      move('has cleaned up', done('Succeeded', undefined));
      return moves;
    }
    const revision = order.components?.[0]?.revision ?? 0;
    const bad = scenario.fails !== undefined && agent.version === NEW;
    if (bad)
      move(
        `fails, ${scenario.fails ?? ''}`,
        done('PermanentFailure', [
          { ...found, state: 'Failed', failed: { revision, reason: 'ProbeFailed', message: '', restored: scenario.fails === 'restored' } },
        ]),
      );
    else
      move(
        'succeeds',
        done('Succeeded', [component(agent.version ?? '', contentOf({ action: 'Install', version: agent.version ?? '' }), revision)]),
      );
    return moves;
  }
  if (agent.state === 'about-to-start' && agent.order !== undefined) {
    const { order } = agent;
    move(
      'starts',
      withStatus(withAgent(world, index, { ...agent, state: 'acting', last: order.id, epoch: order.epoch }), index, (status) => ({
        ...status,
        operation: { id: order.id, state: 'Running' },
      })),
    );
    return moves;
  }
  if (found.revision < wanted.revision) {
    const content = contentOf(wanted);
    const next =
      content === found.content
        ? { ...component(wanted.version, content, wanted.revision) }
        : {
            ...found,
            revision: wanted.revision,
            state: 'Waiting' as const,
            needs: scenario.needs ?? 'Restart',
            needsFor: 'Change' as const,
          };
    move(
      'announces',
      withStatus(world, index, (status) => ({ ...status, components: [next] })),
    );
  }
  const order = machine.spec.operation;
  if (order !== undefined && order.kind !== 'Cancelled' && order.kind !== 'Repair' && order.id !== agent.last && order.epoch >= agent.epoch)
    moves.push(...takes(world, index, machine, agent, order, wanted));
  return moves;
}

function takes(world: World, index: number, machine: Stored<Machine>, agent: Agent, order: Operation, wanted: ComponentEntry): Successor[] {
  const refuse = (outcome: 'Cancelled' | 'Superseded'): Successor[] => [
    {
      label: `agent ${machineName(index)} reports ${outcome}`,
      world: withStatus(withAgent(world, index, { ...agent, last: order.id, epoch: order.epoch }), index, (status) => ({
        ...status,
        operation: { id: order.id, state: 'Done', outcome },
      })),
      fault: false,
    },
  ];
  if (TIMES[world.time] > Date.parse(order.notAfter)) return refuse('Cancelled');
  if (order.kind === 'Change' && (!waits(machine) || order.components?.[0]?.revision !== wanted.revision)) {
    // A newer entry that has not been announced yet: the order is for what is no longer wanted.
    return refuse('Superseded');
  }
  return [
    {
      label: `agent ${machineName(index)} is about to start`,
      world: withAgent(world, index, { ...agent, state: 'about-to-start', order, version: wanted.version }),
      fault: false,
    },
  ];
}

/** docs/protocols.md#a5, in one write: the last verified content, a new revision, and what failed. Where nothing is verified, only what failed. */
function setController(world: World, index: number, machine: Stored<Machine>, scenario: Scenario): Successor[] {
  const wanted = machine.spec.components?.[0];
  const failed = machine.status?.components?.[0]?.failed;
  if (wanted === undefined || failed === undefined || failed.revision !== wanted.revision || wanted.failed !== undefined) return [];
  const record = { setRevision: wanted.setRevision, attempt: wanted.attempt, reason: failed.reason };
  const next: ComponentEntry =
    scenario.verified === false
      ? { ...wanted, failed: record }
      : { ...entry(OLD, wanted.revision + 1, wanted.setRevision), failed: record };
  return [
    {
      label: `the set controller answers the failure on ${machineName(index)}`,
      world: withMachine(world, index, (each) => ({ ...each, spec: { ...each.spec, components: [next] } })),
      fault: false,
    },
  ];
}

function people(world: World, index: number, machine: Stored<Machine>, scenario: Scenario): Successor[] {
  const moves: Successor[] = [];
  const happens = (label: string, next: World): void => void moves.push({ label, world: next, fault: true });
  const wanted = machine.spec.components?.[0];
  const { budget } = world;
  if (budget.revert > 0 && wanted?.version === NEW)
    happens(
      `the set is reverted on ${machineName(index)}`,
      withMachine(spend(world, 'revert'), index, (each) => ({
        ...each,
        spec: { ...each.spec, components: [entry(OLD, wanted.revision + 1, wanted.setRevision + 1)] },
      })),
    );
  if (budget.deletion > 0 && machine.metadata.deletionTimestamp === undefined)
    happens(
      `${machineName(index)} is deleted by a human`,
      withMachine(spend(world, 'deletion'), index, (each) => ({
        ...each,
        metadata: { ...each.metadata, deletionTimestamp: '2026-11-20T00:00:00Z' },
      })),
    );
  if (budget.agentDeath > 0 && world.agents[index]?.state !== 'dead') {
    const agent = world.agents[index];
    if (agent !== undefined)
      happens(
        `the node of ${machineName(index)} dies`,
        withAgent(spend(world, 'agentDeath'), index, { ...agent, state: 'dead', order: undefined }),
      );
  }
  const node = world.nodes[index];
  if (node?.object !== undefined && budget.cordonByHuman > 0 && !isCordoned(node.object) && world.cordonedByHuman[index] !== true) {
    const object = { ...node.object, spec: { ...node.object.spec, unschedulable: true } };
    happens(`a human cordons ${machineName(index)}`, {
      ...spend(world, 'cordonByHuman'),
      nodes: replaced(world.nodes, index, { ...node, version: node.version + 1, object }),
      cordonedByHuman: replaced(world.cordonedByHuman, index, true),
    });
  }
  if (node?.object !== undefined && world.cordonedByHuman[index] === true) {
    // As `kubectl uncordon` does: it knows nothing of owners.
    const { unschedulable: _, ...spec } = node.object.spec ?? {};
    const freed = { ...node.object, spec };
    const nodes = replaced(world.nodes, index, { ...node, version: node.version + 1, object: freed });
    moves.push({
      label: `the human uncordons ${machineName(index)}`,
      world: { ...world, nodes, cordonedByHuman: replaced(world.cordonedByHuman, index, false) },
      fault: false,
    });
  }
  if (node?.object !== undefined && budget.reregister > 0)
    happens(`a person deletes the Node of ${machineName(index)}`, {
      ...spend(world, 'reregister'),
      nodes: replaced(world.nodes, index, { version: node.version + 1, object: undefined }),
      cordonedByHuman: replaced(world.cordonedByHuman, index, false),
    });
  // Only where one was deleted: a machine that goes has its Node deleted with the last of it.
  if (
    node !== undefined &&
    node.object === undefined &&
    scenario.budget.reregister !== undefined &&
    machine.metadata.deletionTimestamp === undefined
  ) {
    const again = nodeObject(index, 1);
    const object = {
      ...again,
      metadata: { ...again.metadata, uid: `${again.metadata.uid}-${scenario.budget.reregister - budget.reregister}` },
    };
    const nodes = replaced(world.nodes, index, { version: node.version + 1, object });
    moves.push({ label: `the Node of ${machineName(index)} registers again`, world: { ...world, nodes }, fault: false });
  }
  if (isLost(world, index, machine, scenario)) moves.push(...released(world, index, machine));
  return moves;
}

/** Nothing but an operator can end what its agent has begun. */
function isLost(world: World, index: number, machine: Stored<Machine>, { repair }: Scenario): boolean {
  const site = world.sites[index];
  const job = world.jobs[index]?.object;
  if (world.agents[index]?.state === 'dead') return true;
  if (repair === undefined || site === undefined || reporting(site).agent || (job !== undefined && !isFinished(job))) return false;
  return rungsLeft(world, index, repair) === 0 || machine.spec.operation?.kind === 'Change' || world.withdrawn;
}

function released(world: World, index: number, machine: Stored<Machine>): Successor[] {
  try {
    const object = operatorRelease(machine, 'the node is lost');
    const agent = world.agents[index];
    const freed = withMachine(world, index, () => object);
    // An operation is given up only by a leader which knows that it does not run any more.
    const still = agent?.order === undefined ? freed : withAgent(freed, index, { ...agent, state: 'idle', order: undefined });
    return [{ label: `an operator releases ${machineName(index)}`, world: still, fault: false }];
  } catch (error) {
    if (!isCoded(error, controllerErrorCodes, 'NothingToRelease')) throw error;
    return [];
  }
}

/** Under the same name, with another UID, another instance and another Node. */
function recreation(world: World, index: number): Successor[] {
  const slot = world.machines[index];
  const node = world.nodes[index];
  if (slot === undefined || node === undefined || world.budget.recreate === 0) return [];
  const machine = machineObject(index, 2, statusOf(index, 2, true), [entry(NEW, 2, 2)]);
  return [
    {
      label: `${machineName(index)} is made again`,
      world: {
        ...spend(world, 'recreate'),
        machines: replaced(world.machines, index, { version: slot.version + 1, object: machine }),
        nodes: replaced(world.nodes, index, { version: node.version + 1, object: nodeObject(index, 2) }),
        agents: replaced(world.agents, index, FRESH_AGENT),
        instances: replaced(world.instances, index, machine.metadata.uid),
        cordonedByHuman: replaced(world.cordonedByHuman, index, false),
      },
      fault: true,
    },
  ];
}

function forgets(world: World): Successor[] {
  if (world.budget.forget === 0 || world.ledger.object === undefined) return [];
  const ledger = { version: world.ledger.version + 1, object: undefined };
  return [{ label: 'a person deletes the ledger', world: { ...spend(world, 'forget'), ledger }, fault: true }];
}

function once(world: World): Successor[] {
  const moves: Successor[] = [];
  if (world.budget.expiry > 0 && world.time === 0)
    moves.push({ label: 'the time of every order passes', world: { ...spend(world, 'expiry'), time: 1 }, fault: false });
  if (world.budget.halt > 0 && !world.halted)
    moves.push({ label: 'the set halts', world: { ...spend(world, 'halt'), halted: true }, fault: true });
  if (world.halted) moves.push({ label: 'a human lifts the halt', world: { ...world, halted: false }, fault: false });
  return moves;
}

export function statusOf(index: number, generation: number, verified: boolean): MachineStatus {
  const content = contentOf({ action: 'Install', version: OLD });
  return {
    providerID: `p://${machineName(index)}-${generation}`,
    firstReadyAt: '2026-11-19T00:00:00Z',
    nodeRef: { name: machineName(index), uid: `n${index}-${generation}` },
    agent: { version: '1', apiLevel: 1, bootID: 'b', os: 'linux', arch: 'amd64' },
    components: [component(OLD, content, 1)],
    ...(verified
      ? { verified: [{ name: 'kubelet', version: OLD, revision: 1, setUID: 'set', bootID: 'b', since: '2026-11-19T00:00:00Z' }] }
      : {}),
  };
}

export const oldEntry = (): ComponentEntry => entry(OLD, 1, 1);
export const newEntry = (): ComponentEntry => entry(NEW, 2, 2);
