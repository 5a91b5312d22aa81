/** What a plan is made on: what a hub has published of a Fleet, read from it now or kept in a file. In a file, only what a plan reads. */
import { Clusters, type Cluster, type UnitStatus } from '../../api/cluster.ts';
import { type CodedError, messageOf } from '../../api/errors.ts';
import { Fleets, type Fleet } from '../../api/fleet.ts';
import { API_VERSION, type FieldError } from '../../api/kind.ts';
import { isSubdomain } from '../../api/object-name.ts';
import { Rollouts, type Rollout } from '../../api/rollout.ts';
import type { KubeObject, Stored } from '../../api/wire.ts';
import type { Client } from '../../kube/client.ts';
import { isOid } from '../../sync/git/commit.ts';
import { cliError } from '../errors.ts';

export const SNAPSHOT_KIND = 'FleetSnapshot';

export interface HubSnapshot {
  /** RFC 3339, by the clock of who took it. */
  takenAt: string;
  fleets: Stored<Fleet>[];
  clusters: Stored<Cluster>[];
  rollouts: Stored<Rollout>[];
  /** For people, of what was read from a file. */
  warnings?: readonly string[];
}

/** Reads a hub. Nothing is written. */
export async function takeSnapshot(hub: Client, nowMs: number): Promise<HubSnapshot> {
  const [fleets, clusters, rollouts] = await Promise.all([hub.listAll(Fleets), hub.listAll(Clusters), hub.listAll(Rollouts)]);
  return {
    takenAt: new Date(nowMs).toISOString(),
    fleets: fleets.items.map(withoutManagers),
    clusters: clusters.items.map(withoutManagers),
    rollouts: rollouts.items.map(withoutManagers),
  };
}

/** Stands for the allowed signers: a plan knows that the Fleet requires signatures, but not whose. */
export const WITHHELD = '(withheld)';

/**
 * As it is kept in a file: only the fields that a plan reads, so that no address and no message gets into it. Of cells it has the names of all their MachineSets, also of those
 * that the hub did not apply: a commit may declare one of them, and let its machines go.
 */
export function snapshotText({ takenAt, fleets, clusters, rollouts }: HubSnapshot): string {
  const kept = {
    apiVersion: API_VERSION,
    kind: SNAPSHOT_KIND,
    takenAt,
    fleets: fleets.map(fleetOf),
    clusters: clusters.map(clusterOf),
    rollouts: rollouts.map(rolloutOf),
  };
  return JSON.stringify(kept, undefined, 1);
}

function fleetOf({ apiVersion, kind, metadata, spec, status }: Stored<Fleet>): object {
  const { entry, include, isolation, stages, prune, paused, acceptRewrittenHead, acceptMoves, signatures } = spec;
  return {
    apiVersion,
    kind,
    metadata: { name: metadata.name },
    spec: {
      source: { path: '/' },
      entry,
      include,
      isolation,
      stages,
      prune,
      paused,
      acceptRewrittenHead,
      acceptMoves,
      ...(signatures === undefined ? {} : { signatures: { allowedSigners: WITHHELD } }),
    },
    ...(status === undefined ? {} : { status: { commit: status.commit, clusters: status.clusters, rollout: status.rollout } }),
  };
}

function clusterOf({ apiVersion, kind, metadata, spec, status }: Stored<Cluster>): object {
  const { type, kubeconfigSecret, paused, cellUID } = spec;
  const conditions = (status?.conditions ?? []).filter((each) => each.type === 'Reachable').map((each) => ({ ...each, message: '' }));
  return {
    apiVersion,
    kind,
    metadata: { name: metadata.name, labels: metadata.labels },
    spec: { type, kubeconfigSecret, paused, cellUID },
    ...(status === undefined
      ? {}
      : { status: { units: status.units?.map(recordOf), cellUID: status.cellUID, machines: status.machines, conditions } }),
  };
}

