import { canonical } from '../../../api/digest.ts';
import { DisruptionLedgers, LEDGER_NAME, type LedgerReservation } from '../../../api/disruption-ledger.ts';
import { isFinished, type JobPhase, type RemedyOperationJob } from '../../../api/remedy-operation-job.ts';
import type { Stored } from '../../../api/wire.ts';
import { createFaults, type Fault, type Faults } from './faults.ts';
import type { Process, RemedyCell } from './cell.ts';

/**
 * The real controllers, one or two leaders of them, over the embedded server, while nodes fail and recover, detectors forget, answers are
 * lost, watches lag, processes die between any two writes, and the wall clock jumps. Beside them play a machine controller that keeps to the
 * contract, and agents. What must never happen is checked at every version of every job; then the faults stop, and all must come to rest.
 */
export const MACHINES = ['a', 'b'];
export const TYPES = ['KernelDeadlock', 'ReadonlyFilesystem'] as const;
export const PROVED_SECONDS = 60;
export const ATTEMPTS = 2;

export type Step =
  | { do: 'fail' | 'recover' | 'forget' | 'stopDetector' | 'startDetector'; machine: string; type: (typeof TYPES)[number] }
  | { do: 'controller' | 'second' | 'crash' | 'stall' | 'resume' }
  | { do: 'agent'; machine: string; outcome: 'Succeeded' | 'TransientFailure'; cures: boolean }
  | { do: 'pass'; seconds: number }
  | { do: 'jump'; ms: number }
  | { do: 'edit'; spec: object }
  | { do: 'fault'; fault: Fault; after: number };

/** What must never happen, happened. */
function must(holds: boolean, what: string): asserts holds {
  if (!holds) throw new Error(what);
}

const RANK: Readonly<Record<JobPhase, number>> = {
  Pending: 1,
  Granted: 2,
  Running: 3,
  Verifying: 4,
  Succeeded: 5,
  Failed: 5,
  Cancelled: 5,
  NeedsHuman: 5,
  Shadow: 5,
};

interface Execution {
  jobUID: string;
  machineUID: string;
  rule: string;
  atMs: number;
  boot: string;
}

export class World {
  readonly executions: Execution[] = [];
  readonly #known = new Map<string, Stored<RemedyOperationJob>>();
  /** When a detector last reported that a condition is bad, by machine and type, monotonic. */
  readonly #bad = new Map<string, number>();
  readonly #beats = new Map<string, number>();
  readonly #processes: { process: Process; faults: Faults }[] = [];
  readonly #done = new Set<string>();
  readonly cell: RemedyCell;
  #boots = 1;

  constructor(cell: RemedyCell) {
    this.cell = cell;
  }

  async begin(): Promise<void> {
    const faults = createFaults();
    this.#processes.push({ process: await this.cell.start({ through: (transport) => faults.through(transport) }), faults });
  }

