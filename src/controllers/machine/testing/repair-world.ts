/** A cell in which nodes are repaired, with everything in it that may go wrong. */
import { defenderErrorCodes } from '../../../defender/errors.ts';
import { API_VERSION } from '../../../api/kind.ts';
import { isCoded } from '../../../api/errors.ts';
import type { Machine, Operation, OperationStatus } from '../../../api/machine.ts';
import { ANNOTATIONS } from '../../../api/names.ts';
import { isFinished, type RemedyOperationJob } from '../../../api/remedy-operation-job.ts';
import type { KubeObject, Stored } from '../../../api/wire.ts';
import { endOf, isControllerOperation } from '../../../api/machine/operation-end.ts';
import type { Move } from '../../../defender/guarded-write.ts';
import { rebuilt, takeLeadership } from '../../../defender/protocol.ts';
import { stateOf, withState } from '../../../defender/state.ts';
import type { Effect } from '../guards.ts';
import { leftReservations } from '../reservation/left-reservations.ts';
import { at, idle, job, node, NOW } from './objects.ts';
import { judgeRepairs } from './repair-judge.ts';
import { begin, down, NAMES, readNext, STORES, type Flight, type Leader, type Objects, type Site } from './repair-leader.ts';

export type Happening =
  /** The leader that is awake takes its next calls, or begins something: `pick` chooses what. */
  | { do: 'lead'; pick: number; calls: number; /** Its stores have caught up before it begins. */ current: boolean; known: boolean }
  /** The other one wakes, and this one sleeps in the middle of what it does. */
  | { do: 'wake-other' }
  /** The other one begins a term while this one is in the middle of something, which it goes on with when that `lands`. */
  | { do: 'oust' | 'land' }
  /** Something about a machine and its Node is written that means nothing here. */
  | { do: 'beat'; machine: number }
  /** One of its stores catches up; beyond the last of them: all. */
  | { do: 'sync'; leader: number; store: number }
  | { do: 'begin-term' | 'crash'; leader: number }
  /** A person deletes the ledger. The next term makes it: the other leader's, while this one is in the middle of something, or its own. */
  | { do: 'forget'; by: 'other' | 'own' }
  /** Its next write takes effect, and it gets no answer: it dies, or tries again. */
  | { do: 'lose-reply'; leader: number; dies: boolean }
  | { do: 'agent' | 'job' | 'cancel'; machine: number }
  /** Orders expire, and jobs run out of time. */
  | { do: 'late' }
  | { do: 'stopAgent' | 'hang' | 'due' | 'human'; machine: number; on: boolean }
  | { do: 'ready'; machine: number; on: boolean }
  | { do: 'limit'; to: number }
  | { do: 'freeze'; on: boolean }
  | { do: 'new-job'; machine: number; action: number; /** Though there is one that is not over. */ beside: boolean };

interface Agent {
  acting: string | undefined;
  /** Operations it knows: on its disk. */
  journal: Set<string>;
  boots: number;
}

const ACTIONS = ['Reboot', 'RestartComponent', 'MigratePods', 'CleanDisk'] as const;
/** Every happening takes this long. */
const STEP_MS = 250;
/** As long as an order may wait, and a job for its end. */
const LATE_MS = 300_000;
const JOB_MS = 200_000;
const stored = (job: RemedyOperationJob): Stored<RemedyOperationJob> => ({
  ...job,
  metadata: { ...job.metadata, uid: job.metadata.uid ?? '', resourceVersion: '1', creationTimestamp: at(0) },
});
const CAME_UP = { agentStale: false, hung: false, power: 'Running' } as const;

export interface RepairWorld {
  happen(happening: Happening): void;
  /** All agents, kubelets and the provider answer, one leader leads and sees all, and nothing new comes; at last what ousted leaders were in the middle of lands. */
  heal(): void;
  broken(): string[];
  unfinished(): string[];
  /** What happened, which shows whether a run meant anything. */
  readonly seen: Record<
    'orders' | 'cancellations' | 'cycles' | 'takeovers' | 'cuts' | 'forced' | 'degraded' | 'side by side' | 'forgotten',
    number
  >;
}

