/* oxlint-disable no-new -- in cdk8s making something is enough */
import { ApiObject, JsonPatch } from 'cdk8s';
import { Construct } from 'constructs';
import { describe, expect, it } from 'vitest';
import { DefenderPolicies } from '../api/defender-policy.ts';
import { MachineComponents } from '../api/machine-component.ts';
import { MachineComponentSets } from '../api/machine-component-set.ts';
import { MachineSets } from '../api/machine-set.ts';
import { expand } from '../agent/generation/template.ts';
import { unitDigest } from '../api/digest.ts';
import { Fleet } from './fleet.ts';
import {
  CniPlugins,
  Cluster,
  Containerd,
  DefenderPolicy,
  Kubelet,
  KubeObject,
  locked,
  MachineComponentSet,
  MachineSet,
  NodeExporter,
  KERNEL_MONITOR,
  NodeProblemDetector,
  release,
  sha256,
  type Pool,
  type Release,
} from './index.ts';

const DIGEST = 'ab'.repeat(32);
const kubelet = (version = '1.0.0') => release('kubelet', version, { any: { url: `kubelet-${version}.tgz`, sha256: DIGEST } });

/** Objects of a fleet of one cluster. */
function made(build: (cluster: Cluster) => void): Record<string, unknown>[] {
  const fleet = new Fleet();
  fleet.cluster('prod', { labels: { stage: 'prod' } });
  fleet.clusters({ stage: 'prod' }, build);
  return objectsOf(fleet.build()[0]);
}

function objectsOf(cluster: Cluster | undefined): Record<string, unknown>[] {
  const constructs = cluster?.node.root.node.findAll() ?? [];
  return constructs.filter((each) => ApiObject.isApiObject(each)).map((each) => each.toJson() as Record<string, unknown>);
}

const later: () => unknown = async () => {};

describe('fleet', () => {
  it('builds every selected cluster, wherever it is declared', () => {
    const fleet = new Fleet();
    const seen: string[] = [];
    fleet.clusters({ tier: 'online' }, (cluster) => seen.push(cluster.name));
    fleet.allClusters((cluster) => seen.push(`all ${cluster.name}`));
    fleet.cluster('b', { labels: { tier: 'online' } });
    fleet.cluster('a', { labels: { tier: 'online', zone: 'h' } });
    fleet.cluster('c', { labels: { tier: 'batch' } });
    expect(fleet.build().map((cluster) => cluster.name)).toEqual(['a', 'b', 'c']);
    expect(seen).toEqual(['a', 'b', 'all a', 'all b', 'all c']);
  });

  it('gives the hub a Cluster object with the labels that stages select', () => {
    const cluster = new Fleet().cluster('prod', { labels: { stage: 'prod' }, kubeconfigSecret: { name: 'prod-admin' } });
    expect(cluster.toObject()).toEqual({
      apiVersion: 'kubenode.io/v1alpha1',
      kind: 'Cluster',
      metadata: { name: 'prod', labels: { stage: 'prod' } },
      spec: { kubeconfigSecret: { name: 'prod-admin' } },
    });
    expect(cluster.label('stage')).toBe('prod');
    expect(() => cluster.label('tier')).toThrow('cluster "prod" has no label "tier"');
  });

  it('refuses a selector that matches no declared cluster, and names the declared ones', () => {
    const fleet = new Fleet();
    fleet.cluster('test', { labels: { stage: 'test' } });
    fleet.clusters({ stage: 'prd' }, () => {});
    expect(() => fleet.build()).toThrow('there is no cluster with the labels stage=prd in this commit; declared: test');
    expect(() => new Fleet().clusters({}, () => {})).toThrow('an empty selector matches nothing');
    const empty = new Fleet();
    empty.allClusters(() => {});
    expect(() => empty.build()).toThrow('none is declared');
  });

  it('refuses two clusters of one name, clusters inside of clusters, and async builders', () => {
    const fleet = new Fleet();
    fleet.cluster('a');
    expect(() => fleet.cluster('a')).toThrow('cluster "a" is declared twice');
    fleet.allClusters(() => void fleet.cluster('b'));
    expect(() => fleet.build()).toThrow('cluster "b" must be declared outside of fleet.clusters');
    const waiting = new Fleet();
    waiting.cluster('a');
    waiting.allClusters(later);
    expect(() => waiting.build()).toThrow('must not be async');
  });
});

