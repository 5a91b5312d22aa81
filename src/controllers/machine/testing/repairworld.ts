import type { Node } from '../../../api/builtin.ts';
import type { DisruptionLedger } from '../../../api/disruptionledger.ts';
import { isCoded } from '../../../api/errors.ts';
import { API_VERSION } from '../../../api/kind.ts';
import type { Machine, Operation, OperationStatus } from '../../../api/machine.ts';
import { isFinished, type RemedyOperationJob } from '../../../api/remedyoperationjob.ts';
import type { KubeObject, Stored } from '../../../api/wire.ts';
import type { GuardedWrite, Move, Seen } from '../../../defender/guardedwrite.ts';
import { takeLeadership } from '../../../defender/protocol.ts';
import { stateOf, withState } from '../../../defender/state.ts';
import { actOf } from '../act.ts';
import { claimOf } from '../claim.ts';
import { ownerOf } from '../cordon.ts';
import { decide, isDraining } from '../decide.ts';
import type { AskFacts } from '../facts.ts';
import type { Effect } from '../guards.ts';
import { reservation } from '../pass.ts';
import { finalReport, isControllerOperation } from '../repair.ts';
import type { MachineView } from '../view.ts';
import { cellOf } from './cellof.ts';
import { at, idle, job, node, NOW } from './objects.ts';

export type Happening =
  /** The leader that is awake takes its next calls, or begins something: `pick` says what. */
  | { do: 'lead'; pick: number; calls: number; /** Its stores have caught up before it begins. */ current: boolean }
  /** The other one wakes, and this one sleeps in the middle of what it does. */
  | { do: 'wake-other' }
  /** One of its stores catches up; beyond the last of them: all. */
  | { do: 'sync'; leader: number; store: number }
  | { do: 'begin-term' | 'crash'; leader: number }
  /** Its next write takes effect, and it dies before it hears of that. */
  | { do: 'lose-reply'; leader: number }
  | { do: 'agent' | 'job' | 'cancel'; machine: number }
  /** Orders expire, and jobs run out of time. */
  | { do: 'late' }
  | { do: 'silence'; machine: number; silent: boolean }
  | { do: 'new-job'; machine: number; action: number };

interface Objects {
  machines: readonly Stored<Machine>[];
  nodes: readonly Stored<Node>[];
  ledger: Stored<DisruptionLedger>;
  jobs: readonly RemedyOperationJob[];
}
const STORES = ['machines', 'nodes', 'ledger', 'jobs'] as const;

interface Flight {
  act: GuardedWrite<Effect>;
  machine: number;
  seen: Seen;
  reads: number;
}

interface Leader {
  epoch: number | undefined;
  /** What it knows: each kind as it was when its store last caught up. */
  stores: Objects;
  flight: Flight | undefined;
  marks: (() => boolean)[];
  losesReply: boolean;
}

interface Agent {
  silent: boolean;
  acting: string | undefined;
  /** Operations it knows. */
  journal: Set<string>;
  boots: number;
}

const NAMES = ['a', 'b'];
const ACTIONS = ['Reboot', 'RestartComponent', 'MigratePods', 'CleanDisk'] as const;
const LIMIT = 1;
/** Every happening takes this long. */
const STEP_MS = 250;
/** As long as an order may wait, and a job for its end. */
const LATE_MS = 300_000;
const JOB_MS = 200_000;
const policies = [{ metadata: { name: 'cell' }, spec: { limits: [{ name: 'one', scope: 'Cluster' as const, maxUnavailable: LIMIT }] } }];

export interface RepairWorld {
  happen(happening: Happening): Promise<void>;
  /** Everybody answers, one leader leads and sees all, and nothing new comes. */
  heal(): Promise<void>;
  broken(): string[];
  unfinished(): string[];
  /** What happened, for telling whether a run meant anything. */
  readonly seen: { orders: number; cancellations: number; cycles: number; takeovers: number };
}

