/**
 * A release is immutable: a cell refuses another content of a MachineComponent that it has, so that a commit which changes one would be accepted and never be applied
 * (docs/protocols.md#e19).
 */
import { setImmediate as turn } from 'node:timers/promises';
import type { UnitStatus } from '../api/cluster.ts';
import { signedText } from '../api/component-form.ts';
import { isCoded, objectErrorCodes } from '../api/errors.ts';
import { MachineComponents } from '../api/machine-component.ts';
import type { KubeObject } from '../api/wire.ts';
import type { Bundles } from './bundles.ts';
import { syncError } from './errors.ts';
import type { RenderedCommit } from './fleet/checkout.ts';
import { REMOVAL } from './records.ts';

export interface ReleasesInput {
  clusters: RenderedCommit['clusters'];
  /** By cluster. */
  recorded: ReadonlyMap<string, readonly UnitStatus[]>;
  bundles: Pick<Bundles, 'get'>;
}

const SHOWN = 20;

/**
 * Throws where the commit has another content of a release that a cluster has, as far as that is kept here. What is not kept passes: the cell still refuses it, and
 * the Rollout reports that.
 */
export async function refuseReleaseChanges({ clusters, recorded, bundles }: ReleasesInput): Promise<void> {
  const changes = new Map<string, string[]>();
  const known = new Map<string, readonly Release[]>();
  const releasesOf = async (digest: string, objectsOf: () => Promise<readonly KubeObject[]>): Promise<readonly Release[]> => {
    const found = known.get(digest) ?? (await objectsOf()).flatMap(releaseAt);
    // All else has its turn after each unit with releases, such as the renewal of a Lease (docs/protocols.md#e19).
    if (!known.has(digest) && found.length > 0) await turn();
    known.set(digest, found);
    return found;
  };
  for (const { name, units } of clusters) {
    const digests = new Set((recorded.get(name) ?? []).flatMap(({ digest, begun }) => [digest, begun]).filter(isContent));
    // What is there already changes no release.
    const changed = units.filter(({ digest }) => !digests.has(digest));
    if (changed.length === 0) continue;
    const before = new Map<string, Set<string>>();
    for (const digest of digests) {
      const releases = await releasesOf(digest, async () => (await bundles.get(digest))?.objects ?? []);
      for (const { name: release, content } of releases)
        if (content !== undefined) before.set(release, (before.get(release) ?? new Set()).add(content));
    }
    if (before.size > 0) await turn();
    for (const { digest, objects, origins } of changed) {
      for (const { index, name: release, content } of await releasesOf(digest, async () => objects)) {
        const contents = before.get(release);
        if (content === undefined || contents === undefined || contents.has(content)) continue;
        const origin = origins[index];
        const text = `${origin === undefined ? '' : `${origin}: `}MachineComponent/${release}`;
        changes.set(text, [...(changes.get(text) ?? []), name]);
      }
    }
  }
  refuse(changes);
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
