/** From what was rendered to what may be applied: everything that can be known without a server. */
import { setImmediate as turn } from 'node:timers/promises';
import { Clusters, type Cluster } from '../../api/cluster.ts';
import { splitUnits, unitKey, type Unit } from '../../api/unit.ts';
import type { KubeObject } from '../../api/wire.ts';
import { checkCluster, checkDuplicates, type CheckRules } from './cluster-rules.ts';
import type { RenderedCluster } from './decode.ts';
import { positionOf, type Finding } from './finding.ts';
import { asFindings, checkLabels, checkObject, label, type JudgeObject, type ObjectFinding } from './object-rules.ts';
import type { Rendered } from './render.ts';

export interface ValidCluster {
  name: string;
  /** For the hub. */
  cluster: Cluster;
  /** `unitDigest` is not set in any object. */
  units: Unit[];
  /** `file:line:column` of every object, by `objectKey`. */
  locations: Map<string, string>;
  /** Of the Cluster itself. */
  location: string;
}

export interface Valid {
  /** By name. */
  clusters: ValidCluster[];
}

export type { CheckRules, JudgeObject };

/** What only others know. */
export interface Checks {
  checkRules: CheckRules;
  judgeObject: JudgeObject;
}

export type Validation = { ok: true; valid: Valid } | { ok: false; findings: [Finding, ...Finding[]] };

/** `apiVersion/Kind/[namespace/]name` */
export function objectKey(object: KubeObject): string {
  return `${object.apiVersion}/${unitKey(object)}`;
}

/** All findings, in the order of clusters and objects. One finding refuses the whole commit. */
export function validate(rendered: Pick<Rendered, 'clusters'>, checks: Checks): Validation {
  const steps = validation(rendered, checks);
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
  }
}

/** The same for a process that has more to do: after each object all else has its turn, such as the renewal of a Lease (docs/protocols.md#e19). */
export async function validateInTurns(rendered: Pick<Rendered, 'clusters'>, checks: Checks, signal: AbortSignal): Promise<Validation> {
  const steps = validation(rendered, checks);
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
    await turn();
    signal.throwIfAborted();
  }
}

/** What the rules of all objects may cost together, as an API server counts it: as much for any commit, and more for each object. A MachineSet with one taint costs 430. */
const BASE_COST = 10_000_000;
const OBJECT_COST = 3000;

/** Yields after each object. */
function* validation(rendered: Pick<Rendered, 'clusters'>, checks: Checks): Generator<void, Validation> {
  const findings: Finding[] = [];
  const clusters: ValidCluster[] = [];
  const count = rendered.clusters.reduce((sum, { objects }) => sum + 1 + objects.length, 0);
  const most = BASE_COST + OBJECT_COST * count;
  let cost = 0;
  const judgeObject: JudgeObject = (object) => checks.judgeObject(object, (spent) => void (cost += spent));
  const metered = { ...checks, judgeObject };
  for (const each of rendered.clusters) {
    const cluster = checkHubObject(each, metered, findings);
    const before = findings.length;
    const sound: KubeObject[] = [];
    for (const { object, location } of each.objects) {
      yield;
      if (isSound(each.name, object, location, judgeObject, findings)) sound.push(object);
      if (cost <= most) continue;
      findings.push(tooCostly(each.name, object, location, `${Math.round(cost)}, and ${count} objects may cost ${most}`));
      return validationOf(findings, clusters);
    }
    yield;
    checkTogether(each, sound, checks, findings);
    if (cluster === undefined || findings.length > before) continue;
    const locations = new Map(each.objects.map(({ object, location }) => [objectKey(object), location]));
    clusters.push({ name: each.name, cluster, units: splitUnits(sound).units, locations, location: each.location });
  }
  return validationOf(findings, clusters);
}

function validationOf([first, ...more]: Finding[], clusters: ValidCluster[]): Validation {
  return first === undefined ? { ok: true, valid: { clusters } } : { ok: false, findings: [first, ...more] };
}

function tooCostly(cluster: string, object: KubeObject, location: string, costs: string): Finding {
  return {
    ...positionOf(location),
    code: 'TooCostly',
    cluster,
    object: unitKey(object),
    message: `judging all objects up to this one by the rules of their kinds cost ${costs}`,
    next: 'shorten long lists, such as taints, in objects that are many',
  };
}

function checkHubObject({ name, object, location }: RenderedCluster, { judgeObject }: Checks, findings: Finding[]): Cluster | undefined {
  const found: ObjectFinding[] = checkLabels(object.metadata.labels, 'metadata.labels', true);
  const named = label(name);
  if (named !== undefined) found.push({ code: 'NameInvalid', path: 'metadata.name', message: named });
  if (object.metadata.name !== name) found.push({ code: 'NameInvalid', path: 'metadata.name', message: `must be "${name}"` });
  const errors = Clusters.validate(object);
  const parsed = errors.length === 0 ? Clusters.parse(object) : undefined;
  if (parsed?.spec.unitDigest !== undefined)
    found.push({ code: 'FieldRefused', path: 'spec.unitDigest', message: 'must not be set: it is written by sync' });
  found.push(...asFindings(errors.length > 0 ? errors : judgeObject(object)));
  findings.push(...found.map((finding) => ({ ...positionOf(location), ...finding, object: `Cluster/${name}` })));
  return found.length > 0 ? undefined : parsed;
}

function findingOf(cluster: string, object: KubeObject, location: string, { code, message, path, next }: ObjectFinding): Finding {
  return { ...positionOf(location), code, cluster, object: unitKey(object), path, message, next };
}

/** Whether it is right by itself. */
function isSound(cluster: string, object: KubeObject, location: string, judgeObject: JudgeObject, findings: Finding[]): boolean {
  const found = checkObject(object, judgeObject);
  findings.push(...found.map((finding) => findingOf(cluster, object, location, finding)));
  return found.length === 0;
}

function checkTogether(
  { name, objects }: RenderedCluster,
  sound: readonly KubeObject[],
  { checkRules }: Checks,
  findings: Finding[],
): void {
  const locations = new Map(objects.map(({ object, location }) => [object, location]));
  const where = (object: KubeObject): string => locations.get(object) ?? '';
  const all = objects.map(({ object }) => object);
  // When some objects are wrong by themselves, others would seem to miss them.
  const together = sound.length === objects.length ? checkCluster(sound, where, checkRules) : [];
  for (const { about, ...finding } of [...checkDuplicates(all, where), ...together])
    findings.push(findingOf(name, about, where(about), finding));
}