export function repairWorld(tampered: (objects: Objects) => Objects = (objects) => objects): RepairWorld {
  let version = 1;
  let nowMs = NOW;
  let ids = 0;
  const orders = new Map<string, number>();
  const began = new Map<string, number>();
  let truth: Objects = tampered({
    machines: NAMES.map((name) => idle({ name, spec: { drainTimeoutSeconds: 100, operationTimeoutSeconds: 150 } })),
    nodes: NAMES.map((name) => node(name)),
    ledger: {
      apiVersion: API_VERSION,
      kind: 'DisruptionLedger',
      metadata: { name: 'cell', uid: 'l', resourceVersion: '1', creationTimestamp: at(0) },
      spec: {},
    },
    jobs: [],
  });
  const pods = [1, 1];
  const cycles = new Set<string>();
  const seen = { orders: 0, cancellations: 0, cycles: 0, takeovers: 0 };
  const agents: Agent[] = NAMES.map(() => ({ silent: false, acting: undefined, journal: new Set(), boots: 0 }));
  const down = (): Leader => ({ epoch: undefined, stores: truth, flight: undefined, marks: [], losesReply: false });
  const leaders = [down(), down()];
  let awake = 0;

  function put<T extends KubeObject>(list: readonly Stored<T>[], index: number, object: Stored<T>): Stored<T>[] {
    return list.map((each, place) => (place === index ? stamped(object) : each));
  }
  const stamped = <T extends KubeObject>(object: Stored<T>): Stored<T> => ({
    ...object,
    metadata: { ...object.metadata, resourceVersion: String(++version) },
  });
  const edit = (index: number, change: (machine: Stored<Machine>) => Stored<Machine>): void => {
    const machine = truth.machines[index];
    if (machine !== undefined) truth = { ...truth, machines: put(truth.machines, index, change(machine)) };
  };
  const report = (index: number, operation: OperationStatus): void =>
    edit(index, (machine) => ({ ...machine, status: { ...machine.status, operation } }));

  function factsOf(leader: Leader, index: number): AskFacts {
    return {
      nowMs,
      sets: new Map(),
      freezes: [],
      jobsOf: (uid) => leader.stores.jobs.filter((each) => each.spec.machine.uid === uid && !isFinished(each)),
      canPowerCycle: () => true,
      agentAnswers: agents[index]?.silent !== true,
    };
  }

  function viewOf(leader: Leader, index: number): MachineView | undefined {
    const machine = leader.stores.machines[index];
    if (machine === undefined) return undefined;
    const providerID = machine.status?.providerID ?? '';
    const view: MachineView = {
      nowMs,
      machine,
      row: stateOf(leader.stores.ledger).rows.find((row) => row.machineUID === machine.metadata.uid),
      claim: claimOf(machine, providerID, leader.stores.nodes[index]),
      providerID,
      instanceID: providerID,
      instance: { state: 'Present', instance: { providerID, state: 'Running', addresses: [] } },
      kubeletAnswers: true,
      facts: factsOf(leader, index),
      pods: undefined,
      nodeDrift: false,
      revoked: undefined,
      canStop: true,
      powerCycled: false,
    };
    const left = Array.from({ length: pods[index] ?? 0 }, () => ({ namespace: 'web', name: 'p', uid: 'p', terminating: false }));
    return isDraining(view) ? { ...view, pods: left } : view;
  }

  function begin(leader: Leader, pick: number): void {
    const { epoch } = leader;
    if (epoch === undefined) return;
    const index = pick % 2;
    let act: GuardedWrite<Effect> | undefined;
    if (pick > 5) {
      act = reservation(
        epoch,
        () =>
          cellOf({
            facts: factsOf(leader, 0),
            machines: leader.stores.machines,
            nodeNamed: (name) => leader.stores.nodes[NAMES.indexOf(name)],
            kubeletAnswers: () => true,
            agentAnswers: (machine) => agents[NAMES.indexOf(machine.metadata.name)]?.silent !== true,
            policies,
            askingSince: () => 0,
            stale: leader.marks.every((passed) => passed()) ? undefined : 'a release is not seen',
          }),
        () => `r${++ids}`,
      );
    } else {
      const view = viewOf(leader, index);
      // One after the other, as they are carried out: what the provider has retired is not retired again.
      const [step] = view === undefined ? [] : decide(view).steps.filter((each) => each.do !== 'RetirePower' || !cycles.has(each.row.id));
      const name = NAMES[index] ?? '';
      const machine = { namespace: 'web', name };
      if (view !== undefined && step !== undefined)
        act = actOf(step, { epoch, machine, node: name, facts: view.facts, newID: () => `r${++ids}` });
    }
    if (act !== undefined) leader.flight = { act, machine: index, seen: {}, reads: 0 };
  }

  function advance(leader: Leader, flight: Flight): void {
    const target = flight.act.reads[flight.reads];
    if (target !== undefined) {
      const machine = truth.machines[flight.machine];
      const object =
        target === 'machine' ? { machine } : target === 'node' ? { node: truth.nodes[flight.machine] } : { ledger: truth.ledger };
      leader.flight = { ...flight, seen: { ...flight.seen, ...object }, reads: flight.reads + 1 };
      return;
    }
    leader.flight = undefined;
    let move: Move<Effect>;
    try {
      move = flight.act.judge(flight.seen);
    } catch (error) {
      if (!isCoded(error, 'Deposed')) throw error;
      leader.epoch = undefined;
      return;
    }
    if ('stop' in move) return;
    if ('effect' in move) carryOut(move.effect, flight.machine);
    else write(leader, flight.machine, move);
    if (leader.losesReply) Object.assign(leader, down());
  }

  function carryOut(effect: Effect, index: number): void {
    if (effect.do === 'Evict') pods[index] = 0;
    if (effect.do === 'RetirePower') cycles.add(effect.operationID);
    if (effect.do !== 'PowerCycle' || cycles.has(effect.operationID)) return;
    cycles.add(effect.operationID);
    seen.cycles++;
    boot(index);
    const agent = agents[index];
    if (agent !== undefined) Object.assign(agent, { silent: false, acting: undefined });
  }

  function boot(index: number): void {
    const agent = agents[index];
    if (agent === undefined) return;
    const bootID = `boot-${++agent.boots}`;
    edit(index, (machine) => ({
      ...machine,
      status: { ...machine.status, agent: { version: '1', apiLevel: 1, os: 'linux', arch: 'amd64', bootID } },
    }));
  }

  function write(leader: Leader, index: number, move: Extract<Move<Effect>, { write: string }>): void {
    const found = { machine: truth.machines[index], node: truth.nodes[index], ledger: truth.ledger }[move.write];
    if (found === undefined || found.metadata.resourceVersion !== move.object.metadata.resourceVersion) return;
    if (move.write === 'node') truth = { ...truth, nodes: put(truth.nodes, index, move.object) };
    else if (move.write === 'machine') {
      count(truth.machines[index]?.spec.operation, move.object.spec.operation);
      truth = { ...truth, machines: put(truth.machines, index, move.object) };
    } else {
      const rows = move.object.status?.rows ?? [];
      if (stateOf(truth.ledger).rows.some((row) => rows.some((each) => each.machineUID === row.machineUID && each.id !== row.id)))
        seen.takeovers++;
      truth = { ...truth, ledger: stamped(move.object) };
      const { releases } = move;
      if (releases === undefined) return;
      const needs = [
        releases.machine.resourceVersion,
        releases.node !== undefined && 'resourceVersion' in releases.node ? releases.node.resourceVersion : undefined,
      ];
      leader.marks.push(() =>
        [leader.stores.machines[index], leader.stores.nodes[index]].every(
          (object, place) => Number(object?.metadata.resourceVersion ?? 0) >= Number(needs[place] ?? 0),
        ),
      );
    }
  }

  function count(before: Operation | undefined, order: Operation | undefined): void {
    if (order === undefined || order.id === before?.id) return;
    if (order.kind === 'Cancelled') return void seen.cancellations++;
    seen.orders++;
    const row = stateOf(truth.ledger).rows.find((each) => each.id === order.id);
    const of = row?.requesterUID ?? `nobody, by order ${order.id}`;
    orders.set(of, (orders.get(of) ?? 0) + 1);
  }

  function agentStep(index: number): void {
    const agent = agents[index];
    const order = truth.machines[index]?.spec.operation;
    if (agent === undefined || agent.silent || order === undefined) return;
    if (agent.acting !== undefined) {
      if (order.id === agent.acting) {
        if (order.action === 'Reboot') boot(index);
        report(index, { id: order.id, state: 'Done', outcome: 'Succeeded' });
      }
      agent.acting = undefined;
    } else if (order.kind === 'Repair' && !isControllerOperation(order.action) && !agent.journal.has(order.id)) {
      agent.journal.add(order.id);
      if (nowMs > Date.parse(order.notAfter)) return report(index, { id: order.id, state: 'Done', outcome: 'Cancelled' });
      agent.acting = order.id;
      began.set(order.id, (began.get(order.id) ?? 0) + 1);
    }
  }

  const openJob = (index: number): RemedyOperationJob | undefined =>
    truth.jobs.find((each) => each.spec.machine.name === NAMES[index] && !isFinished(each));
  function setJob(of: RemedyOperationJob, status: NonNullable<RemedyOperationJob['status']>): void {
    truth = { ...truth, jobs: truth.jobs.map((each) => (each === of ? { ...of, status: { ...of.status, ...status } } : each)) };
  }

  /** As the job controller does it. */
  function jobStep(index: number): void {
    const of = openJob(index);
    const machine = truth.machines[index];
    if (of === undefined || machine === undefined) return;
    const { phase, operationID, orderedAt } = of.status ?? {};
    const { operation } = machine.spec;
    const row = stateOf(truth.ledger).rows.find((each) => each.requesterUID === of.metadata.uid);
    if (phase === 'Pending') {
      if (row !== undefined) setJob(of, { phase: 'Granted', operationID: row.id, before: { bootID: '', conditions: [] } });
    } else if (phase === 'Granted') {
      if (operation?.id === operationID && operation?.kind === 'Cancelled') setJob(of, { phase: 'Cancelled' });
      else if (operation?.id === operationID) setJob(of, { phase: 'Running', orderedAt: new Date(nowMs).toISOString() });
      else if (row === undefined) setJob(of, { phase: 'Cancelled' });
    } else if (operation?.id !== operationID) setJob(of, { phase: 'Failed' });
    else if (finalReport(machine) !== undefined) setJob(of, { phase: 'Succeeded' });
    else if (nowMs > Date.parse(orderedAt ?? '') + JOB_MS) setJob(of, { phase: 'Failed' });
  }

  async function happen(each: Happening): Promise<void> {
    nowMs += STEP_MS;
    await Promise.resolve();
    if (each.do === 'late') nowMs += LATE_MS;
    else if (each.do === 'wake-other') awake = 1 - awake;
    else if ('leader' in each || each.do === 'lead') {
      const leader = leaders[each.do === 'lead' ? awake : each.leader];
      if (leader === undefined) return;
      if (each.do === 'lead') {
        if (each.current && leader.flight === undefined) leader.stores = truth;
        for (let call = 0; call < each.calls; call++) {
          if (leader.flight === undefined && call > 0) break;
          if (leader.flight === undefined) begin(leader, each.pick);
          else advance(leader, leader.flight);
        }
      } else if (each.do === 'sync') {
        const kind = STORES[each.store];
        leader.stores = kind === undefined ? truth : { ...leader.stores, [kind]: truth[kind] };
      } else if (each.do === 'crash') Object.assign(leader, down());
      else if (each.do === 'lose-reply') leader.losesReply = true;
      else {
        const raised = takeLeadership(stateOf(truth.ledger));
        truth = { ...truth, ledger: stamped(withState(truth.ledger, raised)) };
        Object.assign(leader, down(), { epoch: raised.epoch });
        awake = each.leader;
      }
    } else if (each.do === 'agent') agentStep(each.machine);
    else if (each.do === 'job') jobStep(each.machine);
    else if (each.do === 'silence') {
      const agent = agents[each.machine];
      if (agent !== undefined) agent.silent = each.silent;
    } else if (each.do === 'cancel') {
      const of = openJob(each.machine);
      if (of?.status?.phase === 'Pending') setJob(of, { phase: 'Cancelled' });
      else if (of?.status?.phase === 'Granted') setJob(of, { cancelling: 'the condition cleared' });
    } else if (each.do === 'new-job' && openJob(each.machine) === undefined) {
      const made = job({ name: `j${truth.jobs.length}`, machine: NAMES[each.machine] ?? '', action: ACTIONS[each.action] ?? 'Reboot' });
      truth = { ...truth, jobs: [...truth.jobs, made] };
    }
  }

  function disrupted(): string[] {
    const rows = stateOf(truth.ledger).rows;
    return NAMES.filter((_, index) => {
      const uid = truth.machines[index]?.metadata.uid;
      const found = truth.nodes[index];
      return (
        rows.some((row) => row.machineUID === uid) ||
        (found !== undefined && ownerOf(found) !== undefined) ||
        agents[index]?.acting !== undefined
      );
    });
  }

  function unfinished(): string[] {
    const open = truth.jobs.filter((each) => !isFinished(each)).map(({ metadata, status }) => `job ${metadata.name} is ${status?.phase}`);
    return [...open, ...disrupted().map((name) => `${name} is disrupted or reserved`)];
  }

  return {
    happen,
    unfinished,
    seen,
    broken() {
      const names = disrupted();
      const { rows } = stateOf(truth.ledger);
      const over = names.length > LIMIT ? [`invariant 2: ${names.join(' and ')} are disrupted or reserved, the limit is ${LIMIT}`] : [];
      const twice = [...orders].filter(([, times]) => times > 1).map(([uid]) => `invariant 5: job ${uid} was ordered twice`);
      const again = [...began].filter(([, times]) => times > 1).map(([id]) => `invariant 5: operation ${id} was begun twice`);
      const fought = new Set(rows.map((row) => row.machineUID)).size < rows.length ? ['invariant 6: two rows for one machine'] : [];
      return [...over, ...twice, ...again, ...fought];
    },
    async heal() {
      await happen({ do: 'crash', leader: 1 });
      await happen({ do: 'begin-term', leader: 0 });
      for (const machine of NAMES.keys()) await happen({ do: 'silence', machine, silent: false });
      for (let round = 0; round < 400 && unfinished().length > 0; round++) {
        for (const machine of NAMES.keys()) {
          for (const store of STORES.keys()) await happen({ do: 'sync', leader: 0, store });
          await happen({ do: 'lead', pick: (round + machine) % 3 === 2 ? 7 : machine, calls: 6, current: true });
          await happen({ do: 'agent', machine });
          await happen({ do: 'job', machine });
        }
      }
    },
  };
}
