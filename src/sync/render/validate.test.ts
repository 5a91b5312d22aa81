import { describe, expect, it } from 'vitest';
import { API_VERSION } from '../../api/kind.ts';
import type { KubeObject } from '../../api/wire.ts';
import { checkRules } from '../../rules/check.ts';
import { judgeObject } from '../../cli/object-rules.ts';
import { findingCodes } from './errors.ts';
import { findingText, positionOf, type Finding } from './finding.ts';
import { validate, validateInTurns, type Valid } from './validate.ts';

const DIGEST = 'ab'.repeat(32);
const ours = (kind: string, name: string, spec: object, namespace?: string): KubeObject & { spec: object } => ({
  apiVersion: API_VERSION,
  kind,
  metadata: { name, ...(namespace === undefined ? {} : { namespace }) },
  spec,
});
const plain = (apiVersion: string, kind: string, name: string, namespace?: string, more: object = {}): KubeObject => ({
  apiVersion,
  kind,
  metadata: { name, ...(namespace === undefined ? {} : { namespace }) },
  ...more,
});
const pool = (name = 'web') => plain('v1', 'Namespace', name);
const machineSet = (spec: object = {}, name = 'web') => ours('MachineSet', name, { provider: { name: 'local' }, ...spec }, 'web');
const component = (version = '1.0.0', spec: object = {}, name = 'kubelet') =>
  ours('MachineComponent', `${name}-${version}`, {
    componentName: name,
    version,
    platforms: [{ os: 'any', arch: 'any', artifacts: [{ name, url: 'k.tgz', sha256: DIGEST }] }],
    ...spec,
  });
const set = (spec: object = {}, name = 'kubelet') =>
  ours('MachineComponentSet', name, { componentName: 'kubelet', version: '1.0.0', ...spec });
const cluster = (name: string, spec: object = {}) => ours('Cluster', name, spec);

/** Objects of one cluster, the first one made in line 1 and so on. */
function check(objects: KubeObject[], hub: KubeObject = cluster('prod'), judge = judgeObject) {
  return validate(
    {
      clusters: [
        {
          name: 'prod',
          object: hub,
          location: 'fleet/clusters.ts:1:1',
          objects: objects.map((object, index) => ({ object, location: `fleet/nodes.ts:${index + 1}:3`, constructPath: 'x' })),
        },
      ],
    },
    { checkRules, judgeObject: judge },
  );
}

function accepted(objects: KubeObject[]): Valid {
  const result = check(objects);
  if (result.ok) return result.valid;
  throw new Error(result.findings.map(findingText).join('\n'));
}

function findings(objects: KubeObject[], hub?: KubeObject): Finding[] {
  const result = check(objects, hub);
  return result.ok ? [] : result.findings;
}

it('gives the units of each cluster and where every object was made', () => {
  const { clusters } = accepted([pool(), machineSet(), component(), set(), ours('DefenderPolicy', 'default', { limits: [] })]);
  expect(clusters.map(({ name, location, cluster }) => [name, location, cluster.kind])).toEqual([
    ['prod', 'fleet/clusters.ts:1:1', 'Cluster'],
  ]);
  expect(clusters[0]?.units.map(({ key, objects }) => [key, objects.map((object) => object.kind)])).toEqual([
    ['Namespace/web', ['Namespace']],
    ['MachineSet/web/web', ['MachineSet']],
    ['MachineComponentSet/kubelet', ['MachineComponent', 'MachineComponentSet']],
    ['DefenderPolicy/default', ['DefenderPolicy']],
  ]);
  expect(clusters[0]?.locations.get('kubenode.io/v1alpha1/MachineSet/web/web')).toBe('fleet/nodes.ts:2:3');
});