describe('objects', () => {
  it('live in their pool, and the pool is a Namespace', () => {
    const objects = made((cluster) => {
      const web = cluster.pool('web', { labels: { team: 'web' } });
      new MachineSet(web, 'web-a', { replicas: 4, provider: 'alicloud', failureDomains: ['h', 'i'] });
      new KubeObject(cluster.pool('web'), { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'motd' }, data: { text: 'hello' } });
    });
    expect(objects).toEqual([
      {
        apiVersion: 'kubenode.io/v1alpha1',
        kind: 'MachineSet',
        metadata: { name: 'web-a', namespace: 'web' },
        spec: { replicas: 4, provider: { name: 'alicloud' }, failureDomains: ['h', 'i'] },
      },
      { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'motd', namespace: 'web' }, data: { text: 'hello' } },
      { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'web', labels: { team: 'web' } } },
    ]);
  });

  it('leave out what humans own unless it is set', () => {
    const [set] = made((cluster) => new MachineSet(cluster.pool('web'), 'web', { provider: 'local' }));
    expect(set?.['spec']).toEqual({ provider: { name: 'local' } });
  });

  it('of a cluster are refused in a pool, and objects of a pool outside of one', () => {
    expect(() => made((cluster) => new DefenderPolicy(cluster.pool('web'), 'default', { limits: [] }))).toThrow(
      'DefenderPolicy "default" is for a whole cluster and must not be made in pool "web"',
    );
    expect(() => made((cluster) => new MachineComponentSet(cluster.pool('web'), 'kubelet', { component: kubelet() }))).toThrow(
      'must not be made in pool',
    );
    expect(() => made((cluster) => new MachineSet(cluster, 'web', { provider: 'local' }))).toThrow(
      'MachineSet "web" must be made in a pool',
    );
  });

  it('keep their names and digests when they are wrapped in constructs', () => {
    class Team extends Construct {
      constructor(pool: Pool, id: string) {
        super(pool, id);
        new MachineSet(this, 'web', { provider: 'local' });
        new MachineComponentSet(Cluster.of(this), 'kubelet', { component: kubelet(), pools: [pool] });
      }
    }
    const plain = made((cluster) => {
      new MachineSet(cluster.pool('web'), 'web', { provider: 'local' });
      new MachineComponentSet(cluster, 'kubelet', { component: kubelet(), pools: ['web'] });
    });
    const wrapped = made((cluster) => new Team(cluster.pool('web'), 'deep-inside'));
    expect(unitDigest(wrapped)).toBe(unitDigest(plain));
  });

  it('must be named', () => {
    expect(() => made((cluster) => new KubeObject(cluster, { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: '' } }))).toThrow(
      'ConfigMap has no name',
    );
    expect(() => made((cluster) => new ApiObject(cluster, 'x', { apiVersion: 'v1', kind: 'ConfigMap' }))).toThrow('ConfigMap has no name');
  });

  it('can be changed where no prop reaches', () => {
    const [set] = made((cluster) => {
      const machines = new MachineSet(cluster.pool('web'), 'web', { provider: 'local' });
      machines.addJsonPatch(JsonPatch.add('/spec/maxInFlight', 3));
    });
    expect(set?.['spec']).toMatchObject({ maxInFlight: 3 });
  });

  it('of one kind and name are both kept, for validation to refuse with the lines of both', () => {
    const objects = made((cluster) => {
      new DefenderPolicy(cluster, 'default', { limits: [] });
      new DefenderPolicy(cluster, 'default', { limits: [] });
      new MachineComponentSet(cluster, 'default', { component: kubelet() });
    });
    expect(objects.map((object) => object['kind'])).toEqual([
      'DefenderPolicy',
      'DefenderPolicy',
      'MachineComponent',
      'MachineComponentSet',
    ]);
  });

  it('pools get their labels once', () => {
    expect(() => made((cluster) => void [cluster.pool('a', { labels: {} }), cluster.pool('a', { labels: {} })])).toThrow(
      'pool "a" was made before',
    );
  });
});

