/** Makes a plan: what would become of a commit, or of the files of a folder, on a hub as it is, or as a snapshot has it. Nothing is written. */
import * as fs from 'node:fs';
import { isCoded } from '../../api/errors.ts';
import type { Fleet } from '../../api/fleet.ts';
import { MachineComponentSets } from '../../api/machine-component-set.ts';
import { isUnitOf } from '../../api/unit.ts';
import type { KubeObject, Stored } from '../../api/wire.ts';
import { systemClock } from '../../kube/clock.ts';
import type { RenderedCommit } from '../../sync/fleet/checkout.ts';
import { DEFAULT_INCLUDE } from '../../sync/fleet/entry.ts';
import { viewOf, type FleetView } from '../../sync/fleet/observe.ts';
import { planInput } from '../../sync/fleet/plan-input.ts';
import { renderTree, type Renderer } from '../../sync/fleet/render-tree.ts';
import { syncError } from '../../sync/errors.ts';
import { openSource, parseAllowedSigners, type GitSource } from '../../sync/git/index.ts';
import { refuseMoves } from '../../sync/moves.ts';
import { carriedBy, plan } from '../../sync/plan.ts';
import type { Isolation } from '../../sync/render/wall.ts';
import { readFolder } from '../fleet-folder.ts';
import { forecast, type Forecast } from './forecast.ts';
import { commitsSince, historyWarning, resolveRevision } from './history.ts';
import { WITHHELD, type HubSnapshot } from './snapshot.ts';
import { cliError } from '../errors.ts';

export interface PlanRequest {
  /** Absolute path of the repository. */
  folder: string;
  /** Commit, branch or tag, with `~` or `^` behind it; undefined: the files in the folder as they are. */
  revision: string | undefined;
  /** Name of the Fleet; undefined: the only one. */
  fleet: string | undefined;
}

export interface Made {
  fleet: string;
  /** Undefined: the files in the folder. */
  commit: string | undefined;
  /** The last commit that the hub accepted. */
  accepted: string | undefined;
  warnings: string[];
  /** The wall that it was rendered behind; undefined: it was not. */
  isolation: Isolation | undefined;
  result: { state: 'Planned'; forecast: Forecast } | { state: 'Refused'; code: string; message: string; next: string | undefined };
}

/** Errors: those of Git, `NoSuchFleet`. What the hub would refuse is a result. */
export async function makePlan(request: PlanRequest, snapshot: HubSnapshot, renderer: Renderer, signal: AbortSignal): Promise<Made> {
  const fleet = fleetOf(snapshot, request.fleet);
  const source = openSource({ kind: 'local', path: request.folder }, { fs, fetch, clock: systemClock() });
  const commit = request.revision === undefined ? undefined : await resolveRevision(request.folder, request.revision);
  const view = viewOf(fleet, snapshot.rollouts, snapshot.clusters);
  const warnings = [...(snapshot.warnings ?? [])];
  const render = rendersOf(source, fleet, renderer, signal);
  const made = { fleet: fleet.metadata.name, commit, accepted: fleet.status?.commit, warnings };
  let isolation: Isolation | undefined;
  try {
    if (commit !== undefined) warnings.push(...(await judgeSignatures(request.folder, source, fleet, commit, signal)));
    const [rendered, known] = await Promise.all([
      commit === undefined ? renderFolder(request.folder, fleet, renderer, warnings, signal) : render(commit),
      contentBefore(view, fleet.status?.commit, rendersOf(source, fleet, { ...renderer, once: true }, signal)),
    ]);
    isolation = rendered.isolation;
    if (commit !== undefined) warnings.push(...(await judgeHistory(request.folder, fleet, commit, signal)));
    warnings.push(...known.missing);
    const forecast = await planned(view, commit, rendered, { ...known, render, nowMs: Date.parse(snapshot.takenAt) });
    warnings.push(...known.uncompared());
    return { ...made, isolation, result: { state: 'Planned', forecast } };
  } catch (error) {
    if (!isCoded(error) || !error.verdict) throw error;
    return { ...made, isolation, result: { state: 'Refused', code: error.code, message: error.message, next: error.next } };
  }
}

