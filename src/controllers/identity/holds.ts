/**
 * Which pool has the name of a Node: the pool of the Machines for which kubelets' certificates with that name were approved, until the last of these ends. A
 * certificate outlives its Machine, and is valid for each Node that has that name then (docs/protocols.md#g4f).
 */
import { controllerError } from '../shared/errors.ts';
import { createHash, X509Certificate } from 'node:crypto';
import { Leases, type Lease } from '../../api/builtin.ts';
import { apiVersionOf } from '../../api/resource.ts';
import type { Stored } from '../../api/wire.ts';
import type { Client } from '../../kube/client.ts';
import { rfc3339 } from '../../kube/clock.ts';

/** By UID of a request that was approved, or `ISSUED`: when what it got ends, at the latest. */
type Ends = Readonly<Record<string, string>>;

export interface NameHold {
  pool: string;
  ends: Ends;
  /** When the API server stored the request by which the pool took the name; undefined: an earlier version wrote the Lease. */
  since: string | undefined;
  /** The Lease that records it. */
  lease: Stored<Lease>;
}

export const HOLD_ENDS = 'kubenode.io/certificates-end';
const HOLD_SINCE = 'kubenode.io/held-since';
const ISSUED = 'issued';
/** How many requests for one Node are approved before a signer has signed one of them. A kubelet waits for one at a time. */
export const MOST_UNSIGNED = 16;
const HOUR_MS = 3_600_000;
/** For one that asks for no lifetime: what Kubernetes' signer gives unless it was set up otherwise. */
const DEFAULT_SECONDS = 366 * 24 * 3600;
/** A request is signed after it is approved, by another clock; what is not signed in an hour is collected. */
const LATE_MS = 2 * HOUR_MS;
/** The API server that a certificate is shown to may be behind the time that is known here (docs/protocols.md#h5). */
const MARGIN_MS = 60_000;

/** A name of a Lease is at most as long as the name of a Node. */
export const holdName = (node: string): string =>
  node.length <= 240 ? `node-name.${node}` : `node-hash.${createHash('sha256').update(node).digest('hex')}`;

/** When the last certificate ends; -Infinity where there is none. */
export const endOfHold = ({ ends }: Pick<NameHold, 'ends'>): number => Math.max(...Object.values(ends).map(Date.parse));

/** Whether a process may have had such a certificate at that time, or may have it. */
export const isHeld = (hold: Pick<NameHold, 'ends'>, atMs: number): boolean => !(atMs > endOfHold(hold) + MARGIN_MS);

const rest = (ends: Ends, nowMs: number): Ends => Object.fromEntries(Object.entries(ends).filter(([, end]) => Date.parse(end) > nowMs));
const later = (...ends: (string | undefined)[]): string =>
  rfc3339(Math.max(...ends.filter((end) => end !== undefined).map((end) => Date.parse(end))));

/**
 * With one more request that is about to be approved. `there`: UIDs of requests that still exist, so that their certificate can still be read. The bounds of
 * requests that are gone do not change any more, so these share the latest one.
 */
export function withRequest(ends: Ends, uid: string, seconds: number | undefined, nowMs: number, there: readonly string[] = []): Ends {
  const still = rest(ends, nowMs);
  if (still[uid] !== undefined) return still;
  const all = { ...still, [uid]: rfc3339(nowMs + (seconds ?? DEFAULT_SECONDS) * 1000 + LATE_MS) };
  if (Object.keys(all).length <= MOST_UNSIGNED) return all;
  const kept = Object.entries(all).filter(([each]) => each === uid || there.includes(each));
  const others = Object.entries(all).filter(([each]) => each !== uid && !there.includes(each));
  const shared = others.length === 0 ? {} : { [ISSUED]: later(...others.map(([, end]) => end)) };
  return { ...Object.fromEntries(kept), ...shared };
}

/** With what a request got, instead of what it might have got. */
export function withIssued(ends: Ends, uid: string, endMs: number, nowMs: number): Ends {
  const { [uid]: _bound, [ISSUED]: issued, ...others } = rest(ends, nowMs);
  return { ...others, [ISSUED]: later(rfc3339(endMs), issued) };
}

/** When the certificate ends that a signer gave; undefined where it cannot be read. */
export function endOfCertificate(base64: string): number | undefined {
  try {
    const endMs = Date.parse(new X509Certificate(Buffer.from(base64, 'base64')).validTo);
    return Number.isNaN(endMs) ? undefined : endMs;
  } catch {
    return undefined;
  }
}

/** As it is now. Errors: those of the API, and `HoldUnreadable`: nothing is approved for a name while it is unknown which pool has it. */
export async function readHold(client: Client, namespace: string, node: string, signal: AbortSignal): Promise<NameHold | undefined> {
  const lease = await client.find(Leases, { namespace, name: holdName(node) }, { signal });
  if (lease === undefined) return undefined;
  const pool = lease.spec?.holderIdentity;
  const ends = endsOf(lease.metadata.annotations?.[HOLD_ENDS]);
  const since = lease.metadata.annotations?.[HOLD_SINCE];
  if (pool === undefined || pool === '' || ends === undefined || (since !== undefined && Number.isNaN(Date.parse(since))))
    throw controllerError(
      'HoldUnreadable',
      `Lease ${namespace}/${lease.metadata.name} does not name the pool which has the name of Node ${node}`,
    );
  return { pool, ends, since, lease };
}

function endsOf(text: string | undefined): Ends | undefined {
  try {
    const found: unknown = JSON.parse(text ?? '');
    if (typeof found !== 'object' || found === null || Array.isArray(found)) return undefined;
    const entries = Object.entries(found).map(([uid, end]: [string, unknown]): [string, string] => [
      uid,
      typeof end === 'string' ? end : '',
    ]);
    return entries.some(([, end]) => Number.isNaN(Date.parse(end))) ? undefined : Object.fromEntries(entries);
  } catch {
    return undefined;
  }
}

export interface HoldKey {
  /** Of KubeNode's own objects, where no pool's operator writes. */
  namespace: string;
  node: string;
}

/** Conditioned on what was read. Errors: those of the API, `Conflict` and `AlreadyExists` above all. */
export async function writeHold(
  client: Client,
  { namespace, node }: HoldKey,
  before: NameHold | undefined,
  { pool, ends, since }: Pick<NameHold, 'pool' | 'ends' | 'since'>,
  signal: AbortSignal,
): Promise<void> {
  const annotations = { [HOLD_ENDS]: JSON.stringify(ends), ...(since === undefined ? {} : { [HOLD_SINCE]: since }) };
  const spec = { holderIdentity: pool };
  const name = holdName(node);
  if (before === undefined) {
    const metadata = { namespace, name, annotations };
    await client.create(Leases, { apiVersion: apiVersionOf(Leases), kind: Leases.kind, metadata, spec }, { signal });
    return;
  }
  const { resourceVersion, uid } = before.lease.metadata;
  if (before.pool === pool && before.since === since && before.lease.metadata.annotations?.[HOLD_ENDS] === annotations[HOLD_ENDS]) return;
  await client.patch(Leases, { namespace, name }, { merge: { metadata: { resourceVersion, uid, annotations }, spec } }, { signal });
}