describe('releases', () => {
  it('come with the set that names them, once for a cluster', () => {
    const shared = kubelet();
    const objects = made((cluster) => {
      new MachineComponentSet(cluster, 'web', { component: shared, pools: [cluster.pool('web')], batches: [1, '100%'], soakSeconds: 300 });
      new MachineComponentSet(cluster, 'gpu', {
        component: shared,
        pools: [cluster.pool('gpu')],
        canary: { selector: { canary: 'yes' }, component: kubelet('1.1.0') },
      });
    });
    const named = (kind: string) => objects.filter((object) => object['kind'] === kind);
    expect(named('MachineComponent').map((object) => (object['metadata'] as { name: string }).name)).toEqual([
      'kubelet-1.0.0',
      'kubelet-1.1.0',
    ]);
    expect(named('MachineComponentSet').map((object) => object['spec'])).toEqual([
      { componentName: 'kubelet', version: '1.0.0', pools: ['web'], batches: [1, '100%'], soakSeconds: 300 },
      { componentName: 'kubelet', version: '1.0.0', pools: ['gpu'], canary: { selector: { canary: 'yes' }, version: '1.1.0' } },
    ]);
    for (const object of named('MachineComponentSet')) expect(MachineComponentSets.validate(object)).toEqual([]);
  });

  it('of one version with different content are refused', () => {
    const other = release('kubelet', '1.0.0', { any: { url: 'elsewhere', sha256: DIGEST } });
    expect(() =>
      made((cluster) => {
        new MachineComponentSet(cluster, 'a', { component: kubelet(), pools: ['a'] });
        new MachineComponentSet(cluster, 'b', { component: other, pools: ['b'] });
      }),
    ).toThrow('kubelet 1.0.0 is two different releases');
  });

  it('are refused with a digest of the wrong form, a canary of another component, no artifacts', () => {
    expect(() => sha256('abc')).toThrow('must have 64 hexadecimal digits in lower case, got "abc" (3 characters)');
    expect(sha256(DIGEST)).toBe(DIGEST);
    const containerd = release('containerd', '2.0.0', { any: { url: 'x', sha256: DIGEST } });
    expect(() =>
      made(
        (cluster) =>
          new MachineComponentSet(cluster, 'a', { component: kubelet(), canary: { selector: { a: 'b' }, component: containerd } }),
      ),
    ).toThrow('the canary of "a" must be a release of kubelet');
    expect(() => release('kubelet', '1.0.0', {})).toThrow('kubelet 1.0.0 has no artifacts');
  });

  it('are found in a lock file', () => {
    const lock = { kubelet: { '1.0.0': { sha256: DIGEST, path: 'artifacts/kubelet-1.0.0.tgz' } } };
    expect(release('kubelet', '1.0.0', locked(lock, 'kubelet', '1.0.0')).spec.platforms).toEqual([
      { os: 'any', arch: 'any', artifacts: [{ name: 'kubelet', url: 'artifacts/kubelet-1.0.0.tgz', sha256: DIGEST, unpack: 'TarGz' }] },
    ]);
    expect(() => locked(lock, 'kubelet', '1.1.0')).toThrow('the lock file has no version 1.1.0 of kubelet; it has: 1.0.0');
    expect(() => locked(lock, 'toString', '1')).toThrow('the lock file has no toString; it has: kubelet');
  });
});

