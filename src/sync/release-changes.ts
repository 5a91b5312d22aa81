/**
 * A release is immutable: a cell refuses another content of a MachineComponent that it has, so that a commit which changes one would be accepted and never be applied
 * (docs/protocols.md#e19).
 */
import { setImmediate as turn } from 'node:timers/promises';
import type { UnitStatus } from '../api/cluster.ts';
import { signedText } from '../api/component-form.ts';
import { isCoded, objectErrorCodes } from '../api/errors.ts';
import { MachineComponents } from '../api/machine-component.ts';
import { MachineComponentSets } from '../api/machine-component-set.ts';
import type { Rollout } from '../api/rollout.ts';
import { isUnitOf } from '../api/unit.ts';
import type { KubeObject } from '../api/wire.ts';
import type { Bundles } from './bundles.ts';
import { syncError } from './errors.ts';
import type { RenderedCommit } from './fleet/checkout.ts';
import { REMOVAL } from './records.ts';
import type { Wanted } from './wanted.ts';

export interface ReleasesInput {
  clusters: RenderedCommit['clusters'];
  /** By cluster: also of other Fleets. */
  recorded: ReadonlyMap<string, readonly UnitStatus[]>;
  /** By cluster and unit: what the accepted commits want. */
  wanted: ReadonlyMap<string, ReadonlyMap<string, Wanted>>;
  /** In force. */
  rollouts: readonly Rollout[];
  bundles: Pick<Bundles, 'get'>;
}

/** Digests of units with releases, by how sure it is that a cluster has their releases: sync never removes one, also where the unit has left it. */
interface Given {
  /** Was wholly applied there once. */
  came: Set<string>;
  /** Began there: the answer may be lost, or its cell may have refused it. */
  began: Set<string>;
  /** A Rollout named it for this cluster, where it may never have begun. */
  named: Set<string>;
}

/** Of one release: its contents, in the same way. */
type Contents = Record<keyof Given, Set<string>>;

const SURENESS = ['came', 'began', 'named'] as const satisfies readonly (keyof Given)[];
const SHOWN = 20;

/**
 * Throws where the commit has another content of a release than a cluster has, as far as that is kept here. What is not kept passes, and what may be there: the cell
 * decides then, and the Rollout reports that.
 */
export async function refuseReleaseChanges({ clusters, recorded, wanted, rollouts, bundles }: ReleasesInput): Promise<void> {
  const changes = new Map<string, string[]>();
  const known = new Map<string, readonly Release[]>();
  const releasesOf = async (digest: string, objectsOf: () => Promise<readonly KubeObject[]>): Promise<readonly Release[]> => {
    const found = known.get(digest) ?? (await objectsOf()).flatMap(releaseAt);
    // All else has its turn after each unit with releases, such as the renewal of a Lease (docs/protocols.md#e19).
    if (!known.has(digest) && found.length > 0) await turn();
    known.set(digest, found);
    return found;
  };
  const named = namedBy(rollouts);
  for (const { name, units } of clusters) {
    const given = givenTo(recorded.get(name) ?? [], named.get(name));
    // What is there, or was accepted before, changes no release now.
    const changed = units.filter(
      ({ key, digest }) => isUnitOf(key, MachineComponentSets) && !isThere(digest, given) && wanted.get(name)?.get(key)?.digest !== digest,
    );
    const after: (Release & { text: string })[] = [];
    for (const { digest, objects, origins } of changed)
      for (const release of await releasesOf(digest, async () => objects)) {
        const origin = origins[release.index];
        after.push({ ...release, text: `${origin === undefined ? '' : `${origin}: `}MachineComponent/${release.name}` });
      }
    if (after.length === 0) continue;
    const before = new Map<string, Contents>();
    for (const [sureness, digest] of SURENESS.flatMap((each) => [...given[each]].map((found) => [each, found] as const))) {
      // Newer content comes first: what is unchanged is found there, and nothing earlier is asked for.
      if (after.every((release) => isKnown(release, before.get(release.name)))) break;
      for (const { name: release, content } of await releasesOf(digest, async () => (await bundles.get(digest))?.objects ?? [])) {
        if (content === undefined) continue;
        const contents = before.get(release) ?? { came: new Set(), began: new Set(), named: new Set() };
        contents[sureness].add(content);
        before.set(release, contents);
      }
    }
    if (before.size > 0) await turn();
    for (const release of after)
      if (isAnother(release, before.get(release.name))) changes.set(release.text, [...(changes.get(release.text) ?? []), name]);
  }
  refuse(changes);
}

