import { canonical } from '../../../api/digest.ts';
import type { ComponentEntry, ComponentStatus, Machine, Soak, VerifiedContent } from '../../../api/machine.ts';
import type { Condition, Stored } from '../../../api/wire.ts';
import { rfc3339 } from '../../../kube/clock.ts';
import { setCondition } from '../../../kube/conditions.ts';
import { contentFrom, idOf, type Content } from '../content.ts';
import { entryOf } from '../entries.ts';
import { idOfVerified, isVerified, missingEvidence, soakOf } from '../evidence.ts';
import { FIRST_INSTALLATION, isNew } from '../new-machine.ts';
import { exhausted, nextRevision, unrecordedFailure, type Failure } from '../../shared/failure.ts';
import { isDeleting } from '../../shared/selection.ts';

/** What the set that wrote an entry declares now; absent when it was deleted. */
export interface Owner {
  /** Absent before its first revision is counted. */
  number: number | undefined;
  rolloutID: string | undefined;
  unitDigest: string | undefined;
  soakMs: number;
  target: Content;
}

export interface MachineState {
  machine: Stored<Machine>;
  now: number;
  agentFresh: boolean;
  owner(setUID: string): Owner | undefined;
}

export interface EntryChange {
  entry: ComponentEntry;
  reason: 'Failed' | 'Refused';
  message: string;
}

export interface StatusChange {
  verified: VerifiedContent[];
  soaks: Soak[];
  conditions: Condition[];
}

export interface MachineDecision {
  /** Entries to be written: what the agent reported of them has to be answered there. */
  changes: EntryChange[];
  /** undefined: as it is. */
  status: StatusChange | undefined;
  /** When the next soak ends. */
  requeueAfterMs: number | undefined;
}

const DEFAULT_SOAK_MS = 60_000;
const REASON = 128;
const MESSAGE = 512;

export function decideMachine(state: MachineState): MachineDecision {
  const entries = state.machine.spec.components ?? [];
  const reported = new Map((state.machine.status?.components ?? []).map((each) => [each.name, each]));
  if (isDeleting(state.machine)) {
    const changes = entries.flatMap((entry) => record(state, entry, reported.get(entry.name)) ?? []);
    return { changes, status: undefined, requeueAfterMs: undefined };
  }
  const changes = entries.flatMap((entry) => answer(state, entry, reported.get(entry.name)) ?? []);
  return { changes, ...judge(state, entries, reported) };
}

/** docs/protocols.md#a3 and #a5, for every entry, also where another set selects the machine now: an operation waits for the answer. */
function answer(state: MachineState, entry: ComponentEntry, reported: ComponentStatus | undefined): EntryChange | undefined {
  if (reported === undefined) return undefined;
  const failed = unrecordedFailure(state.machine, entry, reported);
  if (failed !== undefined) return reported.state === 'Restoring' ? undefined : failure(state, entry, reported, failed);
  const isRefused = reported.refused?.revision === entry.revision || reported.revision > entry.revision;
  if (!isRefused || exhausted(entry, reported) !== undefined) return undefined;
  const revision = nextRevision(entry, reported);
  const message = `the agent knows revision ${revision - 1}: written again as ${revision}`;
  return { entry: { ...entry, revision }, reason: 'Refused', message };
}

/** docs/protocols.md#c14: of a machine that is being deleted only the failure is recorded, as soon as it is known. It is given nothing any more. */
function record(state: MachineState, entry: ComponentEntry, reported: ComponentStatus | undefined): EntryChange | undefined {
  const failed = unrecordedFailure(state.machine, entry, reported);
  return failed === undefined ? undefined : failure(state, entry, reported, failed);
}

/**
 * docs/protocols.md#a5: one write records that it failed and asks for what was last verified on this machine. Where nothing was, or where that is what
 * failed, the content stays: there is nothing to go back to, and the machine controller makes the machine Degraded.
 */
function failure(
  state: MachineState,
  entry: ComponentEntry,
  reported: ComponentStatus | undefined,
  { reason, message }: Failure,
): EntryChange {
  const owner = state.owner(entry.setUID);
  const isTarget = owner !== undefined && idOf(owner.target) === idOf(entry);
  const setRevision = isTarget ? (owner.number ?? entry.setRevision) : entry.setRevision;
  const failed = {
    setRevision,
    attempt: entry.attempt,
    ...(owner?.rolloutID === undefined ? {} : { rolloutID: owner.rolloutID }),
    reason: reason.slice(0, REASON),
    message: message.slice(0, MESSAGE),
  };
  const last = state.machine.status?.verified?.find((record) => record.name === entry.name);
  const isSpent = exhausted(entry, reported) !== undefined;
  const isGoing = isDeleting(state.machine);
  if (isGoing || last === undefined || idOfVerified(last) === idOf(entry) || isSpent) {
    const why = isGoing
      ? 'the machine is being deleted'
      : isSpent
        ? message
        : last === undefined
          ? 'nothing is verified here'
          : 'this is what was verified here';
    // With the number of the failure, so that a reader that waits for this record sees that it is of this very try.
    return { entry: { ...entry, setRevision, failed }, reason: 'Failed', message: `${reason}; ${why}` };
  }
  const restored = entryOf(contentFrom('Install', last), {
    ...entry,
    setRevision,
    revision: nextRevision(entry, reported),
    lane: 'Restore',
    failed,
  });
  return { entry: restored, reason: 'Failed', message: `${reason}; back to ${last.version}` };
}

