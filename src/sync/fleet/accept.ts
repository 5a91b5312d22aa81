/** One commit, from its fetch to the Rollout that carries it: fetch → verify → render → observe → plan → write → report. */
import type { Fleet } from '../../api/fleet.ts';
import type { Rollout } from '../../api/rollout.ts';
import type { Stored } from '../../api/wire.ts';
import type { Client } from '../../kube/client.ts';
import { lateText } from '../deletions/pending.ts';
import { refuseMoves } from '../moves.ts';
import { plan, type Plan } from '../plan.ts';
import type { Fetched } from '../git/index.ts';
import type { Checkout, RenderedCommit } from './checkout.ts';
import { declare } from './clusters.ts';
import { authorship, HELD_BACK, machinesSeen, rolloutOf } from './decide.ts';
import type { FleetDependencies, FleetRun } from './dependencies.ts';
import { requireHistory } from './history.ts';
import { observe, type FleetView } from './observe.ts';
import { planInput } from './plan-input.ts';
import { createRollout, sweep } from './rollouts.ts';
import { isNews, reportFleet, short } from './status.ts';

/**
 * Accepts the head of the branch, or throws why not: coded where its content is refused, and then nothing was changed. `read` is the Fleet as the server has it.
 * Can be repeated after any crash.
 */
export async function accept(deps: FleetDependencies, run: FleetRun, read: Stored<Fleet>, checkout: Checkout): Promise<void> {
  const { bundles, signal } = deps;
  const { client } = run;
  const fetched = await checkout.fetch(read.status?.commit, signal);
  const { head } = fetched;
  requireHistory(read, fetched);
  const accepted = fetched.relation === 'descendant' ? read.status?.commit : undefined;
  await checkout.verify({ ...fetched, ...(accepted === undefined ? {} : { accepted }) }, signal);
  const rendered = await checkout.render(head, signal);
  run.log.info({ fleet: read.metadata.name, commit: head, clusters: rendered.clusters.length, ms: Math.round(rendered.ms) }, 'rendered');

  const view = await observe(client, read, signal);
  const { fleet, clusters, wanted } = view;
  const declared = rendered.clusters.map(({ object }) => object);
  refuseMoves({ fleet, head, declared, clusters, isWanted: (cluster) => (wanted.get(cluster)?.size ?? 0) > 0 });
  const planned = plan(await planInput(view, rendered, { bundles, render: (commit) => checkout.render(commit, signal) }));

  for (const cluster of rendered.clusters)
    for (const { key, digest, objects, origins } of cluster.units) await bundles.put(digest, { key, objects, origins });
  for (const object of declared) await declare(deps, client, fleet, object, clusters);
  const made = await created(client, view, fetched, planned, signal);
  rememberHeldBack(deps, view, planned);
  rememberLate(deps, view);
  await reportAccepted(deps, run, { read, view, fetched, rendered, planned, ...made });
  const { rollout } = made;
  await sweep(deps, client, rollout === undefined ? view.rollouts : [...view.rollouts, rollout], clusters, rendered);
}

interface Created {
  /** undefined: the commit changes nothing. */
  rollout: Stored<Rollout> | undefined;
  /** As it was written last. */
  over: Stored<Fleet>;
}

async function created(
  client: Client,
  { fleet, rollouts }: FleetView,
  { head, commits }: Fetched,
  planned: Plan,
  signal: AbortSignal,
): Promise<Created> {
  if (planned.units.length === 0) return { rollout: undefined, over: fleet };
  const sequence = 1 + (fleet.status?.rollout?.sequence ?? 0);
  const { made, over } = await createRollout(
    client,
    fleet,
    rolloutOf(fleet, authorship(head, commits, rollouts), head, planned, sequence),
    signal,
  );
  return { rollout: made, over };
}

function rememberHeldBack({ memory }: FleetDependencies, { fleet, clusters }: FleetView, { heldBack }: Plan): void {
  const { name } = fleet.metadata;
  if (heldBack === undefined) memory.heldOver.delete(name);
  else memory.heldOver.set(name, { clusters: heldBack.waitsFor, seen: machinesSeen(clusters, heldBack.waitsFor) });
}

function rememberLate({ memory }: FleetDependencies, { fleet, rollouts, clusters }: FleetView): void {
  const late = lateText(rollouts, clusters);
  if (late === undefined) memory.late.delete(fleet.metadata.name);
  else memory.late.set(fleet.metadata.name, late);
}

interface Accepted extends Created {
  read: Stored<Fleet>;
  view: FleetView;
  fetched: Fetched;
  rendered: RenderedCommit;
  planned: Plan;
}

/** What was applied there stays, and no unit of it is one that changes. */
function leftText(clusters: readonly string[]): string {
  if (clusters.length === 0) return '';
  const more = clusters.length > MOST_LEFT ? ` and ${clusters.length - MOST_LEFT} more` : '';
  return `, and lets go of cluster${clusters.length === 1 ? '' : 's'} ${clusters.slice(0, MOST_LEFT).join(', ')}${more}: what was applied there stays`;
}
const MOST_LEFT = 5;

async function reportAccepted(
  deps: FleetDependencies,
  { client, log }: FleetRun,
  { read, view: { fleet }, fetched, rendered, planned, rollout, over }: Accepted,
): Promise<void> {
  const { head, commits } = fetched;
  const [info] = commits;
  const { units, heldBack } = planned;
  const declared = new Set(rendered.clusters.map(({ name }) => name));
  const left = (fleet.status?.clusters ?? []).filter((name) => !declared.has(name));
  const changes = `${short(head)} changes ${['nothing', '1 unit'][units.length] ?? `${units.length} units`}${leftText(left)}`;
  const message = heldBack === undefined ? changes : `${changes}, but ${heldBack.message}\nnext: ${heldBack.next}`;
  await reportFleet(deps, client, over, {
    reason: heldBack === undefined ? 'Accepted' : HELD_BACK,
    ready: heldBack === undefined ? 'True' : 'False',
    message,
    status: {
      head,
      commit: head,
      commitTime: info?.time ?? fleet.status?.commitTime,
      ...(rollout === undefined ? {} : { rollout: { sequence: rollout.spec.sequence, uid: rollout.metadata.uid } }),
      clusters: rendered.clusters.map((cluster) => cluster.name).sort(),
      isolation: rendered.isolation,
      units: rendered.clusters.reduce((sum, cluster) => sum + cluster.units.length, 0),
    },
  });
  if (heldBack !== undefined && isNews(read, HELD_BACK, message)) {
    log.warn({ fleet: fleet.metadata.name, commit: head, all: heldBack.all }, `held back: ${heldBack.message}`);
    deps.recorder.event(fleet, { type: 'Warning', reason: HELD_BACK, message: message.slice(0, 1000) });
  }
  if (rollout === undefined) return;
  const names = units.map(({ unit }) => unit).join(', ');
  deps.recorder.event(rollout, {
    type: 'Normal',
    reason: 'RolloutCreated',
    message: `${short(head)} "${rollout.spec.subject ?? ''}": ${names.slice(0, 800)}`,
  });
}