const isThere = (digest: string, { came, began }: Given): boolean => came.has(digest) || began.has(digest);

/** Whether the cluster may have this very content, or it cannot be compared. */
function isKnown({ content }: Release, before: Contents | undefined): boolean {
  return content === undefined || (before !== undefined && SURENESS.some((each) => before[each].has(content)));
}

/** Whether the cluster is sure to have another content. What only began is no proof where a Rollout named another, which may have come before it. */
function isAnother(release: Release, before: Contents | undefined): boolean {
  if (before === undefined || isKnown(release, before)) return false;
  const { came, began, named } = before;
  return came.size > 0 || (began.size > 0 && [...named].every((content) => began.has(content)));
}

/** By cluster: what Rollouts in force name for it. */
function namedBy(rollouts: readonly Rollout[]): ReadonlyMap<string, Set<string>> {
  const found = new Map<string, Set<string>>();
  for (const { spec } of rollouts)
    for (const { unit, clusters } of spec.units) {
      if (!isUnitOf(unit, MachineComponentSets)) continue;
      for (const { name, digest } of clusters) if (digest !== undefined) found.set(name, (found.get(name) ?? new Set()).add(digest));
    }
  return found;
}

function givenTo(records: readonly UnitStatus[], named: Set<string> = new Set()): Given {
  const its = records.filter(({ unit }) => isUnitOf(unit, MachineComponentSets));
  const verified = its.flatMap((record) => (record.verified ?? []).map(({ digest }) => digest));
  const came = [...its.map(({ digest }) => digest), ...verified];
  const began = its.flatMap(({ begun, revoked = [] }) => [begun, ...revoked]);
  return { came: new Set(came.filter(isContent)), began: new Set(began.filter(isContent)), named };
}

/** `changes`: by release and its line, the clusters. */
function refuse(changes: ReadonlyMap<string, readonly string[]>): void {
  if (changes.size === 0) return;
  const list = [...changes].slice(0, SHOWN).map(([text, names]) => `${text} in ${names.slice(0, SHOWN).join(', ')}`);
  const more = changes.size > SHOWN ? `\n… and ${changes.size - SHOWN} more` : '';
  throw syncError('ImmutableChanged', `the commit changes releases that clusters have with other content:\n${list.join('\n')}${more}`, {
    next: 'a version is immutable: give the change a new version, and leave the released one as it was',
  });
}

interface Release {
  /** Among the objects of its unit. */
  index: number;
  name: string;
  /** Undefined where it cannot be compared. */
  content: string | undefined;
}

function releaseAt(object: KubeObject, index: number): Release[] {
  return isRelease(object) ? [{ index, name: object.metadata.name, content: contentOf(object) }] : [];
}

const isContent = (digest: string | undefined): digest is string => digest !== undefined && digest !== REMOVAL;

const isRelease = ({ apiVersion, kind }: KubeObject): boolean =>
  kind === MachineComponents.kind && apiVersion === `${MachineComponents.group}/${MachineComponents.version}`;

/** With the defaults of the schema, and without signatures, which may change. Undefined where a hub of another version wrote a field that is not known here. */
function contentOf(object: KubeObject): string | undefined {
  try {
    return signedText((object as { spec?: unknown }).spec);
  } catch (error) {
    if (isCoded(error, objectErrorCodes, 'FormUnknown')) return undefined;
    throw error;
  }
}
