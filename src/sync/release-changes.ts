/**
 * A release is immutable: a cell refuses another content of a MachineComponent that it has, so that a commit which changes one would be accepted and never be applied
 * (docs/protocols.md#e19).
 */
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
  const kept = new Map<string, readonly Release[]>();
  for (const { name, units } of clusters) {
    const digests = (recorded.get(name) ?? []).flatMap(({ digest, begun }) => [digest, begun]).filter(isContent);
    for (const { digest, objects, origins } of units) {
      // What is there already changes no release.
      if (digests.includes(digest)) continue;
      for (const [index, object] of objects.entries()) {
        if (!isRelease(object)) continue;
        const before = await contentsIn(digests, object.metadata.name, bundles, kept);
        const after = before.size === 0 ? undefined : contentOf(object);
        if (after === undefined || before.has(after)) continue;
        const origin = origins[index];
        const text = `${origin === undefined ? '' : `${origin}: `}MachineComponent/${object.metadata.name}`;
        changes.set(text, [...(changes.get(text) ?? []), name]);
      }
    }
  }
  if (changes.size === 0) return;
  const list = [...changes].slice(0, SHOWN).map(([text, names]) => `${text} in ${names.slice(0, SHOWN).join(', ')}`);
  const more = changes.size > SHOWN ? `\n… and ${changes.size - SHOWN} more` : '';
  throw syncError('ImmutableChanged', `the commit changes releases that clusters have with other content:\n${list.join('\n')}${more}`, {
    next: 'a version is immutable: give the change a new version, and leave the released one as it was',
  });
}

interface Release {
  name: string;
  /** Undefined where it cannot be compared. */
  content: string | undefined;
}

/** The contents that these units have of a release; a unit of which one content came and another is about to come has two. */
async function contentsIn(
  digests: readonly string[],
  name: string,
  bundles: Pick<Bundles, 'get'>,
  kept: Map<string, readonly Release[]>,
): Promise<ReadonlySet<string>> {
  const found = new Set<string>();
  for (const digest of digests) {
    const releases = kept.get(digest) ?? ((await bundles.get(digest))?.objects ?? []).filter(isRelease).map(releaseOf);
    kept.set(digest, releases);
    for (const { name: known, content } of releases) if (known === name && content !== undefined) found.add(content);
  }
  return found;
}

const isContent = (digest: string | undefined): digest is string => digest !== undefined && digest !== REMOVAL;

const releaseOf = (object: KubeObject): Release => ({ name: object.metadata.name, content: contentOf(object) });

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
