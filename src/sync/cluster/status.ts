/** The status of a Cluster, from what its cell shows. */
import type { Cluster, Orphans } from '../../api/cluster.ts';
import { canonical } from '../../api/digest.ts';
import { plainText } from '../../api/plain-text.ts';
import type { KubeObject, Stored } from '../../api/wire.ts';
import { setConditions } from '../../kube/conditions.ts';
import { CONNECTING, type Away } from '../cell/away.ts';
import { isCell, type Cell } from '../cell/cell.ts';
import { contentOf } from './content.ts';

type Status = NonNullable<Cluster['status']>;

/** One cell at one moment. */
export interface CellView {
  /** Why it is not reached. */
  away: Away | undefined;
  /** Undefined where it is not reached. */
  content: ReturnType<typeof contentOf> | undefined;
  /** Of the cluster that is reached. */
  uid: string | undefined;
}

/** Undefined while there is nothing to report: it is being connected, its stores are not synced, or whether it is well is not known. */
export function viewOf(cell: Cell | Away, orphansIn: (objects: readonly KubeObject[]) => Orphans | undefined): CellView | undefined {
  if (!isCell(cell)) return cell.reason === CONNECTING ? undefined : { away: cell, content: undefined, uid: undefined };
  // To read it may make it away.
  const content = cell.read((each) => contentOf(each, orphansIn));
  const away = cell.away();
  if (away !== undefined) return away.reason === CONNECTING ? undefined : { away, content, uid: undefined };
  return cell.synced() && !cell.isOnTrial() ? { away, content, uid: cell.uid() } : undefined;
}

/** What is merged into the status; undefined where nothing differs. `newOrphans`: of those that were found, which are to be reported. */
export function statusPatch(
  { metadata, status: before }: Stored<Cluster>,
  { away, content, uid }: CellView,
  newOrphans: (found: Orphans | undefined) => Orphans | undefined,
  now: number,
): object | undefined {
  const reachable = {
    type: 'Reachable',
    status: away === undefined ? 'True' : 'False',
    reason: reasonOf(away),
    message: plainText(away?.message ?? '', 32_000),
    ...(metadata.generation === undefined ? {} : { observedGeneration: metadata.generation }),
  } as const;
  const conditions = setConditions(before?.conditions, [reachable], now);
  // What was reported last stays while the cell is away.
  const machines = content?.machines;
  const attention = content?.attention ?? before?.attention ?? [];
  const orphans = content === undefined ? before?.orphans : newOrphans(content.orphans);
  // The first that is reached, or the one that is meant.
  const cellUID = away === undefined ? uid : before?.cellUID;
  const reported = {
    conditions,
    attention,
    ...(cellUID === undefined ? {} : { cellUID }),
    ...(machines === undefined ? {} : { machines }),
    ...(orphans === undefined ? {} : { orphans }),
  } satisfies Status;
  const { units: _units, orphans: orphansBefore, ...known } = before ?? {};
  const reportedBefore = { attention: [], ...known, ...(orphansBefore === undefined ? {} : { orphans: orphansBefore }) };
  if (canonical({ ...known, ...reported }) === canonical(reportedBefore)) return undefined;
  // A merge keeps what it does not name.
  return {
    ...reported,
    ...(machines === undefined ? {} : { machines: { sets: null, ...machines } }),
    ...(orphans === undefined && orphansBefore !== undefined ? { orphans: null } : {}),
  };
}

/** Of the condition and the Event. */
export function reasonOf(away: Away | undefined): string {
  return away?.reason ?? 'Connected';
}
