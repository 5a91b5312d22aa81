import { createHash } from 'node:crypto';
import { apiVersionOf, type Resource } from '../api/resource.ts';
import { hasReason } from './api-error.ts';
import type { Client } from './client.ts';
import { isRecord, strings } from './failure.ts';

/** Why this program must leave a server's kinds alone. */
export interface KindTrouble {
  /** `KindsAbsent`: not installed, or older. `KindsNewer`: what is written in our version would lose what only theirs has. */
  reason: 'KindsAbsent' | 'KindsNewer';
  message: string;
}

/**
 * Whether a server has these kinds, all of one group and version, and keeps them in that very version: objects that are kept in another one are
 * converted at every read and write, and then lose each field that this version does not have. Asks discovery, which every user may read: one request, two
 * where the version is not served. Errors: those of the client.
 */
export async function troubleWithKinds(
  client: Client,
  kinds: readonly Resource[],
  options: { signal?: AbortSignal } = {},
): Promise<KindTrouble | undefined> {
  const [first] = kinds;
  if (first === undefined) return undefined;
  const ours = apiVersionOf(first);
  const found = await asked(client, `/apis/${ours}`, 'resources', options);
  const others = async (): Promise<string[]> => {
    const versions = await asked(client, `/apis/${first.group}`, 'versions', options);
    return (versions ?? []).flatMap(({ version }) => (typeof version === 'string' && version !== first.version ? [version] : []));
  };
  if (found === undefined) {
    const served = await others();
    return served.length === 0
      ? { reason: 'KindsAbsent', message: `this API server has no kinds of ${first.group}` }
      : newer(`this API server has ${first.group} in ${served.join(', ')} and no longer in ${first.version}`, first);
  }
  const hashes = new Map(found.map((entry) => [entry['name'], strings(entry, ['storageVersionHash']).storageVersionHash]));
  const absent = kinds.filter(({ plural }) => !hashes.has(plural));
  if (absent.length > 0) return { reason: 'KindsAbsent', message: `this API server does not serve ${names(absent)} of ${ours}` };
  const kept = kinds.filter((kind) => (hashes.get(kind.plural) ?? storageVersionHash(kind)) !== storageVersionHash(kind));
  if (kept.length === 0) return undefined;
  const served = await others();
  return newer(`${names(kept)} of ${first.group} are kept in ${served.length === 0 ? 'another version' : served.join(' or ')}`, first);
}

const names = (kinds: readonly Resource[]): string => kinds.map(({ plural }) => plural).join(', ');

function newer(what: string, { version }: Resource): KindTrouble {
  return { reason: 'KindsNewer', message: `${what}; this KubeNode knows ${version}, and would lose what is new: nothing is written` };
}

async function asked(
  client: Client,
  path: string,
  list: 'resources' | 'versions',
  options: { signal?: AbortSignal },
): Promise<Record<string, unknown>[] | undefined> {
  try {
    const answer = await client.request({ method: 'GET', path, ...options });
    const items: unknown = isRecord(answer) ? answer[list] : undefined;
    return Array.isArray(items) ? items.filter(isRecord) : [];
  } catch (error) {
    if (hasReason(error, 'NotFound')) return undefined;
    throw error;
  }
}

/** As kube-apiserver makes it: of group, version and kind as they are in etcd. */
function storageVersionHash({ group, version, kind }: Resource): string {
  return createHash('sha256').update(`${group}/${version}/${kind}`).digest().subarray(0, 8).toString('base64');
}
