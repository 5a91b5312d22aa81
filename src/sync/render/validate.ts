/** From what was rendered to what may be applied: everything that can be known without a server. */
import { Clusters, type Cluster } from '../../api/cluster.ts';
import { splitUnits, unitKey, type Unit } from '../../api/unit.ts';
import type { KubeObject } from '../../api/wire.ts';
import { checkCluster, checkDuplicates, type CheckRules } from './cluster-rules.ts';
import type { RenderedCluster } from './decode.ts';
import { placeOf, type Finding } from './finding.ts';
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
  const findings: Finding[] = [];
  const clusters: ValidCluster[] = [];
  for (const each of rendered.clusters) {
    const cluster = checkHubObject(each, checks, findings);
    const before = findings.length;
    const objects = checkObjects(each, checks, findings);
    if (cluster === undefined || findings.length > before) continue;
    const locations = new Map(each.objects.map(({ object, location }) => [objectKey(object), location]));
    clusters.push({ name: each.name, cluster, units: splitUnits(objects).units, locations, location: each.location });
  }
  const [first, ...more] = findings;
  return first === undefined ? { ok: true, valid: { clusters } } : { ok: false, findings: [first, ...more] };
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
  findings.push(...found.map((finding) => ({ ...placeOf(location), ...finding, object: `Cluster/${name}` })));
  return found.length > 0 ? undefined : parsed;
}

function checkObjects({ name, objects }: RenderedCluster, { checkRules, judgeObject }: Checks, findings: Finding[]): KubeObject[] {
  const places = new Map(objects.map(({ object, location }) => [object, location]));
  const where = (object: KubeObject) => places.get(object) ?? '';
  const say = (object: KubeObject, { code, message, path, next }: ObjectFinding) => {
    findings.push({ ...placeOf(where(object)), code, cluster: name, object: unitKey(object), path, message, next });
  };
  const sound: KubeObject[] = [];
  for (const { object } of objects) {
    const found = checkObject(object, judgeObject);
    for (const finding of found) say(object, finding);
    if (found.length === 0) sound.push(object);
  }
  // When some objects are wrong by themselves, others would seem to miss them.
  const together = sound.length === objects.length ? checkCluster(sound, where, checkRules) : [];
  for (const { about, ...finding } of [
    ...checkDuplicates(
      objects.map(({ object }) => object),
      where,
    ),
    ...together,
  ])
    say(about, finding);
  return sound;
}