/** docs/protocols.md#e3: which entries are proved, since when, and which have lasted long enough to be verified. */
function judge(
  state: MachineState,
  entries: readonly ComponentEntry[],
  reported: ReadonlyMap<string, ComponentStatus>,
): Pick<MachineDecision, 'status' | 'requeueAfterMs'> {
  const { machine, now } = state;
  const bootID = machine.status?.agent?.bootID;
  const before = {
    verified: machine.status?.verified ?? [],
    soaks: machine.status?.soaks ?? [],
    conditions: machine.status?.conditions ?? [],
  };
  let { verified } = before;
  const soaks: Soak[] = [];
  const unproved: string[] = [];
  let wait = Infinity;

  for (const entry of entries) {
    const missing = missingEvidence({ entry, reported: reported.get(entry.name), bootID, agentFresh: state.agentFresh });
    if (missing !== undefined) {
      unproved.push(entry.name);
      continue;
    }
    const owner = state.owner(entry.setUID);
    const isOld = verified.some((record) => record.name === entry.name && idOfVerified(record) === idOf(entry));
    // Another clock began a soak that lies in the future. It begins again, since it could last for any time otherwise.
    const soak = [soakOf(machine, entry)].find((each) => each !== undefined && each.since <= now);
    const soakMs = entry.action === 'Install' && entry.lane === 'Restore' && isOld ? 0 : (owner?.soakMs ?? DEFAULT_SOAK_MS);
    const since = soak?.since ?? now;
    const left = since + soakMs - now;
    if (isVerified(machine, entry)) {
      if (entry.action === 'Remove') soaks.push(soaking(entry, bootID, since, true));
      continue;
    }
    if (left > 0) {
      wait = Math.min(wait, left);
      soaks.push(soaking(entry, bootID, since, false));
    } else if (entry.action === 'Remove') {
      soaks.push(soaking(entry, bootID, since, true));
    } else {
      verified = withVerified(verified, entry, bootID ?? '', rfc3339(since), owner?.unitDigest);
    }
  }

  const conditions = upToDate(state, entries, unproved, soaks);
  const isSame =
    verified === before.verified && canonical(soaks) === canonical(before.soaks) && sameConditions(conditions, before.conditions);
  return { status: isSame ? undefined : { verified, soaks, conditions }, requeueAfterMs: wait === Infinity ? undefined : wait };
}

function soaking(entry: ComponentEntry, bootID: string | undefined, since: number, done: boolean): Soak {
  return {
    name: entry.name,
    revision: entry.revision,
    ...(entry.action === 'Remove' || bootID === undefined ? {} : { bootID }),
    since: rfc3339(since),
    ...(done ? { done } : {}),
  };
}

/** The two last contents of each component, the newest first (docs/protocols.md#b7). */
function withVerified(
  records: readonly VerifiedContent[],
  entry: ComponentEntry,
  bootID: string,
  since: string,
  unitDigest: string | undefined,
): VerifiedContent[] {
  const record: VerifiedContent = {
    name: entry.name,
    version: entry.version,
    ...(entry.values === undefined ? {} : { values: entry.values }),
    revision: entry.revision,
    setUID: entry.setUID,
    ...(unitDigest === undefined ? {} : { unitDigest }),
    bootID,
    since,
  };
  const others = records.filter((each) => each.name === entry.name && idOfVerified(each) !== idOf(entry)).slice(0, 1);
  return [record, ...others, ...records.filter((each) => each.name !== entry.name)];
}

/** In any order: other writers have theirs. */
function sameConditions(a: readonly Condition[], b: readonly Condition[]): boolean {
  return a.length === b.length && a.every((each) => b.some((other) => other.type === each.type && canonical(other) === canonical(each)));
}

/**
 * Whether the machine proves what its own entries ask for, and not what its sets want in the end: a new version must not cause a write to every Machine of a fleet
 * before their batches come. The status of the set reports how far the set is.
 */
function upToDate(
  state: MachineState,
  entries: readonly ComponentEntry[],
  unproved: readonly string[],
  soaks: readonly Soak[],
): Condition[] {
  const { machine, now } = state;
  const failed = entries.filter((entry) => entry.failed !== undefined).map((entry) => entry.name);
  const isFirst = isNew(machine);
  const underWay = soaks.filter((each) => each.done !== true);
  const reported =
    failed.length > 0
      ? ({ status: 'False', reason: 'Failed', message: failed.join(', ') } as const)
      : unproved.length > 0 && !state.agentFresh
        ? ({ status: 'Unknown', reason: 'AgentStale', message: 'the agent does not renew its Lease' } as const)
        : unproved.length > 0
          ? ({ status: 'False', reason: isFirst ? FIRST_INSTALLATION : 'Updating', message: unproved.join(', ') } as const)
          : underWay.length > 0
            ? ({
                status: 'False',
                reason: isFirst ? FIRST_INSTALLATION : 'Soaking',
                message: underWay.map(({ name }) => name).join(', '),
              } as const)
            : entries.length === 0
              ? // Absence is not health: nothing is proved of a machine that no set has written to.
                ({ status: 'Unknown', reason: 'NothingWanted', message: 'no set has given it content yet' } as const)
              : ({ status: 'True', reason: 'AllProved', message: '' } as const);
  const { generation } = machine.metadata;
  return setCondition(
    machine.status?.conditions,
    { type: 'UpToDate', ...reported, ...(generation === undefined ? {} : { observedGeneration: generation }) },
    now,
  );
}
