/** What must be true of the objects of one cluster together. */
import { satisfies, valid as isVersion } from 'semver';
import { DefenderPolicies, namedPools, type NamedPools } from '../../api/defender-policy.ts';
import { MachineComponents } from '../../api/machine-component.ts';
import { MachineComponentSets, type MachineComponentSet } from '../../api/machine-component-set.ts';
import { NodeRemediers } from '../../api/node-remedier.ts';
import { SYSTEM_NAMESPACE } from '../../api/names.ts';
import { emptyShadowSeconds, leastShadowSeconds, REHEARSAL_ANNOTATIONS, wrongTerms } from '../../api/rehearsal.ts';
import { groupOf, splitUnits, unitKey } from '../../api/unit.ts';
import type { KubeObject } from '../../api/wire.ts';
import type { Kind } from '../../api/kind.ts';
import type { ObjectFinding } from './object-rules.ts';

/** A finding and the object it is about. */
export type ClusterFinding = ObjectFinding & { about: KubeObject };

const EXISTING = new Set(['default', 'kube-system', 'kube-public', 'kube-node-lease', SYSTEM_NAMESPACE]);

/** Validation errors of repair rules, by name of the rule: the check of `src/rules`, which sync does not import. */
export type CheckRules = (rules: readonly KubeObject[]) => ReadonlyMap<string, readonly { path: string; message: string; hint: string }[]>;

/** `where` returns where an object was made, for findings about two of them. */
export function checkCluster(
  objects: readonly KubeObject[],
  where: (object: KubeObject) => string,
  checkRules: CheckRules,
): ClusterFinding[] {
  return [...namespaces(objects), ...components(objects), ...overlaps(objects, where), ...remedies(objects, checkRules)];
}

export function checkDuplicates(objects: readonly KubeObject[], where: (object: KubeObject) => string): ClusterFinding[] {
  const first = new Map<string, KubeObject>();
  const findings: ClusterFinding[] = [];
  for (const object of objects) {
    // Two versions of a kind are the same object to the server, and two groups the same unit (docs/protocols.md#e1).
    const key = unitKey(object);
    const other = first.get(key);
    if (other === undefined) first.set(key, object);
    else if (groupOf(other.apiVersion) !== groupOf(object.apiVersion))
      findings.push({
        about: object,
        code: 'Duplicate',
        path: 'apiVersion',
        message: `"${object.apiVersion}" is another group than "${other.apiVersion}" of the object at ${where(other)}, which has the same kind and name: a unit is known by these without the group`,
        next: 'give one of them another name',
      });
    else
      findings.push({
        about: object,
        code: 'Duplicate',
        message: `is made twice, here and at ${where(other)}`,
        next: 'give one of them another name',
      });
  }
  return findings;
}

function namespaces(objects: readonly KubeObject[]): ClusterFinding[] {
  const pools = new Set(objects.filter((object) => object.kind === 'Namespace').map((object) => object.metadata.name));
  const known = pools.size === 0 ? 'no pool is declared here' : `pools here: ${[...pools].join(', ')}`;
  const findings: ClusterFinding[] = [];
  for (const object of objects) {
    const { namespace } = object.metadata;
    if (object.kind === 'Namespace' && (EXISTING.has(object.metadata.name) || object.metadata.name.startsWith('kube-')))
      findings.push({
        about: object,
        code: 'NamespaceWrong',
        path: 'metadata.name',
        message: `"${object.metadata.name}" belongs to Kubernetes or KubeNode and must not be a pool`,
      });
    const exists = namespace === undefined || pools.has(namespace) || (EXISTING.has(namespace) && object.kind !== 'MachineSet');
    if (!exists)
      findings.push({
        about: object,
        code: 'PoolMissing',
        path: 'metadata.namespace',
        message: `names no pool of this cluster: "${namespace}"; ${known}`,
        next: `cluster.pool('${namespace}')`,
      });
    for (const { path, pools: named = [] } of poolsNamed(object))
      for (const pool of named.filter((each) => !pools.has(each)))
        findings.push({
          about: object,
          code: 'PoolMissing',
          path,
          message: `names no pool of this cluster: "${pool}"; ${known}`,
          next: `cluster.pool('${pool}')`,
        });
  }
  return findings;
}

/** What names a pool that is not there selects, limits and stops nothing. */
function poolsNamed(object: KubeObject): NamedPools[] {
  const { pools } = (of(MachineComponentSets, object) ?? of(NodeRemediers, object))?.spec ?? {};
  return [{ path: 'spec.pools', pools }, ...namedPools(of(DefenderPolicies, object)?.spec)];
}

function components(objects: readonly KubeObject[]): ClusterFinding[] {
  const { missing, unnamed } = splitUnits(objects);
  const findings: ClusterFinding[] = missing.map(({ about, component }) => ({
    about,
    code: 'ComponentMissing' as const,
    path: 'spec.version',
    message: `names MachineComponent "${component}", which this commit does not have`,
    next: 'new MachineComponentSet(cluster, name, { component: release(…) })',
  }));
  findings.push(
    ...unnamed.map((about) => ({
      about,
      code: 'ComponentUnused' as const,
      message: 'is named by no MachineComponentSet, so it would never be installed',
    })),
  );

  const installed = new Map<string, string[]>();
  for (const set of all(MachineComponentSets, objects))
    if (set.spec.action !== 'Remove')
      installed.set(set.spec.componentName, [...(installed.get(set.spec.componentName) ?? []), set.spec.version]);
  for (const component of all(MachineComponents, objects)) {
    for (const [index, { componentName, versionRange }] of (component.spec.requires ?? []).entries()) {
      const versions = installed.get(componentName) ?? [];
      if (
        versions.some(
          (version) =>
            versionRange === undefined || isVersion(version) === null || satisfies(version, versionRange, { includePrerelease: true }),
        )
      )
        continue;
      const wanted = `${componentName}${versionRange === undefined ? '' : ` ${versionRange}`}`;
      const has = versions.length === 0 ? 'no set installs it here' : `here there is ${versions.join(', ')}`;
      findings.push({
        about: component,
        code: 'RequirementMissing',
        path: `spec.requires[${index}]`,
        message: `requires ${wanted}; ${has}`,
      });
    }
  }
  return findings;
}