describe('components for real nodes', () => {
  const digests = { 'linux/amd64': DIGEST, 'linux/arm64': 'cd'.repeat(32) };
  const releases: [string, Release][] = [
    ['Kubelet', new Kubelet({ version: '1.34.2', sha256: digests, config: { maxPods: 60 }, flags: ['--v=2'] })],
    ['Containerd', new Containerd({ version: '2.2.0', sha256: digests, runc: { version: '1.3.3', sha256: digests } })],
    ['CniPlugins', new CniPlugins({ version: '1.8.0', sha256: digests })],
    ['NodeProblemDetector', new NodeProblemDetector({ version: '0.8.21', sha256: digests })],
    ['NodeExporter', new NodeExporter({ version: '1.10.2', sha256: digests, urlBase: 'mirror' })],
  ];

  it.each(releases)('%s is a valid release with artifacts for both processors and a probe', (_, { spec, objectName }) => {
    const object = {
      apiVersion: 'kubenode.io/v1alpha1',
      kind: 'MachineComponent',
      metadata: { name: objectName },
      spec: JSON.parse(JSON.stringify(spec)) as unknown,
    };
    expect(MachineComponents.validate(object)).toEqual([]);
    expect(spec.platforms.map(({ arch, artifacts }) => [arch, artifacts.every((artifact) => artifact.url.includes(arch))])).toEqual([
      ['amd64', true],
      ['arm64', true],
    ]);
    expect(spec.probes?.length).toBeGreaterThan(0);
    // A template variable must not be cut in two by JSON's braces.
    for (const file of spec.files ?? []) expect(file.content.replaceAll(/\{\{[a-zA-Z.]+\}\}/g, '')).not.toMatch(/\{\{|\}\}/);
  });

  it.each(releases)('G6b: %s renders only values that it declares, so that it runs where keys are pinned', (_, { spec }) => {
    const declared = new Map((spec.values ?? []).map(({ name, pattern }) => [name, new RegExp(`^(?:${pattern})$`, 'u')]));
    const values = Object.fromEntries([...declared.keys()].map((name) => [name, '']));
    const machine = { name: 'm', namespace: 'web', uid: 'u', nodeName: 'm', providerID: 'p', labels: {} };
    const render = (value: unknown): void => {
      if (typeof value === 'string')
        expand(value, { root: '/', dir: '/d', version: spec.version, bootstrap: '/b', values, machine }, 'the release');
      else if (value !== null && typeof value === 'object') for (const each of Object.values(value)) render(each);
    };
    render(spec);
  });

  it('node-problem-detector makes the conditions that rules of the catalogue read, of the lines that the kernel writes', () => {
    const patterns = new Map(
      KERNEL_MONITOR.rules.map(({ condition, reason, pattern }) => [condition ?? reason, [reason, new RegExp(pattern)] as const]),
    );
    for (const [condition, reason, line] of [
      ['KernelDeadlock', 'TaskHung', 'task docker:7 blocked for more than 120 seconds.'],
      ['KernelDeadlock', 'TaskHung', 'task kworker/u8:2:311 blocked for more than 122 seconds.'],
      ['ReadonlyFilesystem', 'FilesystemIsReadOnly', 'EXT4-fs (vda1): Remounting filesystem read-only'],
    ] as const) {
      const [found, pattern] = patterns.get(condition) ?? [];
      expect(found).toBe(reason);
      expect(line).toMatch(pattern ?? /never/);
      expect(KERNEL_MONITOR.conditions.map(({ type }) => type)).toContain(condition);
    }
  });

  it('a minor version of the kubelet drains, a patch does not', () => {
    expect(releases[0]?.[1].spec.disruption).toMatchObject({ patch: 'Restart', minor: 'Drain' });
  });

  it('takes the platforms that there are digests for, and refuses others', () => {
    expect(new CniPlugins({ version: '1.8.0', sha256: { 'linux/arm64': DIGEST } }).spec.platforms.map((platform) => platform.arch)).toEqual(
      ['arm64'],
    );
    expect(() => new CniPlugins({ version: '1.8.0', sha256: { 'darwin/arm64': DIGEST } as object })).toThrow('not for "darwin/arm64"');
  });
});

it('props make objects that their kinds accept', () => {
  const objects = made((cluster) => {
    new MachineSet(cluster.pool('web'), 'web', {
      provider: { name: 'local', config: { size: 's' } },
      template: { labels: { a: 'b' } },
      labels: { x: 'y' },
    });
    new DefenderPolicy(cluster, 'default', { limits: [{ name: 'pool', scope: 'Pool', maxUnavailable: 1 }] });
  });
  expect(
    objects.flatMap((object) => [
      ...(object['kind'] === 'MachineSet' ? MachineSets.validate(object) : []),
      ...(object['kind'] === 'DefenderPolicy' ? DefenderPolicies.validate(object) : []),
    ]),
  ).toEqual([]);
});