function fleetOf({ fleets }: HubSnapshot, name: string | undefined): Stored<Fleet> {
  const names = fleets.map(({ metadata }) => metadata.name).join(', ') || 'none';
  const found = name === undefined ? (fleets.length === 1 ? fleets[0] : undefined) : fleets.find(({ metadata }) => metadata.name === name);
  if (found !== undefined) return found;
  throw cliError(
    'NoSuchFleet',
    name === undefined ? `which Fleet? There are: ${names}` : `there is no Fleet "${name}"; there are: ${names}`,
    {
      next: 'kubenode plan --fleet NAME',
    },
  );
}

async function renderFolder(
  folder: string,
  { spec }: Fleet,
  renderer: Renderer,
  warnings: string[],
  signal: AbortSignal,
): Promise<RenderedCommit> {
  if (spec.signatures !== undefined)
    warnings.push('the Fleet accepts only signed commits: the files here are not signed, and their commit must be');
  const include = spec.include ?? DEFAULT_INCLUDE;
  const files = await readFolder(folder, include, signal);
  if (files.size === 0)
    throw cliError('FleetNotFound', `there is no fleet in ${folder}: nothing is in ${include.join(', ')}`, {
      next: 'name the folder of the fleet repository: --folder FOLDER',
    });
  return await renderTree(files, spec, renderer, signal);
}

type Render = (commit: string) => Promise<RenderedCommit>;

/** Each commit once. */
function rendersOf(source: GitSource, { spec }: Fleet, renderer: Renderer, signal: AbortSignal): Render {
  const rendered = new Map<string, Promise<RenderedCommit>>();
  return async (commit) => {
    const found =
      rendered.get(commit) ??
      source
        .read(commit, { paths: spec.include ?? [...DEFAULT_INCLUDE] }, signal)
        .then((files) => renderTree(files, spec, renderer, signal));
    rendered.set(commit, found);
    return await found;
  };
}

/** The hub refuses a head that does not descend from what it accepted (docs/protocols.md#e7). */
async function judgeHistory(folder: string, { spec, status }: Fleet, head: string, signal: AbortSignal): Promise<string[]> {
  if (status?.commit === undefined || spec.acceptRewrittenHead === head) return [];
  const warning = await historyWarning(folder, head, status.commit, signal);
  return warning === undefined ? [] : [warning];
}

/** As the hub judges them: the head and every commit that is new. Errors: Unsigned. */
async function judgeSignatures(
  folder: string,
  source: GitSource,
  { metadata, spec, status }: Fleet,
  head: string,
  signal: AbortSignal,
): Promise<string[]> {
  if (spec.signatures === undefined) return [];
  if (spec.signatures.allowedSigners === WITHHELD)
    return ['the Fleet accepts only signed commits, and a snapshot does not contain their keys: signatures were not checked'];
  const commits = status?.commit === undefined ? [] : await commitsSince(folder, head, status.commit, signal);
  const signers = parseAllowedSigners(spec.signatures.allowedSigners);
  const { refused } = await source.verifyRange({ head, commits }, signers, Date.now(), () => undefined, signal);
  const [first] = refused;
  if (first === undefined) return [];
  throw syncError('Unsigned', `Fleet ${metadata.name} accepts only signed commits: ${first.error.message}`, {
    cause: first.error,
    next: `sign every new commit with a key in spec.signatures.allowedSigners: git rebase --exec "git commit --amend --no-edit -S" ${status?.commit ?? '--root'}`,
  });
}

type Before = (digest: string) => readonly KubeObject[] | undefined;

interface KnownContent {
  before: Before;
  /** What a cluster had of a component set before that, for the releases in it (docs/protocols.md#e19). Undefined where it is not known here. */
  earlier: (digest: string) => Promise<readonly KubeObject[] | undefined>;
  accepted: RenderedCommit | undefined;
  missing: string[];
  /** What was asked for of `earlier`, and is not known here, in a warning. */
  uncompared: () => string[];
}

/** Earlier commits are rendered only for a plan that changes a release, and the newest of them. */
const MOST_EARLIER = 8;