function recordOf(record: UnitStatus): UnitStatus {
  const { inventory: _inventory, halt, ...rest } = record;
  return { ...rest, ...(halt === undefined ? {} : { halt: { ...halt, message: 'kubenode rollout show reports why' } }) };
}

function rolloutOf({ apiVersion, kind, metadata, spec, status }: Stored<Rollout>): object {
  const { fleet, commit, sequence, stages, units, paused } = spec;
  const phases = status?.units?.map(({ unit, phase, lane, clusters }) => ({
    unit,
    phase,
    lane,
    clusters: clusters?.map((each) => ({ name: each.name, phase: each.phase, lane: each.lane })),
  }));
  return {
    apiVersion,
    kind,
    metadata: { name: metadata.name, uid: metadata.uid },
    spec: { fleet, commit, sequence, stages, units, paused },
    ...(status === undefined ? {} : { status: { phase: status.phase, units: phases } }),
  };
}

/** Errors: InvalidSnapshot, which names the field. */
export function parseSnapshot(text: string, file: string): HubSnapshot {
  const invalid = (message: string, cause?: unknown): CodedError =>
    cliError('InvalidSnapshot', `${file} is no snapshot of a hub: ${message}`, { cause, next: 'kubenode snapshot > FILE' });
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw invalid(messageOf(error), error);
  }
  if (!isRecord(value) || value['kind'] !== SNAPSHOT_KIND) throw invalid(`\`kind\` must be ${SNAPSHOT_KIND}`);
  if (value['apiVersion'] !== API_VERSION) throw invalid(`\`apiVersion\` must be ${API_VERSION}`);
  const { takenAt } = value;
  if (typeof takenAt !== 'string' || Number.isNaN(Date.parse(takenAt))) throw invalid('`takenAt` must be a time');
  function parsed<T extends KubeObject>(
    field: string,
    kind: { validate(object: unknown): readonly FieldError[]; parse(object: unknown): T },
  ): Stored<T>[] {
    const list = isRecord(value) ? value[field] : undefined;
    if (!Array.isArray(list)) throw invalid(`\`${field}\` must be a list`);
    return list.map((object: unknown, index) => {
      const [error] = kind.validate(object);
      const at = `${field}[${index}]`;
      if (error !== undefined) throw invalid(`\`${at}.${error.path}\` ${error.message}`);
      const parsed = kind.parse(object);
      if (!isSubdomain(parsed.metadata.name)) throw invalid(`\`${at}.metadata.name\` must be the name of an object`);
      const commit = otherCommit(parsed, at);
      if (commit !== undefined) throw invalid(`\`${commit}\` must be the id of a commit`);
      return asStored(parsed);
    });
  }
  return {
    takenAt,
    fleets: parsed('fleets', Fleets),
    clusters: parsed('clusters', Clusters),
    rollouts: parsed('rollouts', Rollouts),
  };
}

/** Where a field `commit` is whose value is no id. */
function otherCommit(value: unknown, path: string): string | undefined {
  if (Array.isArray(value)) return firstOf(value.entries(), ([index, each]) => otherCommit(each, `${path}[${index}]`));
  if (!isRecord(value)) return undefined;
  return firstOf(Object.entries(value), ([name, each]) => {
    const at = `${path}.${name}`;
    return name === 'commit' && typeof each === 'string' && !isOid(each) ? at : otherCommit(each, at);
  });
}

function firstOf<T, Found>(items: Iterable<T>, find: (item: T) => Found | undefined): Found | undefined {
  for (const item of items) {
    const found = find(item);
    if (found !== undefined) return found;
  }
  return undefined;
}

function asStored<T extends KubeObject>(object: T): Stored<T> {
  const { uid = '', resourceVersion = '', creationTimestamp = '' } = object.metadata;
  return { ...object, metadata: { ...object.metadata, uid, resourceVersion, creationTimestamp } };
}

function withoutManagers<T extends { metadata: { managedFields?: unknown } }>(object: T): T {
  const { managedFields: _managedFields, ...metadata } = object.metadata;
  return { ...object, metadata };
}

const isRecord = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null && !Array.isArray(value);