/**
 * Two sets that must select a machine in common for one component: neither would write (docs/protocols.md#a6). Only what can be known from
 * the text is refused; sets whose selectors differ may still meet on a machine, and then they have the condition Conflict.
 */
function overlaps(objects: readonly KubeObject[], where: (object: KubeObject) => string): ClusterFinding[] {
  const sets = all(MachineComponentSets, objects);
  const findings: ClusterFinding[] = sets.flatMap((set) =>
    [['spec.selector', set.spec.selector] as const, ['spec.canary.selector', set.spec.canary?.selector] as const]
      .filter(([, selector]) => selector !== undefined && Object.keys(selector).length === 0)
      .map(([path]) => ({
        about: set,
        code: 'SelectorEmpty' as const,
        path,
        message: 'must not be empty: an empty selector matches nothing',
        next: 'leave it out for every machine',
      })),
  );
  for (const [index, set] of sets.entries()) {
    for (const other of sets.slice(0, index)) {
      if (set.spec.componentName !== other.spec.componentName || set.metadata.name === other.metadata.name) continue;
      if (!poolsMeet(set, other) || !selectorsMeet(set.spec.selector ?? {}, other.spec.selector ?? {})) continue;
      findings.push({
        about: set,
        code: 'SetsConflict',
        message: `selects machines for ${set.spec.componentName} that MachineComponentSet "${other.metadata.name}" at ${where(other)} selects too: neither would do anything`,
        next: 'give them different `pools` or `selector`, or use `canary` of one set',
      });
    }
  }
  return findings;
}

function poolsMeet(a: MachineComponentSet, b: MachineComponentSet): boolean {
  return a.spec.pools === undefined || b.spec.pools === undefined || a.spec.pools.some((pool) => b.spec.pools?.includes(pool) === true);
}

/** One asks for everything that the other asks for, so what the second selects the first does too. */
function selectorsMeet(a: Record<string, string>, b: Record<string, string>): boolean {
  return within(a, b) || within(b, a);
}

function within(some: Record<string, string>, more: Record<string, string>): boolean {
  return Object.entries(some).every(([key, value]) => more[key] === value);
}

/** What rules state about each other and about the facts, and what they need of this cluster. */
function remedies(objects: readonly KubeObject[], checkRules: CheckRules): ClusterFinding[] {
  const rules = all(NodeRemediers, objects);
  const findings: ClusterFinding[] = [];
  const errors = checkRules(rules);
  const installed = new Set(
    all(MachineComponentSets, objects).flatMap(({ spec }) => (spec.action === 'Remove' ? [] : [spec.componentName])),
  );
  for (const about of rules) {
    for (const { path, message, hint } of errors.get(about.metadata.name) ?? [])
      findings.push({ about, code: 'RuleInvalid', path, message, next: hint });
    for (const [index, { action, args }] of about.spec.ladder.entries()) {
      const component = args?.['component'];
      if (action !== 'RestartComponent' || typeof component !== 'string' || installed.has(component)) continue;
      findings.push({
        about,
        code: 'RequirementMissing',
        path: `spec.ladder[${index}].args.component`,
        message: `names ${component}; no set installs it here`,
        next: installed.size === 0 ? 'install it with a MachineComponentSet' : `name one of ${[...installed].join(', ')}`,
      });
    }
    for (const name of wrongTerms(about.metadata))
      findings.push({
        about,
        code: 'FieldRefused',
        path: `metadata.annotations["${name}"]`,
        message: `must be a whole number, got "${about.metadata.annotations?.[name]}"`,
        next: 'enforceAfter: { shadowSeconds: 600, maxJobs: 3 }',
      });
    const shadowSeconds = emptyShadowSeconds(about);
    if (shadowSeconds !== undefined)
      findings.push({
        about,
        code: 'RuleInvalid',
        path: `metadata.annotations["${REHEARSAL_ANNOTATIONS.shadowSeconds}"]`,
        message: `${shadowSeconds} s of Shadow may end before a rule that must hold for ${about.spec.holdsForSeconds} s makes a job, so that they prove nothing`,
        next: `enforceAfter: { shadowSeconds: ${leastShadowSeconds(about.spec)} }, twice holdsForSeconds, or leave shadowSeconds out`,
      });
  }
  return findings;
}

function of<Spec, Status>(kind: Kind<Spec, Status>, object: KubeObject): ReturnType<Kind<Spec, Status>['parse']> | undefined {
  return object.kind === kind.kind && object.apiVersion.startsWith(`${kind.group}/`) ? kind.parse(object) : undefined;
}

function all<Spec, Status>(kind: Kind<Spec, Status>, objects: readonly KubeObject[]): ReturnType<Kind<Spec, Status>['parse']>[] {
  return objects.flatMap((object) => of(kind, object) ?? []);
}
