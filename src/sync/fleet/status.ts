/** What a Fleet reports of its last commit: its conditions, and the Events that go with them. */
import { canonical } from '../../api/digest.ts';
import { CodedError, messageOf } from '../../api/errors.ts';
import { Fleets, type Fleet } from '../../api/fleet.ts';
import { MANAGERS } from '../../api/names.ts';
import type { Clock } from '../../api/ports.ts';
import type { Stored } from '../../api/wire.ts';
import { hasReason } from '../../kube/api-error.ts';
import type { Client } from '../../kube/client.ts';
import { setConditions } from '../../kube/conditions.ts';
import { TooManyDeletions } from '../deletions/judge.ts';
import type { FleetDependencies } from './dependencies.ts';

type Status = NonNullable<Fleet['status']>;

/** The Fleet was written by another since it was read: all is judged again. */
export class Outdated extends Error {}

export interface FleetReport {
  reason: string;
  message: string;
  ready: 'True' | 'False' | 'Unknown';
  status?: { [K in keyof Status]?: Status[K] | undefined };
}

export const short = (commit: string | undefined): string => commit?.slice(0, 10) ?? 'nothing';

/** Whether its condition was another before. */
export function isNews({ status }: Fleet, reason: string, message: string): boolean {
  const before = status?.conditions?.find(({ type }) => type === 'Ready');
  return before?.reason !== reason || before.message !== message;
}

/** The status as this report makes it. Pure. */
export function reportedStatus(fleet: Fleet, { reason, message, ready, status = {} }: FleetReport, nowMs: number): Status {
  const { generation } = fleet.metadata;
  const observed = generation === undefined ? {} : { observedGeneration: generation };
  const condition = { type: 'Ready', status: ready, reason, message: message.slice(0, 32_000), ...observed };
  return { ...fleet.status, ...status, conditions: setConditions(fleet.status?.conditions, [condition], nowMs), ...observed } as Status;
}

/** Written where it differs. Throws `Outdated`. */
export async function reportFleet(
  { clock, signal }: { clock: Clock; signal: AbortSignal },
  client: Client,
  fleet: Stored<Fleet>,
  report: FleetReport,
): Promise<void> {
  const next = reportedStatus(fleet, report, clock.now());
  if (canonical(next) !== canonical(fleet.status ?? {})) await writeStatus(client, fleet, next, signal);
}

/** Conditioned on the Fleet as it was read. Throws `Outdated`. Returns it as written. */
export async function writeStatus(client: Client, fleet: Stored<Fleet>, status: object, signal: AbortSignal): Promise<Stored<Fleet>> {
  const { name, resourceVersion } = fleet.metadata;
  return await client
    .patch(
      Fleets,
      { name },
      { merge: { metadata: { resourceVersion }, status } },
      { subresource: 'status', fieldManager: MANAGERS.sync, signal },
    )
    .catch((error: unknown) => {
      throw hasReason(error, 'Conflict') ? new Outdated() : error;
    });
}

/** Reports in the Fleet why its commit is not in force. `refused`: by a verdict on its content; else it is tried again. Throws `Outdated`. */
export async function reportFailure(
  deps: FleetDependencies,
  client: Client,
  fleet: Stored<Fleet>,
  { error, head, refused }: { error: unknown; head: string | undefined; refused: boolean },
): Promise<void> {
  const { signal, recorder, log } = deps;
  const reason = error instanceof CodedError ? error.code : 'InternalError';
  const outcome = refused ? `${short(head)} is refused: ${messageOf(error)}` : `${messageOf(error)}; it is tried again`;
  const message = `${outcome}${error instanceof CodedError && error.next !== undefined ? `\nnext: ${error.next}` : ''}`;
  const live = await client.get(Fleets, { name: fleet.metadata.name }, { signal });
  if (live.metadata.generation !== fleet.metadata.generation || live.status?.commit !== fleet.status?.commit) throw new Outdated();
  await reportFleet(deps, client, live, { reason, message, ready: 'False', ...(head === undefined ? {} : { status: { head } }) });
  if (!isNews(live, reason, message)) return;
  const all = error instanceof TooManyDeletions ? { all: error.all } : {};
  log.warn({ fleet: fleet.metadata.name, head, reason, ...all }, message);
  recorder.event(fleet, { type: 'Warning', reason, message: message.slice(0, 1000) });
}