describe('what kubernetes needs besides nodes', () => {
  it('passes: namespaced and cluster-wide objects of known kinds, and kinds of other groups', () => {
    const objects = [
      pool(),
      plain('v1', 'ConfigMap', 'a', 'web', { data: { a: 'b' } }),
      plain('v1', 'ServiceAccount', 'a', 'kube-system'),
      plain('v1', 'Service', 'a', 'default'),
      plain('v1', 'Secret', 'to-be-filled', 'web'),
      plain('policy/v1', 'PodDisruptionBudget', 'a', 'web'),
      plain('apps/v1', 'DaemonSet', 'a', 'kube-system'),
      plain('apps/v1', 'Deployment', 'a', 'web'),
      plain('rbac.authorization.k8s.io/v1', 'Role', 'system:a', 'web'),
      plain('rbac.authorization.k8s.io/v1', 'ClusterRoleBinding', 'a:b'),
      plain('monitoring.coreos.com/v1', 'PodMonitor', 'a', 'web', { spec: { anything: 1 } }),
      plain('example.com/v1', 'ClusterThing', 'a'),
    ];
    expect(findings(objects)).toEqual([]);
  });

  it.each([
    ['v1', 'Pod', 'a fleet does not have objects of kind "Pod" of v1'],
    ['apps/v1', 'StatefulSet', 'a fleet does not have objects of kind "StatefulSet" of apps/v1'],
    ['apps/v1beta1', 'Deployment', '`apiVersion` of a Deployment must be "apps/v1", got "apps/v1beta1"'],
    [API_VERSION, 'Fleet', 'a Fleet is applied to the hub by hand'],
    [API_VERSION, 'Rollout', 'a Rollout is made by the hub'],
    [API_VERSION, 'Cluster', 'a Cluster is declared with fleet.cluster(…)'],
    [API_VERSION, 'Freeze', 'a Freeze is made by hand: it must work without Git'],
    [API_VERSION, 'DisruptionLedger', "a DisruptionLedger is Defender's own"],
    [API_VERSION, 'Machine', 'a Machine is made by a MachineSet'],
    [API_VERSION, 'RemedyOperationJob', 'a RemedyOperationJob is made in a cell by the rule that matched'],
    [API_VERSION, 'MachineComponets', 'kubenode.io has no kind "MachineComponets"; it has MachineSet, '],
    ['kubenode.io/v1', 'MachineSet', '`apiVersion` of a MachineSet must be "kubenode.io/v1alpha1", got "kubenode.io/v1"'],
  ])('%s %s is refused', (apiVersion, kind, message) => {
    expect(findings([pool(), plain(apiVersion, kind, 'a', 'web')])).toMatchObject([
      { code: 'KindRefused', message: expect.stringContaining(message) as unknown, line: 2 },
    ]);
  });

  it.each([
    ['cluster.x-k8s.io/v1beta1', 'MachineSet'],
    ['cluster.x-k8s.io/v1beta1', 'Machine'],
    ['example.com/v1', 'MachineComponent'],
    ['example.com/v1', 'MachineComponentSet'],
    ['remedy.example.com/v1', 'NodeRemedier'],
    ['example.com/v1', 'Freeze'],
    ['example.com/v1', 'Namespace'],
    ['example.com/v1', 'CustomResourceDefinition'],
  ])('E1: of %s a %s is refused with its line: units are known by their kind without the group', (apiVersion, kind) => {
    expect(findings([pool(), plain(apiVersion, kind, 'a', 'web')])).toMatchObject([
      {
        code: 'KindRefused',
        line: 2,
        message: expect.stringContaining(`a fleet has no ${kind} of ${apiVersion}: a unit is known by its kind`) as unknown,
        next: expect.stringContaining('deliver it by other means') as unknown,
      },
    ]);
  });

  it('E1: a kind of the hub is free in other groups, since no unit is of it', () => {
    expect(findings([pool(), plain('postgresql.cnpg.io/v1', 'Cluster', 'a', 'web')])).toEqual([]);
    expect(findings([plain('apiextensions.k8s.io/v1', 'CustomResourceDefinition', 'a.example.com')])).toEqual([]);
  });

  it('a workload is refused with where it belongs', () => {
    expect(findings([pool(), plain('v1', 'Pod', 'a', 'web')])[0]?.next).toBe(
      'workloads are delivered by other means; a fleet has nodes and what they need',
    );
  });

  it('secret data is refused', () => {
    const found = findings([pool(), plain('v1', 'Secret', 'a', 'web', { data: { token: 'czNjcjN0' }, stringData: {} })]);
    expect(found).toMatchObject([
      { code: 'SecretInGit', path: 'data', object: 'Secret/web/a', file: 'fleet/nodes.ts', line: 2, column: 3 },
      { code: 'SecretInGit', path: 'stringData' },
    ]);
    expect(found.map(findingText).join()).not.toContain('czNjcjN0');
  });
});