  /** Watches that the server ends are opened again; nothing else goes on for ever. */
  get #writes(): number {
    return this.#processes.reduce((sum, { process }) => sum + process.requests.filter(({ method }) => method !== 'GET').length, 0);
  }

  async play(each: Step): Promise<void> {
    const { cell } = this;
    const [first] = this.#processes;
    switch (each.do) {
      case 'fail':
      case 'recover':
        if (!cell.stopped.detector.has(each.machine))
          await this.#detect(each.machine, { [each.type]: each.do === 'fail' ? 'True' : 'False' });
        break;
      case 'forget': {
        const transition = new Date(cell.clock.now()).toISOString();
        await this.#detect(each.machine, { KernelDeadlock: 'False', ReadonlyFilesystem: 'False', GPUFault: 'False' }, transition);
        break;
      }
      case 'stopDetector':
        cell.stopped.detector.add(each.machine);
        break;
      case 'startDetector':
        cell.stopped.detector.delete(each.machine);
        break;
      case 'controller':
        await this.controller();
        break;
      case 'agent':
        await this.agent(each.machine, each.outcome, each.cures);
        break;
      case 'pass':
        await this.pass(each.seconds);
        break;
      case 'jump':
        cell.clock.jump(each.ms);
        break;
      case 'edit':
        await cell.edit('hung', each.spec);
        break;
      case 'fault':
        if (first !== undefined) first.faults.writes = [...Array.from({ length: each.after }, () => 'none' as const), each.fault];
        break;
      case 'stall':
      case 'resume':
        if (first !== undefined) first.faults.stalled = each.do === 'stall';
        break;
      case 'second':
        if (this.#processes.length < 2) await this.begin();
        else await this.#end(1);
        break;
      case 'crash':
        await this.#end(0);
        break;
      default:
    }
    for (const [index, { faults }] of this.#processes.entries()) if (faults.dead) await this.#end(index);
    if (this.#processes.length === 0) await this.begin();
    await this.judge();
  }

  async #end(index: number): Promise<void> {
    const [ended] = this.#processes.splice(index, 1);
    if (ended !== undefined) ended.faults.stalled = false;
    await ended?.process.stop();
  }

  async pass(seconds: number): Promise<void> {
    for (let left = seconds; left > 0; left -= 10) {
      await this.cell.pass(Math.min(left, 10));
      await this.#note();
      await this.judge();
    }
  }

  async #detect(name: string, conditions: Record<string, string>, transition?: string): Promise<void> {
    await this.cell.detect(name, conditions, transition === undefined ? {} : { transition });
    await this.#note();
  }

  /** What detectors report now. */
  async #note(): Promise<void> {
    const nowMs = this.cell.clock.monotonic();
    for (const name of MACHINES) {
      const node = await this.cell.node(name);
      for (const { type, status, lastHeartbeatTime } of node.status?.conditions ?? []) {
        if (status === 'True' && type !== 'Ready') this.#bad.set(`${name} ${type}`, nowMs);
        const beat = `${name} ${type} ${lastHeartbeatTime}`;
        if (!this.#beats.has(beat)) this.#beats.set(beat, nowMs);
      }
    }
  }

  /** A machine controller that keeps to the contract. */
  async controller(): Promise<void> {
    const { cell } = this;
    const jobs = await cell.jobs();
    const ledger = await cell.client.get(DisruptionLedgers, { name: LEDGER_NAME });
    const reservations = ledger.status?.reservations ?? [];
    for (const reservation of reservations)
      await this.#carry(
        reservation,
        jobs.find((job) => job.metadata.uid === reservation.requesterUID),
      );
    const held = new Set(reservations.map((reservation) => reservation.machineUID));
    for (const job of jobs) {
      if (job.status?.phase !== 'Pending' || held.has(job.spec.machine.uid)) continue;
      held.add(job.spec.machine.uid);
      await cell.reserve(job);
    }
  }

  async #carry(reservation: LedgerReservation, job: Stored<RemedyOperationJob> | undefined): Promise<void> {
    const { cell } = this;
    const machine = await cell.machine(reservation.machine.slice(4));
    const { operation } = machine.spec;
    const over = job === undefined || isFinished(job);
    if (operation?.id === reservation.id && operation.kind === 'Repair') {
      if (over && machine.status?.operation?.id === reservation.id && machine.status.operation.state === 'Done')
        await cell.release(reservation.id);
    } else if (operation?.id === reservation.id || over || job.status?.cancelling !== undefined) {
      const about = { ...(job ?? { spec: { machine: { name: machine.metadata.name } } }), status: { operationID: reservation.id } };
      if (operation?.id !== reservation.id) await cell.cancel(about as Stored<RemedyOperationJob>, 'its job shall be cancelled');
      await cell.release(reservation.id);
    } else if (job.status?.phase === 'Granted' && job.status.operationID === reservation.id && job.status.before !== undefined)
      await cell.order(job);
  }

  async agent(name: string, outcome: 'Succeeded' | 'TransientFailure', cures: boolean): Promise<void> {
    const { cell } = this;
    const machine = await cell.machine(name);
    const { operation } = machine.spec;
    if (operation?.kind !== 'Repair' || this.#done.has(operation.id)) return;
    this.#done.add(operation.id);
    const job = (await cell.jobs()).find((each) => each.status?.operationID === operation.id);
    must(job !== undefined, 'an order without a job that has its reservation');
    const boot = `boot-${++this.#boots}`;
    const atMs = cell.clock.monotonic();
    this.executions.push({ jobUID: job.metadata.uid, machineUID: machine.metadata.uid, rule: job.spec.rule, atMs, boot });
    const tried = this.executions.filter((each) => each.machineUID === machine.metadata.uid && each.rule === job.spec.rule);
    must(tried.length <= ATTEMPTS, `${tried.length} reboots by ${job.spec.rule} on ${name}`);
    await cell.boot(name, boot);
    if (cures) await this.#detect(name, { KernelDeadlock: 'False', ReadonlyFilesystem: 'False' });
    await cell.report({ ...job, status: { ...job.status, operationID: operation.id } }, outcome);
  }

  async judge(): Promise<void> {
    const jobs = await this.cell.jobs();
    for (const job of jobs) this.#judgeJob(job, this.#known.get(job.metadata.uid));
    for (const name of MACHINES) {
      const open = jobs.filter((job) => job.spec.machine.name === name && !isFinished(job) && job.spec.action !== 'Human');
      // Invariant 6. Two leaders may have asked for two rules at one moment; one operation is what is ever ordered.
      must(open.filter((job) => job.status?.orderedAt !== undefined).length <= 1, `two are ordered at once on ${name}`);
      for (const rule of ['hung', 'readonly'])
        must(open.filter((job) => job.spec.rule === rule).length <= 1, `two open jobs of ${rule} on ${name}`);
    }
  }

  #judgeJob(job: Stored<RemedyOperationJob>, before: Stored<RemedyOperationJob> | undefined): void {
    this.#known.set(job.metadata.uid, job);
    const [now, old] = [job.status, before?.status];
    if (now?.phase === old?.phase) return;
    const what = `${job.metadata.name}: ${old?.phase} to ${now?.phase}`;
    must((now?.phase === undefined ? 0 : RANK[now.phase]) > (old?.phase === undefined ? 0 : RANK[old.phase]), what);
    must(old?.operationID === undefined || now?.operationID === old.operationID, `${what}: another operation`);
    const executions = this.executions.filter((each) => each.jobUID === job.metadata.uid);
    must(executions.length <= 1, `${what}: executed twice`);
    // What was done is an attempt, with any result.
    must(now?.phase !== 'Cancelled' || executions.length === 0, `${what}, though it was executed`);
    if (now?.phase !== 'Succeeded') return;
    // Invariant 7: no success without the act, a new boot, a heartbeat since, and the time of the proof without a relapse.
    const [execution] = executions;
    must(execution !== undefined, `${what}, though nothing was executed`);
    const nowMs = this.cell.clock.monotonic();
    must(execution.boot !== now.before?.bootID, `${what} in the boot of the order`);
    const { condition } = job.spec.healedWhen;
    const { name } = job.spec.machine;
    const isReported = [...this.#beats].some(([beat, atMs]) => beat.startsWith(`${name} ${condition} `) && atMs >= execution.atMs);
    must(isReported, `${what}, though no heartbeat came since`);
    const wellMs = nowMs - (this.#bad.get(`${name} ${condition}`) ?? 0);
    must(wellMs >= PROVED_SECONDS * 1000, `${what} ${wellMs} ms after it was bad`);
  }

  /** Everything works from now on, and all parts act, until nothing happens any more. */
  async rest(): Promise<void> {
    // Two may lead for a while, never for long; with clocks that differ they would correct each other's times for ever.
    if (this.#processes.length > 1) await this.#end(0);
    for (const { faults } of this.#processes) {
      faults.writes = [];
      faults.stalled = false;
    }
    this.cell.stopped.detector.clear();
    await this.cell.edit('hung', { mode: 'Enforce', priority: 0 });
    let unrest = 'nothing was checked';
    for (let rounds = 0, still = 0; rounds < 150 && still < 3; rounds++) {
      await this.pass(30);
      await this.controller();
      for (const name of MACHINES) await this.agent(name, 'Succeeded', false);
      unrest = await this.#unrest();
      still = unrest === '' ? still + 1 : 0;
    }
    must(unrest === '', `it does not come to rest: ${unrest}`);
    const writes = this.#writes;
    await this.cell.pass(120);
    must(this.#writes === writes, `${this.#writes - writes} writes at rest`);
  }

  /** What is not as it should be in the end; empty: all is. */
  async #unrest(): Promise<string> {
    const jobs = await this.cell.jobs();
    const open = jobs.find((job) => !isFinished(job) && job.status?.phase !== 'NeedsHuman');
    if (open !== undefined) return `${open.metadata.name} ${open.status?.phase}: ${open.status?.explanation}`;
    const { status } = await this.cell.client.get(DisruptionLedgers, { name: LEDGER_NAME });
    if ((status?.reservations ?? []).length > 0) return `reservations are left: ${canonical(status?.reservations)}`;
    for (const name of MACHINES) {
      const node = await this.cell.node(name);
      for (const [rule, type] of [
        ['hung', 'KernelDeadlock'],
        ['readonly', 'ReadonlyFilesystem'],
      ] as const) {
        const isUnhealthy = node.status?.conditions?.some((each) => each.type === type && each.status === 'True') === true;
        const asked = jobs.some(
          ({ spec, ...job }) => spec.rule === rule && spec.node === name && spec.action === 'Human' && !isFinished(job),
        );
        if (asked !== isUnhealthy) return `${type} of ${name} is ${isUnhealthy}, and a human ${asked ? 'is' : 'is not'} asked`;
      }
    }
    return '';
  }
}
