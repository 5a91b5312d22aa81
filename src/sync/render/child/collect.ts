/** From constructs to plain objects. */
import { messageOf } from '../../../api/errors.ts';
import { ApiObject } from 'cdk8s';
import type { IConstruct } from 'constructs';
import type { Cluster } from '../../../constructs/scope.ts';
import { originOf } from '../../../constructs/origin.ts';
import { positionOf, type Finding } from '../finding.ts';
import type { ChildOutput } from '../wire.ts';

interface Emitted {
  object: unknown;
  location: string;
  path: string;
}

/** `made` is every construct that was made, to find those that ended up in no cluster. `unsigned` goes with the result, for others to judge. */
export function collect(
  clusters: readonly Cluster[],
  made: ReadonlySet<IConstruct>,
  { entry, unsigned }: { entry: string; unsigned: Finding[] },
): ChildOutput {
  const findings: Finding[] = [];
  const inClusters = new Set<IConstruct>();
  const out = clusters.map((cluster) => {
    const objects: Emitted[] = [];
    for (const construct of cluster.node.root.node.findAll()) {
      inClusters.add(construct);
      const location = originOf(construct) ?? entry;
      for (const message of construct.node.validate())
        findings.push({ ...positionOf(location), code: 'RenderInvalid', cluster: cluster.name, object: construct.node.path, message });
      if (!ApiObject.isApiObject(construct)) continue;
      const emitted = emit(construct, cluster.name, location, findings);
      if (emitted !== undefined) objects.push({ object: emitted, location, path: construct.node.path });
    }
    const keys = new Map(objects.map((each) => [each, sortKey(each)]));
    objects.sort((a, b) => ((keys.get(a) ?? '') < (keys.get(b) ?? '') ? -1 : 1));
    return { name: cluster.name, object: cluster.toObject(), location: originOf(cluster) ?? entry, objects };
  });
  for (const construct of made) {
    if (!ApiObject.isApiObject(construct) || inClusters.has(construct)) continue;
    findings.push({
      ...positionOf(originOf(construct) ?? entry),
      code: 'RenderInvalid',
      object: `${construct.kind}/${construct.name}`,
      message: 'is in no cluster, so nothing would apply it',
      next: 'make it inside fleet.clusters(…)',
    });
  }
  for (const { name, object, location } of out) findings.push(...valueFindings(object, name, `Cluster/${name}`, location));
  return findings.length > 0 ? { ok: false, findings } : { ok: true, unsigned, clusters: out };
}

/** A Lazy value may answer differently each time, so an object is asked once and everything is read from its answer. */
function emit(construct: ApiObject, cluster: string, location: string, findings: Finding[]): unknown {
  const label = `${construct.kind}/${typeof construct.name === 'string' ? construct.name : '?'}`;
  let object: unknown;
  try {
    object = construct.toJson();
  } catch (error) {
    const props = (construct as unknown as { props?: unknown }).props;
    const found = valueFindings(props, cluster, label, location, { unresolved: true });
    if (found.length > 0) findings.push(...found);
    else
      findings.push({
        ...positionOf(location),
        code: 'RenderValue',
        cluster,
        object: label,
        message: messageOf(error),
      });
    return undefined;
  }
  const found = valueFindings(object, cluster, label, location);
  findings.push(...found);
  return found.length > 0 ? undefined : object;
}

function sortKey({ object, path }: Emitted): string {
  const { apiVersion, kind, metadata } = object as {
    apiVersion?: unknown;
    kind?: unknown;
    metadata?: { namespace?: unknown; name?: unknown };
  };
  return [apiVersion, kind, metadata?.namespace ?? '', metadata?.name, path].map(String).join('\0');
}

/** What JSON would drop or turn into something else without a word. `unresolved`: tokens stand for what is not known yet. */
function valueFindings(
  value: unknown,
  cluster: string,
  object: string,
  location: string,
  { unresolved }: { unresolved: boolean } = { unresolved: false },
): Finding[] {
  const findings: Finding[] = [];
  const report = (path: string, message: string) =>
    findings.push({ ...positionOf(location), code: 'RenderValue', cluster, object, path, message });
  const visit = (item: unknown, path: string, depth: number, inArray: boolean): void => {
    if (findings.length >= 10) return;
    if (item === null || item === undefined) {
      if (inArray) report(path, `must not be ${String(item)}: a list has values only`);
      return;
    }
    if (typeof item === 'number' && !Number.isFinite(item)) report(path, `must be a finite number, got ${item}`);
    if (typeof item === 'function' || typeof item === 'symbol' || typeof item === 'bigint')
      report(path, `must be JSON, got a ${typeof item}`);
    if (typeof item !== 'object') return;
    if (depth > MAX_DEPTH) return void report(path, `must not be nested deeper than ${MAX_DEPTH}`);
    if (Array.isArray(item)) {
      for (const [index, each] of item.entries()) visit(each, `${path}[${index}]`, depth + 1, true);
      return;
    }
    const prototype: unknown = Object.getPrototypeOf(item);
    if (prototype !== Object.prototype && prototype !== null) {
      if (!isToken(item)) return void report(path, `must be a plain value, got ${describe(item)}`);
      if (unresolved) return;
    }
    for (const [key, each] of Object.entries(item)) visit(each, path === '' ? key : `${path}.${key}`, depth + 1, false);
  };
  visit(value, '', 0, false);
  return findings;
}

const MAX_DEPTH = 64;

/** cdk8s resolves these while it makes JSON. */
function isToken(item: object): boolean {
  return 'produce' in item || 'resolve' in item || ApiObject.isApiObject(item);
}

function describe(item: object): string {
  if (item instanceof Date) return 'a Date: write the time as text';
  return `a ${item.constructor?.name ?? 'object without a prototype'}`;
}