describe('one object', () => {
  const cases: [what: string, object: KubeObject, finding: Partial<Finding>][] = [
    ['a misspelt field', machineSet({ replicaz: 3 }), { code: 'SchemaInvalid', path: 'spec.replicaz', message: 'unknown field' }],
    ['a value out of range', machineSet({ replicas: -1 }), { code: 'SchemaInvalid', path: 'spec.replicas', message: 'must be >= 0' }],
    ['a rule between fields', set({ batches: ['50%'] }), { code: 'SchemaInvalid', path: 'spec.batches' }],
    [
      'a rule in CEL',
      component('1.0.0', { files: [{ path: '/etc/../x', content: '' }] }),
      { code: 'SchemaInvalid', path: 'spec.files[0].path', message: 'must not contain "..", got "/etc/../x"' },
    ],
    [
      'a rule in CEL about the whole',
      component('1.0.0', { probes: [{ name: 'p', unit: 'other' }] }),
      { code: 'SchemaInvalid', path: 'spec.probes', message: 'must name only units of this component' },
    ],
    ['status', { ...machineSet(), status: {} } as KubeObject, { code: 'FieldRefused', path: 'status' }],
    [
      'a digest of its own',
      machineSet({ unitDigest: 'v1:x' }),
      { code: 'FieldRefused', path: 'spec.unitDigest', message: 'must not be set: it is written by sync' },
    ],
    ['a ceiling of its own', set({ ceiling: { unitDigest: 'x', nodes: 1 } }), { code: 'FieldRefused', path: 'spec.ceiling' }],
    [
      "the server's metadata",
      { ...pool(), metadata: { name: 'web', resourceVersion: '1' } },
      { code: 'FieldRefused', path: 'metadata.resourceVersion' },
    ],
    [
      "sync's annotation",
      { ...pool(), metadata: { name: 'web', annotations: { 'kubenode.io/origin': 'x' } } },
      { code: 'FieldRefused', path: 'metadata.annotations["kubenode.io/origin"]' },
    ],
    ['a name in upper case', machineSet({}, 'Web'), { code: 'NameInvalid', path: 'metadata.name' }],
    ['a namespace that is no label', pool('a.b'), { code: 'NameInvalid', path: 'metadata.name' }],
    [
      'a label value that is too long',
      { ...pool(), metadata: { name: 'web', labels: { a: 'x'.repeat(64) } } },
      { code: 'LabelInvalid', path: 'metadata.labels["a"]' },
    ],
    [
      'a label that is no text',
      { ...pool(), metadata: { name: 'web', labels: { a: true as unknown as string } } },
      { code: 'LabelInvalid', message: 'must be text, got true' },
    ],
    ['a selector whose key is none', set({ selector: { 'a b': 'c' } }), { code: 'LabelInvalid', path: 'spec.selector["a b"]' }],
    [
      'a selector whose value is none',
      set({ canary: { selector: { stage: 'c d' }, version: '1.0.0' } }),
      { code: 'LabelInvalid', path: 'spec.canary.selector["stage"]', message: expect.stringContaining('got "c d"') as string },
    ],
    [
      'a label of a machine that is none',
      machineSet({ template: { metadata: { labels: { 'a b': 'c' } } } }),
      { code: 'LabelInvalid', path: 'spec.template.metadata.labels["a b"]' },
    ],
    [
      'a label of a node that is none',
      machineSet({ template: { labels: { a: '-' } } }),
      { code: 'LabelInvalid', path: 'spec.template.labels["a"]' },
    ],
    [
      "a taint that is Kubernetes' own",
      machineSet({ template: { taints: [{ key: 'node.kubernetes.io/out-of-service', value: 'nodeshutdown', effect: 'NoExecute' }] } }),
      { path: 'spec.template.taints[0].key', message: expect.stringContaining('must not be under node.kubernetes.io/') as string },
    ],
    [
      'a label key that a Node refuses for ever',
      machineSet({ template: { labels: { 'NODE-ROLE.kubernetes.io/x': '' } } }),
      { code: 'LabelInvalid', path: 'spec.template.labels["NODE-ROLE.kubernetes.io/x"]' },
    ],
    ['a label key that is none', { ...pool(), metadata: { name: 'web', labels: { 'a b': 'c' } } }, { code: 'LabelInvalid' }],
    [
      'no namespace',
      plain('v1', 'ConfigMap', 'a'),
      { code: 'NamespaceWrong', path: 'metadata.namespace', message: 'must be set: a ConfigMap lives in a namespace' },
    ],
    [
      'a namespace too many',
      plain('rbac.authorization.k8s.io/v1', 'ClusterRole', 'a', 'web'),
      { code: 'NamespaceWrong', message: 'must not be set: a ClusterRole lives in no namespace' },
    ],
  ];

  it.each(cases)('with %s is refused', (_, object, finding) => {
    expect(findings([object])).toMatchObject([finding]);
  });

  it('is judged by rules only where its shape is right: they rely on it', () => {
    const judged: string[] = [];
    const judge: typeof judgeObject = ({ metadata }) => {
      judged.push(metadata.name);
      return [];
    };
    const misshapen = [machineSet({ replicas: 'x' }, 'one'), machineSet({ replicas: 'x', paused: 'x' }, 'two')];
    check([pool(), machineSet({}, 'right'), ...misshapen], cluster('prod'), judge);
    expect(judged).toContain('right');
    expect(judged.filter((name) => name === 'one' || name === 'two')).toEqual([]);
  });

  it('may have what humans own, when Git reports it', () => {
    expect(findings([pool(), machineSet({ replicas: 3, paused: true }), component(), set({ rolloutID: 'again', paused: true })])).toEqual(
      [],
    );
  });
});