export function repairWorld(tampered: (objects: Objects) => Objects = (objects) => objects): RepairWorld {
  let version = 1;
  let nowMs = NOW;
  let ids = 0;
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
    rules: { limit: 1, frozen: false },
  });
  const pod = { namespace: 'web', name: 'p', uid: 'p', terminating: false };
  const sites: Site[] = NAMES.map(() => ({ ...CAME_UP, pods: [pod], spent: new Set<string>() }));
  const agents: Agent[] = NAMES.map(() => ({ acting: undefined, journal: new Set<string>(), boots: 0 }));
  const judge = judgeRepairs(sites);
  /** Unschedulable by a human's will. */
  const cordonedByHuman = NAMES.map(() => false);
  const seen = { orders: 0, cancellations: 0, cycles: 0, takeovers: 0, cuts: 0, forced: 0, degraded: 0, 'side by side': 0, forgotten: 0 };
  const leaders = [down(truth), down(truth)];
  let awake = 0;
  /** Leaders that were ousted, each in the middle of something. */
  const ousted: Leader[] = [];

  const around = () => ({ nowMs, sites, newID: () => `r${++ids}` });
  const stamped = <T extends KubeObject>(object: Stored<T>): Stored<T> => ({
    ...object,
    metadata: { ...object.metadata, resourceVersion: String(++version) },
  });
  function put<T extends KubeObject>(list: readonly Stored<T>[], index: number, object: Stored<T>): Stored<T>[] {
    return list.map((each, at) => (at === index ? stamped(object) : each));
  }
  function edit(index: number, change: (machine: Stored<Machine>) => Stored<Machine>): void {
    const machine = truth.machines[index];
    if (machine !== undefined) truth = { ...truth, machines: put(truth.machines, index, change(machine)) };
  }
  const editStatus = (index: number, status: Machine['status']): void =>
    edit(index, (machine) => ({ ...machine, status: { ...machine.status, ...status } }));
  function editNode(index: number, change: (node: Objects['nodes'][number]) => Objects['nodes'][number]): void {
    const found = truth.nodes[index];
    if (found !== undefined) truth = { ...truth, nodes: put(truth.nodes, index, change(found)) };
  }
  const siteOf = (index: number): Site => sites[index] ?? { ...CAME_UP, pods: [], spent: new Set() };
  const change = (index: number, site: Partial<Site>): void => void (sites[index] = { ...siteOf(index), ...site });

  /** The next call of a leader. */
  function advance(leader: Leader, flight: Flight): void {
    if (readNext(leader, flight, truth)) return;
    leader.flight = undefined;
    let move: Move<Effect>;
    try {
      move = flight.act.judge(flight.seen);
    } catch (error) {
      if (!isCoded(error, defenderErrorCodes, 'Deposed')) throw error;
      leader.epoch = undefined;
      return;
    }
    if ('stop' in move) return;
    if ('effect' in move) carryOut(leader, move.effect, flight);
    else write(leader, flight, move);
    if (leader.losesReply === 'dies') Object.assign(leader, down(truth));
    leader.losesReply = undefined;
  }

  function carryOut(leader: Leader, effect: Effect, { machine: index, seen: read }: Flight): void {
    const site = siteOf(index);
    const did = (): void => judge.did(index, effect, site, read.node, leader, truth);
    if ((effect.do === 'PowerCycle' || effect.do === 'StopInstance') && site.spent.has(effect.operationID)) return;
    switch (effect.do) {
      case 'Evict':
        if (site.pods.length === 0) return;
        did();
        return change(index, { pods: site.hung ? site.pods.map((each) => ({ ...each, terminating: true })) : [] });
      case 'ForceDelete':
        if (site.power !== 'Stopped') return;
        did();
        seen.forced++;
        return change(index, { pods: [] });
      case 'StopInstance':
        if (site.power === 'Stopped') return;
        did();
        seen.cuts++;
        return change(index, { power: 'Stopped', agentStale: true, hung: true });
      case 'PowerCycle':
        did();
        seen.cycles++;
        change(index, { ...CAME_UP, spent: new Set([...site.spent, effect.operationID]) });
        return boot(index);
      case 'RetirePower':
        return change(index, { spent: new Set([...site.spent, effect.operationID]) });
      case 'DeleteInstance':
      case 'DeleteMachine':
        return undefined;
      default:
        return effect satisfies never;
    }
  }

  function boot(index: number): void {
    const agent = agents[index];
    if (agent === undefined) return;
    agent.acting = undefined;
    editStatus(index, { agent: { version: '1', apiLevel: 1, os: 'linux', arch: 'amd64', bootID: `boot-${++agent.boots}` } });
  }

  function write(leader: Leader, flight: Flight, move: Extract<Move<Effect>, { write: string }>): void {
    const { machine: index } = flight;
    const before = truth;
    const [machine, found] = [truth.machines[index], truth.nodes[index]];
    const live = { machine, node: found, ledger: truth.ledger }[move.write];
    if (live?.metadata.resourceVersion !== move.object.metadata.resourceVersion) return;
    if (move.write === 'node') {
      truth = { ...truth, nodes: put(truth.nodes, index, move.object) };
      if (move.object.metadata.annotations?.[ANNOTATIONS.cordonOwner] === 'Degraded') seen.degraded++;
      if (found !== undefined) judge.wroteNode(index, found, move.object, flight.seen.machine, before);
    } else if (move.write === 'machine') {
      truth = { ...truth, machines: put(truth.machines, index, move.object) };
      count(machine?.spec.operation, move.object.spec.operation);
      if (machine !== undefined) judge.wroteMachine(index, machine, move.object, flight.decided, truth);
    } else {
      truth = { ...truth, ledger: stamped(move.object) };
      judge.wroteLedger(before, truth, leader, flight.decided);
      const reservations = stateOf(truth.ledger).reservations;
      if (
        stateOf(before.ledger).reservations.some((reservation) =>
          reservations.some((each) => each.machineUID === reservation.machineUID && each.id !== reservation.id),
        )
      )
        seen.takeovers++;
      if (reservations.length > 1) seen['side by side']++;
      const { releases } = move;
      if (releases === undefined) return;
      const needs = [
        releases.machine.resourceVersion,
        releases.node !== undefined && 'resourceVersion' in releases.node ? releases.node.resourceVersion : undefined,
      ];
      const isPassed = ({ machines, nodes }: Objects): boolean =>
        [machines[index], nodes[index]].every((object, at) => Number(object?.metadata.resourceVersion ?? 0) >= Number(needs[at] ?? 0));
      leader.marks.push(() => isPassed(leader.stores));
      judge.released(isPassed);
    }
  }

  function count(before: Operation | undefined, order: Operation | undefined): void {
    if (order === undefined || order.id === before?.id) return;
    if (order.kind === 'Cancelled') seen.cancellations++;
    else seen.orders++;
  }

  function agentStep(index: number): void {
    const agent = agents[index];
    const order = truth.machines[index]?.spec.operation;
    if (agent === undefined || siteOf(index).agentStale || order === undefined) return;
    const report = (operation: OperationStatus): void => editStatus(index, { operation });
    if (agent.acting !== undefined) {
      if (order.id === agent.acting) {
        if (order.action === 'Reboot') boot(index);
        report({ id: order.id, state: 'Done', outcome: 'Succeeded' });
      }
      agent.acting = undefined;
    } else if (order.kind === 'Repair' && !isControllerOperation(order.action) && !agent.journal.has(order.id)) {
      agent.journal.add(order.id);
      if (nowMs > Date.parse(order.notAfter)) return report({ id: order.id, state: 'Done', outcome: 'Cancelled' });
      agent.acting = order.id;
      judge.began(order.id);
    }
  }

  const openJobs = (index: number): RemedyOperationJob[] =>
    truth.jobs.filter((each) => each.spec.machine.name === NAMES[index] && !isFinished(each));
  function setJob(of: RemedyOperationJob, status: NonNullable<RemedyOperationJob['status']>): void {
    truth = { ...truth, jobs: truth.jobs.map((each) => (each === of ? { ...of, status: { ...of.status, ...status } } : each)) };
  }

  /** As the job controller does it. */
  function jobStep(of: RemedyOperationJob, machine: Stored<Machine>): void {
    const { phase, operationID, orderedAt } = of.status ?? {};
    const { operation } = machine.spec;
    const reservation = stateOf(truth.ledger).reservations.find((each) => each.requesterUID === of.metadata.uid);
    if (phase === undefined || phase === 'Pending') {
      if (reservation !== undefined) setJob(of, { phase: 'Granted', operationID: reservation.id, before: { bootID: '', conditions: [] } });
      else if (phase === undefined) setJob(of, { phase: 'Pending' });
    } else if (phase === 'Granted') {
      if (operation?.id === operationID && operation?.kind === 'Cancelled') setJob(of, { phase: 'Cancelled' });
      else if (operation?.id === operationID) setJob(of, { phase: 'Running', orderedAt: new Date(nowMs).toISOString() });
      else if (reservation === undefined) setJob(of, { phase: 'Cancelled' });
    } else if (operation?.id !== operationID) setJob(of, { phase: 'Failed' });
    else if (endOf(machine) !== undefined) setJob(of, { phase: 'Succeeded' });
    else if (nowMs > Date.parse(orderedAt ?? '') + JOB_MS) setJob(of, { phase: 'Failed' });
  }

  function setDue(index: number, on: boolean): void {
    const status = on ? ('True' as const) : ('False' as const);
    const condition = { type: 'RepairNeeded', status, reason: 'hung', message: '', lastTransitionTime: at(0) };
    editStatus(index, { conditions: [condition] });
  }

  function human(index: number, on: boolean): void {
    // A cordon over ours writes nothing, and one that comes right after ours was lifted resembles ours: neither can be distinguished.
    if (on && truth.nodes[index]?.metadata.annotations?.[ANNOTATIONS.cordonOwner] !== undefined) return;
    cordonedByHuman[index] = on;
    editNode(index, (found) => {
      const { unschedulable: _, ...spec } = found.spec ?? {};
      return { ...found, spec: on ? { ...spec, unschedulable: true } : spec };
    });
  }

  function beginTerm(index: number): void {
    const raised = takeLeadership(stateOf(truth.ledger));
    truth = { ...truth, ledger: stamped(withState(truth.ledger, raised)) };
    leaders[index] = { ...down(truth), epoch: raised.epoch };
    awake = index;
  }

  /** As `beginTerm` has it, in one moment; the order of its lists is explored elsewhere. */
  function forget(by: 'other' | 'own'): void {
    const { status: _, ...bare } = truth.ledger;
    const left = leftReservations({
      machines: truth.machines,
      nodes: truth.nodes,
      sets: [],
      jobs: truth.jobs.map(stored),
      since: new Date(nowMs).toISOString(),
    });
    const lost = truth;
    const { hours: __, ...state } = rebuilt({ epoch: 0, reservations: [] }, left, 0, at(0));
    // The highest that was given: what the resourceVersion of the server stands for.
    truth = { ...truth, ledger: stamped(withState(bare, { ...state, epoch: stateOf(truth.ledger).epoch })) };
    judge.forgot(lost, truth);
    seen.forgotten++;
    if (by === 'other') oust();
    else beginTerm(awake);
  }

  function oust(): void {
    const leader = leaders[awake];
    if (leader?.flight !== undefined) ousted.push(leader);
    leaders[awake] = down(truth);
    beginTerm(1 - awake);
  }

  function land(): void {
    const leader = ousted.shift();
    if (leader === undefined) return;
    for (let { flight } = leader; flight !== undefined; { flight } = leader) advance(leader, flight);
  }

  function toLeader(each: Extract<Happening, { leader: number }>): void {
    const leader = leaders[each.leader];
    if (leader === undefined) return;
    if (each.do === 'sync') {
      const kind = STORES[each.store];
      leader.stores = kind === undefined ? truth : { ...leader.stores, [kind]: truth[kind] };
    } else if (each.do === 'crash') leaders[each.leader] = down(truth);
    else if (each.do === 'lose-reply') leader.losesReply = each.dies ? 'dies' : 'lives';
    else beginTerm(each.leader);
  }

  function lead({ pick, calls, current, known }: Extract<Happening, { do: 'lead' }>): void {
    const leader = leaders[awake];
    if (leader === undefined) return;
    if (current && leader.flight === undefined) leader.stores = truth;
    for (let call = 0; call < calls; call++) {
      if (leader.flight === undefined && call > 0) break;
      if (leader.flight === undefined) begin(leader, pick, known, around());
      else advance(leader, leader.flight);
    }
  }

  function happen(each: Happening): void {
    nowMs += STEP_MS;
    if ('leader' in each) return toLeader(each);
    switch (each.do) {
      case 'lead':
        return lead(each);
      case 'late':
        nowMs += LATE_MS;
        return;
      case 'wake-other':
        awake = 1 - awake;
        return;
      case 'oust':
        return oust();
      case 'forget':
        return forget(each.by);
      case 'land':
        return land();
      case 'beat':
        edit(each.machine, (machine) => machine);
        return editNode(each.machine, (found) => found);
      case 'agent':
        return agentStep(each.machine);
      case 'job': {
        const machine = truth.machines[each.machine];
        if (machine !== undefined) for (const of of openJobs(each.machine)) jobStep(of, machine);
        return;
      }
      case 'stopAgent':
        // What has no power, or hangs, does not answer.
        return change(each.machine, { agentStale: each.on || siteOf(each.machine).hung });
      case 'hang':
        if (siteOf(each.machine).power === 'Running') change(each.machine, { hung: each.on, agentStale: each.on });
        return;
      case 'ready':
        return editNode(each.machine, (found) => ({
          ...found,
          status: { conditions: [{ type: 'Ready', status: each.on ? 'True' : 'False' }] },
        }));
      case 'due':
        return setDue(each.machine, each.on);
      case 'human':
        return human(each.machine, each.on);
      case 'limit':
        truth = { ...truth, rules: { ...truth.rules, limit: each.to } };
        return;
      case 'freeze':
        truth = { ...truth, rules: { ...truth.rules, frozen: each.on } };
        return;
      case 'cancel': {
        const [of] = openJobs(each.machine);
        if (of?.status?.phase === undefined || of.status.phase === 'Pending')
          return of === undefined ? undefined : setJob(of, { phase: 'Cancelled' });
        if (of.status.phase === 'Granted') setJob(of, { cancelling: { outcome: 'Cancelled', why: 'the condition cleared' } });
        return;
      }
      case 'new-job': {
        if (openJobs(each.machine).length > (each.beside ? 1 : 0)) return;
        const name = NAMES[each.machine] ?? '';
        const made = job({ name: `j${truth.jobs.length}`, machine: name, action: ACTIONS[each.action] ?? 'Reboot', status: {} });
        truth = { ...truth, jobs: [...truth.jobs, made] };
        if (truth.nodes[each.machine]?.spec?.unschedulable !== true && !siteOf(each.machine).hung) change(each.machine, { pods: [pod] });
        return;
      }
      default:
        each satisfies never;
    }
  }

  function unfinished(): string[] {
    const open = truth.jobs.filter((each) => !isFinished(each)).map(({ metadata, status }) => `job ${metadata.name} is ${status?.phase}`);
    const reservations = stateOf(truth.ledger).reservations.map(
      (reservation) => `${reservation.machine} has reservation ${reservation.id}`,
    );
    const cordoned = truth.nodes.filter((each) => each.spec?.unschedulable === true).map(({ metadata }) => `${metadata.name} is cordoned`);
    return [...open, ...reservations, ...cordoned];
  }

  function comeToRest(): void {
    happen({ do: 'limit', to: 1 });
    happen({ do: 'freeze', on: false });
    happen({ do: 'crash', leader: 1 });
    happen({ do: 'begin-term', leader: 0 });
    for (const machine of NAMES.keys()) {
      if (siteOf(machine).power === 'Stopped') change(machine, { power: 'Running' });
      for (const well of ['hang', 'stopAgent', 'due', 'human'] as const) happen({ do: well, machine, on: false });
      happen({ do: 'ready', machine, on: true });
    }
    for (let round = 0; round < 600 && unfinished().length > 0; round++) {
      for (const machine of NAMES.keys()) {
        happen({ do: 'sync', leader: 0, store: STORES.length });
        const pick = (round + machine) % 3 === 2 ? 2 * NAMES.length : machine;
        happen({ do: 'lead', pick, calls: 6, current: true, known: false });
        happen({ do: 'agent', machine });
        happen({ do: 'job', machine });
      }
    }
  }

  return {
    happen,
    unfinished,
    seen,
    broken() {
      const lost = NAMES.filter((_, index) => cordonedByHuman[index] === true && truth.nodes[index]?.spec?.unschedulable !== true);
      return [
        ...judge.broken(
          truth,
          agents.map(({ acting }) => acting),
        ),
        ...lost.map((name) => `invariant 6: ${name} lost the cordon that a human gave it`),
      ];
    },
    heal() {
      comeToRest();
      while (ousted.length > 0) land();
      comeToRest();
    },
  };
}
