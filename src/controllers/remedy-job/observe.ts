/** Everything that the decision about one job needs, as one value. */
import { Nodes, type Node } from '../../api/builtin.ts';
import { DisruptionLedgers, LEDGER_NAME, type DisruptionLedger, type LedgerReservation } from '../../api/disruption-ledger.ts';
import { Machines, type Machine } from '../../api/machine.ts';
import type { RemedyOperationJob } from '../../api/remedy-operation-job.ts';
import type { Stored } from '../../api/wire.ts';
import type { Client } from '../../kube/client.ts';
import type { Truth } from '../../rules/evaluate.ts';
import { diagnosisOf } from '../../rules/job.ts';
import { DEFAULT_FORGET_AFTER_SECONDS } from '../../api/node-remedier/values.ts';
import { nextRung } from '../../rules/ladder.ts';
import { runPass, type RuleOutcome } from '../../rules/pass.ts';
import type { Snapshot } from '../../rules/snapshot.ts';
import type { RemedyCache } from '../remedy/remedy-cache.ts';

export interface JobView {
  nowMs: number;
  job: Stored<RemedyOperationJob>;
  /** The job with this UID; another one with its name does not count. */
  machine: Stored<Machine> | undefined;
  /** That the machine has claimed. */
  node: Stored<Node> | undefined;
  /** Of the ledger: what this job asked for. */
  reservation: LedgerReservation | undefined;
  /** The ledger is there, and a term has begun in it. */
  isLedgerBegun: boolean;
  /** undefined where there is no machine. */
  snapshot: Snapshot | undefined;
  /** How its rule stands now: it may have been edited or deleted since. */
  rule: 'Enforced' | 'Shadow' | 'Refused' | 'Gone';
  /** Of the rule's conditions; undefined where it does not run. A rule that is not about the machine any more does not match. */
  matches: Truth | undefined;
  superseded: string | undefined;
  /** What a human should know. */
  diagnosis: readonly string[];
  /** Whether a later job of its rule is known on its machine, and for how long the ladder remembers it. */
  hasSuccessor: boolean;
  forgetAfterMs: number;
  /** Machine, node and reservation were read from the server just now, and not from a store that may be old. */
  isLive: boolean;
}

interface Found {
  machine: Stored<Machine> | undefined;
  node: Stored<Node> | undefined;
  reservation: LedgerReservation | undefined;
  isLedgerBegun: boolean;
}

/** A term has begun in it: its reservations are known. */
export function isBegun(ledger: DisruptionLedger | undefined): boolean {
  const epoch = ledger?.status?.epoch;
  return epoch !== undefined && epoch > 0;
}

function stored(remedyCache: RemedyCache, job: Stored<RemedyOperationJob>): Found {
  const machine = remedyCache.stores.machines.get({ namespace: job.metadata.namespace, name: job.spec.machine.name });
  const name = machine?.status?.nodeRef?.name;
  return {
    machine,
    node: name === undefined ? undefined : remedyCache.stores.nodes.get({ name }),
    reservation: remedyCache.reservationAskedBy(job.metadata.uid),
    isLedgerBegun: isBegun(remedyCache.stores.ledgers.get({ name: LEDGER_NAME })),
  };
}

/**
 * Of a job that has no reservation yet nothing was done to the node: what is read may be of any order, and is read at once. Later the ledger comes first,
 * so that what the Machine shows is at least as new as the reservation, or its absence, and the Node last, so that what it shows is at least as new as
 * the end that the Machine reports.
 */
async function read(client: Client, job: Stored<RemedyOperationJob>, signal: AbortSignal): Promise<Found> {
  const readLedger = () => client.find(DisruptionLedgers, { name: LEDGER_NAME }, { signal });
  const readMachine = () => client.find(Machines, { namespace: job.metadata.namespace, name: job.spec.machine.name }, { signal });
  const readNode = async (name: string | undefined) =>
    name === undefined || name === '' ? undefined : await client.find(Nodes, { name }, { signal });
  const phase = job.status?.phase;
  const [ledger, machine, node] =
    phase === undefined || phase === 'Pending'
      ? await Promise.all([readLedger(), readMachine(), readNode(job.spec.node)])
      : [await readLedger(), await readMachine(), undefined];
  const name = machine?.status?.nodeRef?.name;
  const reservation = ledger?.status?.reservations?.find((each) => each.requesterUID === job.metadata.uid);
  const claimed = node?.metadata.name === name ? node : await readNode(name);
  return { machine, node: claimed, reservation, isLedgerBegun: isBegun(ledger) };
}