describe('objects together', () => {
  it('of one name are refused with both lines, whatever their version', () => {
    expect(
      findings([pool(), plain('example.com/v1', 'A', 'a'), plain('example.com/v2', 'A', 'a'), plain('example.org/v1', 'A', 'b')]),
    ).toMatchObject([{ code: 'Duplicate', line: 3, message: 'is made twice, here and at fleet/nodes.ts:2:3' }]);
  });

  it('E1: of one kind and name in two groups are refused with both lines: they would be one unit', () => {
    const widget = (group: string, namespace = 'web') => plain(`${group}/v1`, 'Widget', 'w', namespace);
    expect(findings([pool(), widget('a.example.com'), widget('b.example.com')])).toMatchObject([
      {
        code: 'Duplicate',
        object: 'Widget/web/w',
        path: 'apiVersion',
        line: 3,
        message: expect.stringContaining('another group than "a.example.com/v1" of the object at fleet/nodes.ts:2:3') as unknown,
        next: 'give one of them another name',
      },
    ]);
    expect(findings([pool(), pool('db'), widget('a.example.com'), widget('b.example.com', 'db')])).toEqual([]);
    // As Knative has them beside each other.
    expect(findings([pool(), plain('v1', 'Service', 'a', 'web'), plain('serving.knative.dev/v1', 'Service', 'a', 'web')])).toMatchObject([
      { code: 'Duplicate', line: 3 },
    ]);
  });

  it('must be in pools that are declared', () => {
    expect(findings([machineSet()])).toMatchObject([
      { code: 'PoolMissing', message: 'names no pool of this cluster: "web"; no pool is declared here', next: "cluster.pool('web')" },
    ]);
    expect(findings([pool('wbe'), component(), set({ pools: ['web'] })])).toMatchObject([
      { code: 'PoolMissing', message: 'names no pool of this cluster: "web"; pools here: wbe', line: 3 },
    ]);
    expect(
      findings([pool(), ours('DefenderPolicy', 'a', { limits: [{ name: 'a', scope: 'Pool', pools: ['gpu'], maxUnavailable: 1 }] })]),
    ).toMatchObject([{ code: 'PoolMissing', path: 'spec.limits[0].pools' }]);
    const nights = { timeZone: 'UTC', schedule: '0 1 * * *', durationMinutes: 60, pools: ['gpu'] };
    expect(
      findings([
        pool(),
        ours('DefenderPolicy', 'a', {
          limits: [],
          windows: [{ name: 'nights', ...nights }],
          freezes: [{ name: 'no-noons', reason: 'r', ...nights, schedule: '0 12 * * *' }],
        }),
      ]),
    ).toMatchObject([
      { code: 'PoolMissing', path: 'spec.windows[0].pools' },
      { code: 'PoolMissing', path: 'spec.freezes[0].pools' },
    ]);
    expect(findings([ours('MachineSet', 'a', { provider: { name: 'local' } }, 'kube-system')])).toMatchObject([{ code: 'PoolMissing' }]);
    expect(findings([pool('kube-system')])).toMatchObject([
      { code: 'NamespaceWrong', message: '"kube-system" belongs to Kubernetes or KubeNode and must not be a pool' },
    ]);
  });

  it('B6: calls no machine offline before its agent had the time to renew its Lease twice', () => {
    expect(findings([component(), set({ offlinePolicy: { afterSeconds: 179 } })])).toMatchObject([
      {
        code: 'SchemaInvalid',
        object: 'MachineComponentSet/kubelet',
        path: 'spec.offlinePolicy.afterSeconds',
        message: 'must be at least 180: up to 72 seconds pass between two renewals of the Lease of an agent that is well',
      },
    ]);
    expect(findings([component(), set({ offlinePolicy: { afterSeconds: 180 } })])).toEqual([]);
  });

  it('must have the versions that sets name, and no others', () => {
    expect(findings([set()])).toMatchObject([
      {
        code: 'ComponentMissing',
        object: 'MachineComponentSet/kubelet',
        message: 'names MachineComponent "kubelet-1.0.0", which this commit does not have',
      },
    ]);
    expect(findings([component(), set({ canary: { selector: { a: 'b' }, version: '1.1.0' } })])).toMatchObject([
      { code: 'ComponentMissing' },
    ]);
    expect(findings([component(), component('1.1.0'), set()])).toMatchObject([
      { code: 'ComponentUnused', object: 'MachineComponent/kubelet-1.1.0', line: 2 },
    ]);
  });

  it('must install what components require', () => {
    const kubelet = component('1.0.0', { requires: [{ componentName: 'containerd', versionRange: '>=2.0.0' }] });
    const containerd = (version: string) => [
      component(version, {}, 'containerd'),
      ours('MachineComponentSet', 'containerd', { componentName: 'containerd', version }),
    ];
    expect(findings([kubelet, set(), ...containerd('2.1.0')])).toEqual([]);
    expect(findings([kubelet, set()])).toMatchObject([
      { code: 'RequirementMissing', path: 'spec.requires[0]', message: 'requires containerd >=2.0.0; no set installs it here' },
    ]);
    expect(findings([kubelet, set(), ...containerd('1.7.0')])).toMatchObject([
      { message: 'requires containerd >=2.0.0; here there is 1.7.0' },
    ]);
  });

  it.each([
    [{}, {}, true],
    [{ pools: ['web'] }, {}, true],
    [{ pools: ['web'] }, { pools: ['gpu'] }, false],
    [{ pools: ['web', 'gpu'] }, { pools: ['gpu'] }, true],
    [{ pools: ['gpu'] }, { pools: ['web', 'gpu'] }, true],
    [{}, { selector: { a: '1' } }, true],
    [{ selector: { a: '1' } }, { selector: { a: '2' } }, false],
    [{ selector: { a: '1' } }, { selector: { a: '1', b: '2' } }, true],
    [{ selector: { a: '1' } }, {}, true],
    // These may meet on a machine that has both labels: only the cluster knows.
    [{ selector: { a: '1' } }, { selector: { b: '1' } }, false],
  ])('two sets of one component with %j and %j conflict: %s', (a, b, conflict) => {
    const found = findings([pool(), pool('gpu'), component(), set(a, 'a'), set(b, 'b')]);
    expect(found.map(({ code, line }) => [code, line])).toEqual(conflict ? [['SetsConflict', 5]] : []);
  });

  it('with a selector that matches nothing are refused', () => {
    expect(findings([component(), set({ selector: {} })])).toMatchObject([{ code: 'SelectorEmpty', path: 'spec.selector' }]);
  });
});

