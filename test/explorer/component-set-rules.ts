/** What is promised of component sets, in every state (docs/protocols.md#b3 to #b8, #d11), judged by the server's own objects. */
import { AGENT_STALE } from '../../src/controllers/machine-component-set/standing.ts';
import { resolveBatches } from '../../src/api/batches.ts';
import { laneOf, type MachineComponentSet } from '../../src/api/machine-component-set.ts';
import type { ComponentEntry, Machine } from '../../src/api/machine.ts';
import type { Stored } from '../../src/api/wire.ts';
import { contentFrom, idOf, targetsOf } from '../../src/controllers/machine-component-set/content.ts';
import { isInEffect, unrecordedFailure } from '../../src/controllers/shared/failure.ts';
import { idOfVerified, isVerified } from '../../src/controllers/machine-component-set/evidence.ts';
import { isDeleting, selects } from '../../src/controllers/shared/selection.ts';
import { remember, type Call, type SetSlot, type World } from './component-set-world.ts';

type ComponentSet = Stored<MachineComponentSet>;
type EntryCall = Extract<Call, { do: 'entry' }>;

const isInUse = ({ status }: Machine): boolean => status?.firstReadyAt !== undefined;
const isHalted = ({ status }: ComponentSet): boolean =>
  status?.conditions?.some(({ type, status: is }) => type === 'Halted' && is === 'True') === true;

export const entryFor = (set: ComponentSet, machine: Machine): ComponentEntry | undefined =>
  machine.spec.components?.find(({ name }) => name === set.spec.componentName);

/** Since which number, and under which `rolloutID`, a failure counts. */
const countedOf = ({ status }: ComponentSet): { number: number; since: number } => {
  const number = status?.revision?.number ?? 0;
  return { number, since: status?.revision?.since ?? number };
};

function hasFailed(set: ComponentSet, machine: Stored<Machine>): boolean {
  const entry = entryFor(set, machine);
  if (entry === undefined || entry.setUID !== set.metadata.uid) return false;
  const counted = countedOf(set);
  const reported = machine.status?.components?.find(({ name }) => name === entry.name);
  const isNow = unrecordedFailure(machine, entry, reported) !== undefined && entry.setRevision >= counted.since;
  return isNow || isInEffect(entry.failed, counted, set.spec.rolloutID);
}

/** UIDs of machines that failed at the content that the set has counted. */
function failing(world: World, set: ComponentSet): ReadonlySet<string> {
  const recorded = (set.status?.failures ?? []).filter(
    ({ setRevision, rolloutID }) =>
      setRevision !== undefined &&
      isInEffect({ setRevision, ...(rolloutID === undefined ? {} : { rolloutID }) }, countedOf(set), set.spec.rolloutID),
  );
  const present = world.machines.flatMap(({ object }) => (object !== undefined && hasFailed(set, object) ? [object.metadata.uid] : []));
  return new Set([...recorded.flatMap(({ uid, reason }) => (uid === undefined || reason === AGENT_STALE ? [] : [uid])), ...present]);
}

/** Whether the set has announced that it gives this. */
function isDeclared({ status }: ComponentSet, entry: ComponentEntry): boolean {
  if (status?.revision === undefined) return false;
  const { canary } = targetsOf({ ...EMPTY, spec: { ...EMPTY.spec, ...specOf(status.revision) } });
  const verified = status.verified === undefined ? undefined : contentFrom('Install', status.verified);
  const declared = [contentFrom(status.revision.action, status.revision), canary, verified];
  return declared.some((each) => each !== undefined && idOf(each) === idOf(entry));
}
const EMPTY: MachineComponentSet = {
  apiVersion: '',
  kind: '',
  metadata: { name: '' },
  spec: { componentName: '', version: '' },
};
const specOf = ({ canary }: { canary?: Record<string, unknown> }): Partial<MachineComponentSet['spec']> =>
  typeof canary?.['version'] === 'string' ? { canary: { selector: {}, version: canary['version'] } } : {};

/** What the leader of a status write goes on with. `isFresh`: its stores show all. */
interface Plan {
  isFresh: boolean;
  calls: readonly Call[];
}

export function brokenByArrival(before: World, after: World, call: Call, plan?: Plan): string | undefined {
  if (call.do === 'entry') return brokenByEntry(before, call);
  if (call.do !== 'status') return undefined;
  const [was, is] = [before.sets[call.set], after.sets[call.set]];
  if (was === undefined || is === undefined) return undefined;
  return brokenByStatus(before, was.object, is.object) ?? (plan === undefined ? undefined : brokenByPlan(after, is, plan));
}

/** An entry that arrives, be it late. */
function brokenByEntry(world: World, call: EntryCall): string | undefined {
  const slot = world.sets[call.set];
  const machine = world.machines[call.index];
  if (slot === undefined || machine?.object === undefined) return undefined;
  const set = slot.object;
  const isAnnounced = slot.writing.some(([index, version]) => index === call.index && version === call.version);
  const what = `m${call.index} is given ${call.entry.version} (${call.lane})`;
  switch (call.lane) {
    case 'Leave':
    case 'Settle':
      return undefined;
    case 'Adopt':
    case 'Restore': {
      if (isAnnounced || call.entry.lane !== 'Restore') return undefined;
      const isDeclared = laneOf(set.spec) === 'Restore' && idOf(targetsOf(set).of(machine.object)) === idOf(call.entry);
      return isDeclared ? undefined : `B7: ${what}, and the set does not declare it, nor counts with it`;
    }
    case 'Join':
      if (isInUse(machine.object)) return `B5: ${what} and is in use`;
      return isDeclared(set, call.entry) || isAnnounced ? undefined : `B9: ${what}, which the set has announced that it gives no more`;
    case 'Forward':
      if (!isAnnounced && isHalted(set)) return `B4: ${what} after the set has announced that it halts`;
      if (!isAnnounced && !isDeclared(set, call.entry)) return `B9: ${what}, which the set has announced that it gives no more`;
      // What was announced was judged then.
      return isAnnounced ? undefined : brokenBatch(world, set, [call]);
    default:
      return call.lane satisfies never;
  }
}