/** `live`: reads from the server instead of the stores. */
export async function observe(
  remedyCache: RemedyCache,
  job: Stored<RemedyOperationJob>,
  live: { client: Client; signal: AbortSignal } | undefined,
): Promise<JobView> {
  const found = live === undefined ? stored(remedyCache, job) : await read(live.client, job, live.signal);
  const { uid } = job.spec.machine;
  const machine = found.machine?.metadata.uid === uid ? found.machine : undefined;
  const node = found.node?.metadata.uid === machine?.status?.nodeRef?.uid ? found.node : undefined;
  const snapshot = machine === undefined ? undefined : remedyCache.snapshot(machine, { node: found.node });
  const { index, sources } = remedyCache.rulebook();
  const rule = index.rules.get(job.spec.rule);
  const outcome = snapshot === undefined ? undefined : await evaluate(remedyCache, job, snapshot);
  const own = remedyCache.jobsOf(uid).filter((each) => each.spec.rule === job.spec.rule);
  return {
    nowMs: snapshot?.atMs ?? remedyCache.now(),
    job,
    machine,
    node,
    reservation: found.reservation,
    isLedgerBegun: found.isLedgerBegun,
    snapshot,
    rule:
      rule === undefined ? (sources.has(job.spec.rule) ? 'Refused' : 'Gone') : rule.rule.spec.mode === 'Enforce' ? 'Enforced' : 'Shadow',
    matches: rule === undefined || snapshot === undefined ? undefined : (outcome?.truth ?? 'False'),
    superseded: remedyCache.supersededBy(job.metadata.uid),
    diagnosis: job.spec.action === 'Human' && job.status?.phase === undefined ? diagnosis(job, outcome, own, remedyCache.now()) : [],
    hasSuccessor: own.some((each) => createdMs(each) > createdMs(job)),
    forgetAfterMs: (rule?.rule.spec.forgetAfterSeconds ?? DEFAULT_FORGET_AFTER_SECONDS) * 1000,
    isLive: live !== undefined,
  };
}

const createdMs = (job: Stored<RemedyOperationJob>): number => Date.parse(job.metadata.creationTimestamp);

/** Only the truth of it is of interest: clocks are the remedy controller's. */
async function evaluate(remedyCache: RemedyCache, job: Stored<RemedyOperationJob>, snapshot: Snapshot): Promise<RuleOutcome | undefined> {
  const { index } = remedyCache.rulebook();
  const observations = snapshot.machine.status?.observations ?? [];
  const { outcomes } = await runPass({ index, names: [job.spec.rule], snapshot, observations });
  return outcomes[0];
}

function diagnosis(
  { metadata, spec }: Stored<RemedyOperationJob>,
  outcome: RuleOutcome | undefined,
  own: readonly Stored<RemedyOperationJob>[],
  nowMs: number,
): readonly string[] {
  if (outcome === undefined) return [spec.why];
  const before = own.filter((each) => each.metadata.uid !== metadata.uid);
  const { name, rule } = outcome.rule;
  const matchedSinceMs = Date.parse(spec.matchedSince);
  const asked = nextRung({
    rule: { name, spec: rule.spec },
    machineUID: spec.machine.uid,
    jobs: before,
    matchedSinceMs,
    nowMs,
    replacements: spec.replacements ?? 0,
  });
  const why = asked.step === 'AskHuman' ? asked.why : spec.why;
  return diagnosisOf(outcome, { step: 'AskHuman', rung: spec.rung, why }, before, spec.machine.uid);
}