describe('repair rules', () => {
  const rule = (spec: object = {}, name = 'hung', annotations?: Record<string, string>): KubeObject => ({
    ...ours('NodeRemedier', name, {
      when: { all: [{ fact: 'condition.KernelDeadlock.status', operator: 'equal', value: 'True' }] },
      holdsForSeconds: 30,
      ladder: [{ action: 'Reboot' }, { action: 'Human' }],
      healedWhen: { condition: 'KernelDeadlock', is: 'False', forSeconds: 300 },
      ...spec,
    }),
    metadata: { name, ...(annotations === undefined ? {} : { annotations }) },
  });

  it('pass when they may run', () => {
    expect(findings([rule()])).toEqual([]);
  });

  it('are refused for a fact that there is not, with the line, the field and the hint', () => {
    const when = { all: [{ fact: 'condition.KernelDeadlock.state', operator: 'equal', value: 'True' }] };
    expect(findings([pool(), rule({ when })])).toMatchObject([
      {
        code: 'RuleInvalid',
        file: 'fleet/nodes.ts',
        line: 2,
        object: 'NodeRemedier/hung',
        path: 'spec.when.all[0].fact',
        message: expect.stringContaining('there is no fact "condition.KernelDeadlock.state"') as unknown,
        next: expect.stringContaining('use one of condition.<Type>.status') as unknown,
      },
    ]);
  });

  it('are refused when two of them would undo each other, both with their own line', () => {
    const back = rule(
      {
        when: { all: [{ fact: 'condition.KernelDeadlock.status', operator: 'equal', value: 'False' }] },
        healedWhen: { condition: 'KernelDeadlock', is: 'True', forSeconds: 1 },
      },
      'back',
    );
    expect(findings([rule({}, 'a'), back]).map(({ line }) => line)).toContain(2);
  });

  it('must be for pools that there are', () => {
    expect(findings([pool(), rule({ pools: ['wbe'] })])).toMatchObject([{ code: 'PoolMissing', object: 'NodeRemedier/hung' }]);
  });

  it('must restart what some set installs', () => {
    const ladder = [{ action: 'RestartComponent', args: { component: 'kubelet' } }, { action: 'Human' }];
    const healedWhen = { condition: 'Ready', is: 'True', forSeconds: 60 };
    expect(findings([component(), set(), rule({ ladder, healedWhen })])).toEqual([]);
    expect(findings([rule({ ladder, healedWhen })])).toMatchObject([
      { code: 'RequirementMissing', path: 'spec.ladder[0].args.component', message: 'names kubelet; no set installs it here' },
    ]);
  });

  it('must report in whole numbers when they may be enforced', () => {
    expect(findings([rule({}, 'a', { 'kubenode.io/enforce-after-shadow-seconds': '60' })])).toEqual([]);
    expect(findings([rule({}, 'a', { 'kubenode.io/enforce-after-shadow-seconds': '1h' })])).toMatchObject([
      { code: 'FieldRefused', message: 'must be a whole number, got "1h"' },
    ]);
  });

  it('E2: must not ask for a rehearsal in which they cannot make a job', () => {
    const shadow = (seconds: number) => ({ 'kubenode.io/enforce-after-shadow-seconds': String(seconds) });
    expect(findings([rule({ holdsForSeconds: 600 }, 'a', shadow(1200))])).toEqual([]);
    expect(findings([rule({ holdsForSeconds: 600 }, 'a', shadow(1199))])).toMatchObject([
      { code: 'RuleInvalid', next: expect.stringContaining('shadowSeconds: 1200') },
    ]);
  });
});