/** docs/protocols.md#b3: until a content was proved by a machine that has it, no more machines in use have it than the first batch takes. */
function brokenBatch(world: World, set: ComponentSet, calls: readonly EntryCall[]): string | undefined {
  const targets = targetsOf(set);
  for (const content of [targets.main, targets.canary]) {
    const id = content === undefined ? '' : idOf(content);
    const members = world.machines.flatMap(({ object }, index) =>
      object !== undefined && !isDeleting(object) && selects(set, object) && idOf(targets.of(object)) === id ? [{ object, index }] : [],
    );
    const given = calls.filter(({ index, entry }) => idOf(entry) === id && members.some((each) => each.index === index));
    if (given.length === 0 || world.proved.includes(id)) continue;
    const isWithout = ({ object, index }: (typeof members)[number]): boolean =>
      world.sites[index] !== 'alive' || object.spec.hold === true || hasFailed(set, object);
    // One that left keeps its slot: whether the content works there is not known.
    const left = world.machines.flatMap(({ object }, index) =>
      object !== undefined && !isDeleting(object) && !selects(set, object) ? [{ object, index }] : [],
    );
    const affected = [...members, ...left].filter((each) => {
      const entry = entryFor(set, each.object);
      const has = entry?.setUID === set.metadata.uid && idOf(entry) === id && entry.failed === undefined && !isWithout(each);
      return isInUse(each.object) && (has || given.some(({ index }) => index === each.index));
    });
    const [first = 1] = resolveBatches(set.spec.batches ?? [1, '100%'], members.filter(({ object }) => isInUse(object)).length);
    if (affected.length > first && given.some(({ index }) => affected.some((each) => each.index === index)))
      return `B3: ${affected.map(({ index }) => `m${index}`).join(' and ')} have ${content?.version ?? ''} and nothing proves it`;
  }
  return undefined;
}

function brokenByPlan(world: World, { object: set }: SetSlot, { isFresh, calls }: Plan): string | undefined {
  const entries = calls.filter((call) => call.do === 'entry');
  // That a machine left is noted on the entry as it is, also on one that went back after a failure (docs/protocols.md#a5).
  const restored = entries.find(({ entry, lane }) => lane !== 'Leave' && entry.lane === 'Restore');
  if (restored !== undefined && laneOf(set.spec) !== 'Restore')
    return `B7: m${restored.index} is to be restored, and the set does not declare it`;
  const forward = entries.filter(({ lane }) => lane === 'Forward');
  if (forward.length === 0) return undefined;
  const many = failing(world, set).size;
  if (isFresh && many >= (set.spec.maxFailed ?? 1)) return `B4: m${forward[0]?.index ?? 0} is to be given more, and ${many} failed`;
  return brokenBatch(world, set, forward);
}

function brokenByStatus(world: World, before: ComponentSet, after: ComponentSet): string | undefined {
  const isCounted = before.status?.revision !== undefined;
  if (isCounted) {
    const kept = new Set((after.status?.failures ?? []).map(({ uid }) => uid));
    const lost = (before.status?.failures ?? []).find(
      ({ uid, reason, setRevision, rolloutID }) =>
        !kept.has(uid) &&
        reason !== AGENT_STALE &&
        setRevision !== undefined &&
        isInEffect({ setRevision, ...(rolloutID === undefined ? {} : { rolloutID }) }, countedOf(after), after.spec.rolloutID),
    );
    if (lost !== undefined) return `B4: the failure of ${lost.machine} is forgotten`;
  }
  const { verified, evidence } = after.status ?? {};
  if (verified !== undefined && idOfVerified(verified) !== idIn(before) && !world.proved.includes(idOfVerified(verified)))
    return `B8: ${verified.version} is verified, and no machine proves it`;
  if (evidence !== undefined && evidence.unitDigest !== before.status?.evidence?.unitDigest) {
    const { main, canary } = targetsOf(after);
    const wanted = world.machines.flatMap(({ object }) =>
      object !== undefined && selects(after, object) ? [idOf(targetsOf(after).of(object))] : [],
    );
    for (const content of [main, canary])
      if (content !== undefined && wanted.includes(idOf(content)) && !world.proved.includes(idOf(content)))
        return `B8: there is evidence for ${evidence.unitDigest}, and no machine proves ${content.version}`;
  }
  return undefined;
}

const idIn = ({ status }: ComponentSet): string | undefined => (status?.verified === undefined ? undefined : idOfVerified(status.verified));

const proofs = remember<readonly (readonly [uid: string, content: string])[]>();

/** Which contents some machine proves now. */
export function provedIn(world: World): readonly string[] {
  const uids = world.sets.map(({ object }) => object.metadata.uid);
  const all = world.machines.flatMap(({ object }) => (object === undefined ? [] : proofs(object, '', () => provedOn(object))));
  const found = all.filter(([uid]) => uids.includes(uid)).map(([, id]) => id);
  return found.every((each) => world.proved.includes(each)) ? world.proved : [...new Set([...world.proved, ...found])].toSorted();
}

const provedOn = (machine: Stored<Machine>): (readonly [uid: string, content: string])[] =>
  (machine.spec.components ?? [])
    .filter((entry) => entry.failed === undefined && isVerified(machine, entry))
    .map((entry) => [entry.setUID, idOf(entry)] as const);
