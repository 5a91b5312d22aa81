/**
 * What a commit becomes is one Rollout, which an API server must store together with the status that it will have (docs/protocols.md#e18). That is judged before
 * anything is written: else the commit would be neither accepted nor refused, or its Rollout would carry no status. Pure.
 */
import type { Fleet } from '../api/fleet.ts';
import { API_VERSION } from '../api/kind.ts';
import { LONGEST_MESSAGE, plainText } from '../api/plain-text.ts';
import { MOST_PLACEMENTS, MOST_UNITS, type Rollout, type RolloutUnit, type RolloutUnitStatus } from '../api/rollout.ts';
import { syncError } from './errors.ts';

type Spec = Rollout['spec'];
type Status = NonNullable<Rollout['status']>;

/** etcd takes 1.5 MiB (`--max-request-bytes`) by default. The rest is for what the server adds, and for what people steer a Rollout by. */
export const MOST_BYTES = 1_400_000;

const TIME = '2026-01-01T00:00:00.000Z';
const NAME = 'x'.repeat(63);

/** Throws where the Rollout of these units is one that no API server stores. */
export function refuseTooLarge(fleet: Fleet, { units, stages }: Pick<Spec, 'units' | 'stages'>): void {
  if (units.length === 0) return;
  const placements = units.reduce((sum, { clusters }) => sum + clusters.length, 0);
  const widest = units.reduce((most, { clusters }) => Math.max(most, clusters.length), 0);
  // The size of one that has too many is not asked for: it may be far larger than memory should contain.
  const isCounted = units.length <= MOST_UNITS && widest <= MOST_PLACEMENTS;
  const bytes = isCounted ? bytesOf(largest(fleet, { units, stages })) : undefined;
  if (bytes !== undefined && bytes <= MOST_BYTES) return;
  const found = `it changes ${units.length} units on up to ${widest} clusters each, ${placements} (unit, cluster) pairs in all`;
  const limit =
    bytes === undefined
      ? `one Rollout has at most ${MOST_UNITS} units and ${MOST_PLACEMENTS} clusters of each`
      : `its Rollout would have up to ${bytes} bytes with its status, and at most ${MOST_BYTES} are stored: with names as these about ${Math.floor((placements * MOST_BYTES) / bytes)} pairs`;
  throw syncError('CommitTooLarge', `${found}; ${limit}`, {
    next: 'split the commit: let it change fewer units, or units of fewer clusters, and push the next part when the Fleet has accepted this one',
  });
}

/** As it is when every placement has all fields, and no message. */
function largest(fleet: Fleet, { units, stages }: Pick<Spec, 'units' | 'stages'>): Rollout & { status: Status } {
  const stage = stages.reduce((longest, { name }) => (name.length > longest.length ? name : longest), '');
  const statusOf = ({ unit, clusters }: RolloutUnit): RolloutUnitStatus => ({
    unit,
    phase: 'Progressing',
    lane: 'Forward',
    stage,
    soakUntil: TIME,
    pausedBy: NAME,
    revoked: true,
    reason: NAME,
    cluster: NAME,
    clusters: clusters.map(({ name }) => ({
      name,
      phase: 'Superseded',
      lane: 'Restore',
      appliedAt: TIME,
      verifiedAt: TIME,
      halted: true,
    })),
  });
  return {
    apiVersion: API_VERSION,
    kind: 'Rollout',
    metadata: { name: NAME },
    spec: { fleet: fleet.metadata.name, commit: 'c'.repeat(64), sequence: 1, stages, units },
    status: { units: units.map(statusOf) },
  };
}

/** With `managedFields`, in which the server notes for every field of every placement who wrote it. */
function bytesOf(rollout: Rollout): number {
  const { spec, status } = rollout;
  return jsonBytes(rollout) + jsonBytes(fieldsOf(spec.units)) + jsonBytes(fieldsOf(status?.units ?? []));
}

type Fields = { [key: string]: Fields };

function fieldsOf(units: readonly (RolloutUnit | RolloutUnitStatus)[]): Fields {
  const entries = units.map((unit): [string, Fields] => {
    const placements = (unit.clusters ?? []).map((placement): [string, Fields] => [
      `k:${JSON.stringify({ name: placement.name })}`,
      ownedFields(placement),
    ]);
    return [`k:${JSON.stringify({ unit: unit.unit })}`, { ...ownedFields(unit), 'f:clusters': Object.fromEntries(placements) }];
  });
  return Object.fromEntries(entries);
}

const ownedFields = (value: object): Fields => ({
  '.': {},
  'f:message': {},
  ...Object.fromEntries(Object.keys(value).map((field) => [`f:${field}`, {}])),
});

const jsonBytes = (value: unknown): number => Buffer.byteLength(JSON.stringify(value));

/** How long messages may be, of placements and of units, until the whole fits; 0: there are none. The least of these is what a commit was judged with. */
const MESSAGE_LIMITS: readonly (readonly [placement: number, unit: number])[] = [
  [LONGEST_MESSAGE, LONGEST_MESSAGE],
  [200, LONGEST_MESSAGE],
  [60, LONGEST_MESSAGE],
  [0, LONGEST_MESSAGE],
  [0, 200],
  [0, 0],
];

/** So many placements and units fit with the longest messages in any script. */
const ALWAYS_FIT = 200;

/** The status with messages as long as an API server stores them. */
export function fitStatus(rollout: Rollout, status: Status): Status {
  const placements = rollout.spec.units.reduce((sum, { clusters }) => sum + clusters.length, rollout.spec.units.length);
  if (placements <= ALWAYS_FIT) return status;
  let fitted = status;
  for (const [placement, unit] of MESSAGE_LIMITS) {
    fitted = { ...status, units: (status.units ?? []).map((each) => shortened(each, placement, unit)) };
    if (bytesOf({ ...rollout, status: fitted }) <= MOST_BYTES) break;
  }
  return fitted;
}

function shortened(unit: RolloutUnitStatus, placementLimit: number, unitLimit: number): RolloutUnitStatus {
  const { message, clusters, ...rest } = unit;
  const placements = clusters?.map(({ message: its, ...placement }) => ({ ...placement, ...cut(its, placementLimit) }));
  return { ...rest, ...cut(message, unitLimit), ...(placements === undefined ? {} : { clusters: placements }) };
}

function cut(message: string | undefined, limit: number): { message?: string } {
  return message === undefined || limit === 0 ? {} : { message: plainText(message, limit) };
}