describe('the cluster itself', () => {
  it.each([
    [cluster('prod', { kubeconfigSecret: { nam: 'x' } }), 'SchemaInvalid', 'spec.kubeconfigSecret.name'],
    [cluster('prod', { unitDigest: 'x' }), 'FieldRefused', 'spec.unitDigest'],
    [cluster('other'), 'NameInvalid', 'metadata.name'],
    [{ ...cluster('prod'), metadata: { name: 'prod', labels: { stage: 'a b' } } }, 'LabelInvalid', 'metadata.labels["stage"]'],
    [{ ...cluster('prod'), kind: 'Fleet' }, 'SchemaInvalid', 'kind'],
  ])('is checked (%#)', (hub, code, path) => {
    expect(findings([pool()], hub)).toContainEqual(
      expect.objectContaining({ code, path, object: 'Cluster/prod', file: 'fleet/clusters.ts' }),
    );
  });
});

it('one finding refuses everything, and all of them are reported', () => {
  const found = findings([machineSet({ replicas: -1 }), machineSet({ replicas: -1 }), plain('v1', 'Pod', 'a', 'web')]);
  expect(found.map(({ code }) => code)).toEqual(['SchemaInvalid', 'SchemaInvalid', 'KindRefused', 'Duplicate']);
  expect(findingText(found[0] ?? { code: '', message: '' })).toBe(
    'fleet/nodes.ts:1:3: MachineSet/web/web in prod: `spec.replicas`: must be >= 0',
  );
  for (const { code } of found) expect(Object.keys(findingCodes)).toContain(code);
});

describe('the words of one object', () => {
  const messages = (object: KubeObject) => findings([pool(), object]).map(({ code, path, message }) => [code, path, message].join(' '));
  const named = (name: string, apiVersion = 'v1', kind = 'ConfigMap') =>
    messages(plain(apiVersion, kind, name, 'web')).map((each) => each.split(' ').slice(0, 2).join(' '));
  const labelled = (labels: unknown, annotations?: unknown) =>
    messages({
      ...pool('gpu'),
      metadata: {
        name: 'gpu',
        labels: labels as Record<string, string>,
        ...(annotations === undefined ? {} : { annotations: annotations as Record<string, string> }),
      },
    });
  const wrong = ['NameInvalid metadata.name'];

  it('are names as long and in the letters that Kubernetes allows', () => {
    const long = `${'a'.repeat(63)}.${'b'.repeat(63)}.${'c'.repeat(63)}.${'d'.repeat(61)}`;
    expect([long.length, named(long), named(`${long}d`)]).toEqual([253, [], wrong]);
    for (const name of ['', '-a', 'a-', 'a..b', 'a_b', 'A']) expect(named(name)).toEqual(wrong);
    const role = (name: string) => named(name, 'rbac.authorization.k8s.io/v1', 'Role');
    for (const name of ['system:A_b', '...']) expect(role(name)).toEqual([]);
    for (const name of ['.', '..', 'a/b', 'a%b']) expect(role(name)).toEqual(wrong);
    expect([findings([pool('a'.repeat(63))]), findings([pool('a'.repeat(64))]).map(({ code }) => code)]).toEqual([[], ['NameInvalid']]);
  });

  it('are namespaces that could be pools', () => {
    const found = findings([plain('v1', 'ConfigMap', 'a', 'a.b')]);
    expect(found).toMatchObject([
      { code: 'NameInvalid', path: 'metadata.namespace', message: expect.stringContaining('got "a.b"') as string },
    ]);
  });

  it('are labels and annotations by Kubernetes and not by sync', () => {
    expect(labelled({ a: '', 'example.com/b': 'x', ['c'.repeat(63)]: 'x'.repeat(63) }, { 'example.com/a': 'any text: ☃' })).toEqual([]);
    for (const labels of ['x', null]) expect(labelled(labels)).toEqual(['LabelInvalid metadata.labels must be keys and texts']);
    for (const key of ['', '/a', 'a/', '-a/b', 'A.b/c', 'a/b/c', 'c'.repeat(64)]) {
      expect(labelled({ [key]: 'x' })).toEqual([expect.stringContaining(`LabelInvalid metadata.labels["${key}"] is no key`)]);
      expect(labelled({}, { [key]: 'x' })).toEqual([expect.stringContaining(`LabelInvalid metadata.annotations["${key}"] is no key`)]);
    }
    expect(labelled({ a: 3 })).toEqual(['LabelInvalid metadata.labels["a"] must be text, got 3']);
    expect(labelled({}, { a: 3 })).toEqual(['LabelInvalid metadata.annotations["a"] must be text, got 3']);
    expect(labelled({ 'kubenode.io/fleet': 'x' })).toEqual([
      'FieldRefused metadata.labels["kubenode.io/fleet"] must not be set: it is written by sync',
    ]);
    expect(findings([pool(), { ...pool('gpu'), metadata: { name: 'gpu', labels: { a: true as unknown as string } } }])[0]?.next).toBe(
      `'true'`,
    );
  });

  it('are no metadata of the server, whichever', () => {
    for (const field of [
      'uid',
      'generation',
      'creationTimestamp',
      'deletionTimestamp',
      'managedFields',
      'generateName',
      'ownerReferences',
      'selfLink',
    ])
      expect(messages({ ...pool('gpu'), metadata: { name: 'gpu', [field]: 'x' } })).toEqual([
        `FieldRefused metadata.${field} must not be set: the server writes it`,
      ]);
  });

  it('are read for labels wherever a spec of ours holds them, and not where it only hands something on', () => {
    const bad = { 'a b': 'c' };
    expect(messages(machineSet({ provider: { name: 'local', config: { labels: bad } } }))).toEqual([]);
    const both = {
      ...ours('MachineSet', 'm', { provider: { name: 'local' }, template: { labels: bad, metadata: { labels: bad } } }, 'web'),
    };
    expect(messages(both).map((each) => each.split(' ')[1])).toEqual(['spec.template.labels["a', 'spec.template.metadata.labels["a']);
    expect(findings([plain('example.com/v1', 'A', 'a', undefined, { spec: { labels: bad, unitDigest: 'x' } })])).toEqual([]);
  });

  it('may be a Secret of another group, and must not be a lane or a ceiling of ours', () => {
    expect(findings([pool(), plain('example.com/v1', 'Secret', 'a', 'web', { data: { a: 'b' } })])).toEqual([]);
    expect(findings([pool(), component(), set({ lane: 'Forward' })])).toMatchObject([
      { code: 'FieldRefused', path: 'spec.lane', message: 'must not be set: it is written by rollouts' },
    ]);
    expect(findings([pool(), { ...machineSet(), spec: null } as unknown as KubeObject])).toMatchObject([{ code: 'SchemaInvalid' }]);
  });
});

