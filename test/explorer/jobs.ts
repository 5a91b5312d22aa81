/** The remedyjob controller of a leader: its real decision, over stores that may be old, and its one write, conditioned on the job that was decided on. */
import type { Node } from '../../src/api/builtin.ts';
import type { Machine } from '../../src/api/machine.ts';
import { isFinished, type RemedyOperationJob, type RemedyOperationJobStatus } from '../../src/api/remedy-operation-job.ts';
import type { Stored } from '../../src/api/wire.ts';
import { decide } from '../../src/controllers/remedy-job/decide.ts';
import type { JobView } from '../../src/controllers/remedy-job/observe.ts';
import { stateOf } from '../../src/defender/state.ts';
import { takeSnapshot, type Snapshot } from '../../src/rules/snapshot.ts';
import type { Mutation } from './mutants.ts';
import { reporting, needsRepair, SICK } from './repairs.ts';
import { replaced, TIMES, type Cell, type Slot, type Leader, type JobPass, type Site, type World } from './world.ts';

interface JobMove {
  label: string;
  leader: Leader;
  jobs: World['jobs'];
}

/** Passes that begin, go on and end. */
export function jobMoves(world: World, leader: Leader, cell: Cell, mutation: Mutation): JobMove[] {
  const moves: JobMove[] = [];
  const others = (pass: JobPass): readonly JobPass[] => leader.jobPasses.filter((each) => each !== pass);
  for (const pass of leader.jobPasses) moves.push({ jobs: world.jobs, ...goOn(world, leader, pass, others(pass), mutation) });
  // One at a time: passes over different jobs share nothing.
  if (leader.jobPasses.length > 0) return moves;
  cell.jobs.forEach((slot, index) => {
    const { object: job, version } = slot;
    if (job === undefined || isFinished(job)) return;
    const reported = reportedOf(job, jobView(world, cell, index, job, mutation.jobsByStores === true), mutation);
    const label = `reconciles the job of m${index}`;
    if (reported === 'Read') {
      // As src/controllers/remedy-job/observe.ts has it: before it has a reservation all is read at once, and the ledger may come last.
      const asks = job.status?.phase === undefined || job.status.phase === 'Pending';
      const first = asks ? { machine: world.machines[index], node: world.nodes[index] } : { ledger: world.ledger };
      moves.push({
        label: `${label}: reads the ${asks ? 'machine' : 'ledger'}`,
        jobs: world.jobs,
        leader: withJobPasses(leader, [{ index, version, job, ...first }]),
      });
    } else if (reported !== undefined) {
      const jobs = written(world, index, version, job, reported, mutation);
      if (jobs !== world.jobs) moves.push({ label: `${label}: ${reported.phase ?? ''}`, leader, jobs });
    }
  });
  return moves;
}

function goOn(
  world: World,
  leader: Leader,
  pass: JobPass,
  others: readonly JobPass[],
  mutation: Mutation,
): Omit<JobMove, 'jobs'> & Partial<Pick<JobMove, 'jobs'>> {
  const { index, version, job, ledger, machine, node, status } = pass;
  const label = `reconciles the job of m${index}`;
  if (status !== undefined)
    return {
      label: `${label}: ${status.phase ?? ''}`,
      leader: withJobPasses(leader, others),
      jobs: written(world, index, version, job, status, mutation),
    };
  const read: Cell = {
    ...world,
    ledger: ledger ?? world.ledger,
    ...(machine === undefined ? {} : { machines: replaced(world.machines, index, machine) }),
    ...(node === undefined ? {} : { nodes: replaced(world.nodes, index, node) }),
  };
  const rest = ledger === undefined ? 'ledger' : 'machine';
  const reported = reportedOf(job, jobView(world, read, index, job, true), mutation);
  if (reported === undefined || reported === 'Read')
    return { label: `${label}: reads the ${rest}, and waits`, leader: withJobPasses(leader, others) };
  return { label: `${label}: reads the ${rest}`, leader: withJobPasses(leader, [...others, { index, version, job, status: reported }]) };
}