/** Content that clusters have now, rendered again from the commits that it came with. */
async function contentBefore(view: FleetView, acceptedCommit: string | undefined, render: Render): Promise<KnownContent> {
  const { fleet, wanted, recorded } = view;
  const missing: string[] = [];
  const content = new Map<string, readonly KubeObject[]>();
  let accepted: RenderedCommit | undefined;
  const records = [...recorded.values()].flat().filter((each) => each.fleet === fleet.metadata.name);
  const commits = new Set([
    ...[...wanted.values()].flatMap((units) => [...units.values()].flatMap(({ commit }) => commit ?? [])),
    ...records.flatMap(({ commit, digest }) => (commit === undefined || digest === undefined ? [] : commit)),
    ...(acceptedCommit === undefined ? [] : [acceptedCommit]),
  ]);
  const note = async (commit: string): Promise<RenderedCommit> => {
    const rendered = await render(commit);
    for (const { units } of rendered.clusters) for (const { digest, objects } of units) content.set(digest, objects);
    return rendered;
  };
  for (const commit of commits) {
    try {
      const rendered = await note(commit);
      if (commit === acceptedCommit) accepted = rendered;
    } catch (error) {
      if (!isCoded(error)) throw error;
      missing.push(
        `what came with commit ${commit.slice(0, 10)} is not known here, so its changes show without their fields: ${error.message}`,
      );
    }
  }
  const former = formerReleases(view);
  const unknown = new Set<string>();
  let left = MOST_EARLIER;
  const earlier = async (digest: string): Promise<readonly KubeObject[] | undefined> => {
    const of = former.get(digest);
    if (of === undefined || content.has(digest)) return content.get(digest);
    const { commit, from } = of;
    if (commit !== undefined && !commits.has(commit) && left > 0) {
      commits.add(commit);
      left--;
      await note(commit).catch((error: unknown) => {
        if (!isCoded(error)) throw error;
      });
    }
    if (!content.has(digest)) unknown.add(from);
    return content.get(digest);
  };
  const uncompared = (): string[] =>
    unknown.size === 0
      ? []
      : [
          `releases of ${[...unknown].sort().join(', ')} are not known here: where a cluster has one of them with other content, the hub refuses the commit (ImmutableChanged)`,
        ];
  return { before: (digest) => content.get(digest), earlier, accepted, missing, uncompared };
}

/** By digest of a component set that a cluster has or had: the commit that renders it, where that is one of this Fleet; and whose it is, for people. */
function formerReleases({ fleet, rollouts, recorded }: FleetView): ReadonlyMap<string, { commit: string | undefined; from: string }> {
  const { name } = fleet.metadata;
  const found = new Map<string, { commit: string | undefined; from: string }>();
  for (const { unit, fleet: owner, digest, commit, verified = [] } of [...recorded.values()].flat()) {
    if (!isUnitOf(unit, MachineComponentSets)) continue;
    for (const each of [...verified, ...(digest === undefined ? [] : [{ digest, commit }])])
      found.set(
        each.digest,
        owner === name ? { commit: each.commit, from: 'earlier commits' } : { commit: undefined, from: `Fleet ${owner}` },
      );
  }
  for (const { spec } of rollouts)
    for (const { unit, clusters } of spec.units)
      for (const { digest, commit = spec.commit } of clusters)
        if (digest !== undefined && isUnitOf(unit, MachineComponentSets) && !found.has(digest))
          found.set(digest, { commit, from: 'earlier commits' });
  return found;
}

/** The hub keeps what it rendered; here it is rendered again where the repository has it. */
async function planned(
  view: FleetView,
  commit: string | undefined,
  rendered: RenderedCommit,
  { before, earlier, accepted, render, nowMs }: KnownContent & { render: Render; nowMs: number },
): Promise<Forecast> {
  const { fleet, clusters, wanted } = view;
  const declared = rendered.clusters.map(({ object }) => object);
  refuseMoves({
    fleet,
    head: commit ?? '',
    declared,
    clusters,
    isWanted: (cluster) => (wanted.get(cluster)?.size ?? 0) > 0,
  });
  const bundles = {
    get: async (digest: string) => {
      const objects = await earlier(digest);
      return objects === undefined ? undefined : { key: '', objects: [...objects], origins: [] };
    },
    put: async () => undefined,
    sweep: async () => undefined,
  };
  const input = await planInput(view, rendered, { bundles, render: async (commit) => await render(commit).catch(() => NOTHING) });
  return forecast({ view, rendered, planned: plan(input), before, accepted, isCarried: carriedBy(view.rollouts), nowMs });
}

/** A commit that this clone does not have: what it rendered counts as the most that it may be. */
const NOTHING: RenderedCommit = { clusters: [], isolation: 'process', ms: 0 };