describe('the words of objects together', () => {
  it('are pools that do not belong to Kubernetes', () => {
    for (const name of ['default', 'kube-anything', 'kubenode-system'])
      expect(findings([pool(name)])).toMatchObject([{ code: 'NamespaceWrong', path: 'metadata.name' }]);
    expect(findings([pool('cubes')])).toEqual([]);
    expect(findings([plain('v1', 'ConfigMap', 'a', 'kube-system'), plain('v1', 'ConfigMap', 'a', 'default')])).toEqual([]);
    expect(findings([plain('v1', 'ConfigMap', 'a', 'kube-other')])).toMatchObject([{ code: 'PoolMissing' }]);
  });

  it('are requirements that any version meets, or one that is no version, or one of several', () => {
    const requires = (versionRange?: string) =>
      component('1.0.0', { requires: [{ componentName: 'containerd', ...(versionRange === undefined ? {} : { versionRange }) }] });
    const installs = (version: string, name = 'containerd', more: object = {}) => [
      component(version, {}, 'containerd'),
      ours('MachineComponentSet', name, { componentName: 'containerd', version, ...more }),
    ];
    expect(findings([pool(), requires(), set(), ...installs('1.0.0')])).toEqual([]);
    expect(findings([requires('>=2.0.0'), set(), ...installs('nightly')])).toEqual([]);
    expect(findings([requires('>=2.0.0'), set(), ...installs('2.0.0-rc.1')])).toMatchObject([{ code: 'RequirementMissing' }]);
    expect(findings([requires('>=2.0.0'), set(), ...installs('2.1.0-rc.1')])).toEqual([]);
    expect(findings([requires(), set()])).toMatchObject([{ message: 'requires containerd; no set installs it here' }]);
    const two = [...installs('1.0.0', 'old', { pools: ['web'] }), ...installs('2.0.0', 'new', { pools: ['gpu'] })];
    expect(findings([pool(), pool('gpu'), requires('>=2.0.0'), set(), ...two])).toEqual([]);
    expect(findings([pool(), pool('gpu'), requires('>=3.0.0'), set(), ...two])).toMatchObject([
      { message: 'requires containerd >=3.0.0; here there is 1.0.0, 2.0.0' },
    ]);
  });

  it('are sets of different components, or of which a canary is reported apart', () => {
    const other = [
      component('1.0.0', {}, 'containerd'),
      ours('MachineComponentSet', 'containerd', { componentName: 'containerd', version: '1.0.0' }),
    ];
    expect(findings([component(), set(), ...other])).toEqual([]);
    expect(findings([component(), component('1.1.0'), set({ canary: { selector: {}, version: '1.1.0' } })])).toMatchObject([
      { code: 'SelectorEmpty', path: 'spec.canary.selector' },
    ]);
    expect(findings([component(), set({}, 'a'), set({}, 'b'), set({}, 'c')]).map(({ object }) => object)).toEqual([
      'MachineComponentSet/b',
      'MachineComponentSet/c',
      'MachineComponentSet/c',
    ]);
  });
});