const withJobPasses = (leader: Leader, jobPasses: readonly JobPass[]): Leader => ({ ...leader, jobPasses });

/** A merge patch of what differs, which the server refuses where the job has changed. */
function written(
  world: World,
  index: number,
  version: number,
  job: Stored<RemedyOperationJob>,
  status: RemedyOperationJobStatus,
  mutation: Mutation,
): World['jobs'] {
  const slot = world.jobs[index];
  if (slot?.object === undefined || slot.object.metadata.uid !== job.metadata.uid) return world.jobs;
  if (slot.version !== version && mutation.jobsUnconditioned !== true) return world.jobs;
  return replaced(world.jobs, index, { version: slot.version + 1, object: { ...slot.object, status } });
}

/** What is to be written; undefined: nothing. What only shows people how far a job is would be a state of its own at each step, and decides nothing. */
function reportedOf(job: Stored<RemedyOperationJob>, view: JobView, mutation: Mutation): RemedyOperationJobStatus | 'Read' | undefined {
  const decision = decide(view);
  if (decision.step === 'Read') return 'Read';
  if (decision.step !== 'Write') return undefined;
  const { steps: _, step: __, answer: ___, verdict: ____, explanation: _____, ...deciding } = decision.status;
  const status = mutation.reported?.(deciding) ?? deciding;
  return JSON.stringify(status) === JSON.stringify(job.status) ? undefined : status;
}

function jobView(world: World, cell: Cell, index: number, job: Stored<RemedyOperationJob>, isLive: boolean): JobView {
  const found = cell.machines[index]?.object;
  const machine = found?.metadata.uid === job.spec.machine.uid ? found : undefined;
  const at = cell.nodes[index]?.object;
  const node = at?.metadata.uid === machine?.status?.nodeRef?.uid ? at : undefined;
  const site = world.sites[index];
  return {
    nowMs: TIMES[0],
    job,
    machine,
    node,
    reservation: stateOf(cell.ledger.object ?? {}).reservations.find((reservation) => reservation.requesterUID === job.metadata.uid),
    isLedgerBegun: stateOf(cell.ledger.object ?? {}).epoch > 0,
    snapshot: machine === undefined || site === undefined ? undefined : snapshotOf(machine, node, site, job),
    rule: world.withdrawn ? 'Gone' : 'Enforced',
    matches: world.withdrawn || machine === undefined ? undefined : needsRepair(world, index) ? 'True' : 'False',
    superseded: undefined,
    diagnosis: [],
    hasSuccessor: false,
    forgetAfterMs: 0,
    isLive,
  };
}

/** Detectors report at every moment where anything on the node does: a heartbeat after the action's end is there at once. */
function snapshotOf(machine: Stored<Machine>, node: Slot<Node>['object'], site: Site, job: Stored<RemedyOperationJob>): Snapshot {
  const on = reporting(site).kubelet;
  const beat = job.status?.phase === 'Verifying' ? '2026-11-20T00:00:00Z' : '2026-11-19T23:59:00Z';
  const conditions = [
    {
      type: SICK,
      status: site.health === 'sick' ? ('True' as const) : ('False' as const),
      lastHeartbeatTime: beat,
      lastTransitionTime: '2026-11-19T00:00:00Z',
    },
    {
      type: 'Ready',
      status: on ? ('True' as const) : ('Unknown' as const),
      lastHeartbeatTime: beat,
      lastTransitionTime: '2026-11-19T00:00:00Z',
    },
  ];
  const nowMs = TIMES[0];
  const aliveMs = on ? nowMs : Number.NEGATIVE_INFINITY;
  return takeSnapshot({
    nowMs,
    machine,
    node: node === undefined ? undefined : { ...node, status: { ...node.status, conditions } },
    heartbeats: { nodeUID: node?.metadata.uid ?? '', byType: new Map(conditions.map(({ type }) => [type, { value: beat, aliveMs }])) },
    kubeletFreshUntilMs: nowMs + (on ? 1 : -1),
    agentFreshUntilMs: nowMs + (reporting(site).agent ? 1 : -1),
    peers: {},
    pause: { paused: false, releasedAtMs: undefined },
  });
}