describe('what a rule may restart', () => {
  const rule = (component: string): KubeObject =>
    ours('NodeRemedier', 'hung', {
      when: { all: [{ fact: 'condition.Ready.status', operator: 'equal', value: 'False' }] },
      holdsForSeconds: 30,
      ladder: [{ action: 'Reboot' }, { action: 'RestartComponent', args: { component } }, { action: 'Human' }],
      healedWhen: { condition: 'Ready', is: 'True', forSeconds: 60 },
    });

  it('is not what a set removes', () => {
    const removed = ours('MachineComponentSet', 'kubelet', { componentName: 'kubelet', version: '1.0.0', action: 'Remove' });
    const requires = component('1.0.0', { requires: [{ componentName: 'kubelet' }] }, 'containerd');
    const containerd = ours('MachineComponentSet', 'containerd', { componentName: 'containerd', version: '1.0.0' });
    const missing = findings([component(), removed, requires, containerd, rule('kubelet')]).filter(
      ({ code }) => code === 'RequirementMissing',
    );
    expect(missing.map(({ object, message }) => [object, message])).toEqual([
      ['MachineComponent/containerd-1.0.0', 'requires kubelet; no set installs it here'],
      ['NodeRemedier/hung', 'names kubelet; no set installs it here'],
    ]);
  });

  it('is what a set installs, and the finding names what there is', () => {
    expect(findings([component(), set(), rule('containerd')])).toMatchObject([
      { path: 'spec.ladder[1].args.component', message: 'names containerd; no set installs it here', next: 'name one of kubelet' },
    ]);
    expect(findings([rule('kubelet')])).toMatchObject([{ next: 'install it with a MachineComponentSet' }]);
  });
});

it('the cluster itself is named as its name reports, in letters that a name may have', () => {
  const hub = (name: string) =>
    validate({ clusters: [{ name, object: cluster(name), location: 'fleet/clusters.ts:1:1', objects: [] }] }, { checkRules, judgeObject });
  expect(hub('prod')).toMatchObject({ ok: true, valid: { clusters: [{ name: 'prod' }] } });
  const refused = hub('Prod');
  expect(refused.ok ? [] : refused.findings.map(({ code, path }) => [code, path])).toContainEqual(['NameInvalid', 'metadata.name']);
});

it('one cluster that is refused refuses all of them', () => {
  const each = (name: string, object: KubeObject) => ({
    name,
    object: cluster(name),
    location: '',
    objects: [{ object, location: '', constructPath: '' }],
  });
  const result = validate({ clusters: [each('a', pool()), each('b', plain('v1', 'Pod', 'x'))] }, { checkRules, judgeObject });
  expect(result.ok ? [] : result.findings).toMatchObject([{ cluster: 'b', code: 'KindRefused' }]);
});

it.each([
  ['fleet/a.ts:12', { file: 'fleet/a.ts', line: 12, column: undefined }],
  ['fleet/a.ts:12:3', { file: 'fleet/a.ts', line: 12, column: 3 }],
  ['fleet/a.ts', { file: 'fleet/a.ts', line: undefined, column: undefined }],
  ['odd:name.ts:1:2', { file: 'odd:name.ts', line: 1, column: 2 }],
  ['', {}],
])('%s is a location', (location, position) => {
  expect(positionOf(location)).toEqual(position);
});

describe('E19: judging a commit', () => {
  const taints = Array.from({ length: 64 }, (_, index) => ({ key: `t${index}`, value: 'b', effect: 'NoSchedule' }));
  const many = (count: number, spec: object) => {
    const objects = [pool(), ...Array.from({ length: count }, (_, index) => machineSet(spec, `s${index}`))];
    const placed = objects.map((object, index) => ({ object, location: `fleet/nodes.ts:${index + 1}:3`, constructPath: 'x' }));
    return { clusters: [{ name: 'prod', object: cluster('prod'), location: 'fleet/clusters.ts:1:1', objects: placed }] };
  };
  const checks = { checkRules, judgeObject };
  const never = new AbortController().signal;

  it('lets all else have its turn after each object, and ends when it is asked to', async () => {
    const stop = new AbortController();
    let turns = 0;
    const other = (async () => {
      for (; turns < 20; turns++) await new Promise((resolve) => setImmediate(resolve));
      stop.abort(new Error('the hub ends'));
    })();
    await expect(validateInTurns(many(40, {}), checks, stop.signal)).rejects.toThrow('the hub ends');
    await other;
    expect(await validateInTurns(many(3, {}), checks, never)).toEqual(validate(many(3, {}), checks));
  });

  it('ends with a verdict where its objects cost more than so many may, and not where they are usual', () => {
    const found = validate(many(300, { template: { taints } }), checks);
    expect(found).toMatchObject({
      ok: false,
      findings: [{ code: 'TooCostly', file: 'fleet/nodes.ts', cluster: 'prod', next: expect.stringContaining('taints') as unknown }],
    });
    expect(findingCodes.TooCostly.verdict).toBe(true);
    const [finding] = found.ok ? [] : found.findings;
    // It is not judged to its end.
    expect(finding?.line).toBeLessThan(200);
    expect(validate(many(100, { template: { taints } }), checks).ok).toBe(true);
    expect(validate(many(1000, { template: { taints: taints.slice(0, 2) } }), checks).ok).toBe(true);
  });
});
