import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { manifests } from '../../../deploy/main.ts';
import { CELL_OWNERS, HUB_OWNERS } from '../../../deploy/owners.ts';
import { ALL_KINDS, CELL_KINDS, HUB_KINDS } from '../../api/kinds.ts';
import { Machines } from '../../api/machine.ts';
import type { KubeObject } from '../../api/wire.ts';

const ENTRY = fileURLToPath(new URL('../../../bin/kubenode.js', import.meta.url));
const run = (...args: string[]) => spawnSync(process.execPath, [...process.execArgv, ENTRY, 'install', ...args], { encoding: 'utf8' });

const OPTIONS = { namespace: 'kubenode-system', image: 'kubenode:1', replicas: 2 };
const cell = (more: object = {}): KubeObject[] => manifests({ ...OPTIONS, role: 'cell', ...more });
const hub = (more: object = {}): KubeObject[] => manifests({ ...OPTIONS, role: 'hub', ...more });

const names = (objects: KubeObject[]): Record<string, string[]> =>
  Object.fromEntries(
    [...Map.groupBy(objects, ({ kind }) => kind)].map(([kind, all]) => [
      kind,
      all.map(({ metadata }) => (metadata.namespace === undefined ? metadata.name : `${metadata.namespace}/${metadata.name}`)),
    ]),
  );

describe('what is installed', () => {
  test('in a cell', () => {
    expect(names(cell())).toMatchInlineSnapshot(`
      {
        "ClusterRole": [
          "kubenode-sync",
          "kubenode-view",
          "kubenode-operator",
          "kubenode-admin",
          "kubenode-cell",
          "kubenode-machine",
          "kubenode-identity",
          "kubenode-machineset",
          "kubenode-machinecomponentset",
          "kubenode-defender",
          "kubenode-remedy",
          "kubenode-remedyjob",
          "kubenode-sync-own",
          "kubenode-agent",
          "kubenode-bootstrap",
          "kubenode-cell-view",
          "kubenode-cell-operator",
          "kubenode-importer",
          "kubenode-metrics-reader",
        ],
        "ClusterRoleBinding": [
          "kubenode-cell",
          "kubenode-machine",
          "kubenode-identity",
          "kubenode-machineset",
          "kubenode-machinecomponentset",
          "kubenode-defender",
          "kubenode-remedy",
          "kubenode-remedyjob",
          "kubenode-sync",
          "kubenode-agent",
        ],
        "CustomResourceDefinition": [
          "machines.kubenode.io",
          "machinesets.kubenode.io",
          "machinecomponents.kubenode.io",
          "machinecomponentsets.kubenode.io",
          "defenderpolicies.kubenode.io",
          "disruptionledgers.kubenode.io",
          "freezes.kubenode.io",
          "noderemediers.kubenode.io",
          "remedyoperationjobs.kubenode.io",
        ],
        "Deployment": [
          "kubenode-system/kubenode-cell",
        ],
        "FlowSchema": [
          "kubenode-agents",
        ],
        "Namespace": [
          "kubenode-system",
        ],
        "NetworkPolicy": [
          "kubenode-system/kubenode-cell",
        ],
        "PodDisruptionBudget": [
          "kubenode-system/kubenode-cell",
        ],
        "PriorityLevelConfiguration": [
          "kubenode-agents",
        ],
        "Role": [
          "kubenode-system/kubenode-cell",
        ],
        "RoleBinding": [
          "kubenode-system/kubenode-cell",
        ],
        "Service": [
          "kubenode-system/kubenode-cell-metrics",
        ],
        "ServiceAccount": [
          "kubenode-system/kubenode-cell",
          "kubenode-system/kubenode-machine",
          "kubenode-system/kubenode-identity",
          "kubenode-system/kubenode-machineset",
          "kubenode-system/kubenode-machinecomponentset",
          "kubenode-system/kubenode-defender",
          "kubenode-system/kubenode-remedy",
          "kubenode-system/kubenode-remedyjob",
          "kubenode-system/kubenode-sync",
        ],
        "ValidatingAdmissionPolicy": [
          "kubenode-cell-writers",
          "kubenode-machine-status",
          "kubenode-agents",
          "kubenode-agent-creates",
          "kubenode-kubelets",
          "kubenode-agent-grants",
          "kubenode-nodes",
        ],
        "ValidatingAdmissionPolicyBinding": [
          "kubenode-cell-writers",
          "kubenode-machine-status",
          "kubenode-agents",
          "kubenode-agent-creates",
          "kubenode-kubelets",
          "kubenode-agent-grants",
          "kubenode-nodes",
        ],
      }
    `);
  });

  test('in a hub', () => {
    expect(names(hub())).toMatchInlineSnapshot(`
      {
        "ClusterRole": [
          "kubenode-view",
          "kubenode-operator",
          "kubenode-admin",
          "kubenode-hub",
          "kubenode-hub-view",
          "kubenode-hub-operator",
          "kubenode-hub-admin",
          "kubenode-metrics-reader",
        ],
        "ClusterRoleBinding": [
          "kubenode-hub",
        ],
        "CustomResourceDefinition": [
          "fleets.kubenode.io",
          "clusters.kubenode.io",
          "rollouts.kubenode.io",
        ],
        "Deployment": [
          "kubenode-system/kubenode-hub",
        ],
        "Namespace": [
          "kubenode-system",
        ],
        "NetworkPolicy": [
          "kubenode-system/kubenode-hub",
        ],
        "PodDisruptionBudget": [
          "kubenode-system/kubenode-hub",
        ],
        "Role": [
          "kubenode-system/kubenode-hub",
          "kubenode-system/kubenode-hub-secrets",
          "kubenode-system/kubenode-cluster-secrets",
        ],
        "RoleBinding": [
          "kubenode-system/kubenode-hub",
          "kubenode-system/kubenode-hub-secrets",
        ],
        "Service": [
          "kubenode-system/kubenode-hub-metrics",
        ],
        "ServiceAccount": [
          "kubenode-system/kubenode-hub",
        ],
        "ValidatingAdmissionPolicy": [
          "kubenode-hub-writers",
        ],
        "ValidatingAdmissionPolicyBinding": [
          "kubenode-hub-writers",
        ],
      }
    `);
  });

  test('hub and cell in one cluster declare the same for what both have', () => {
    const id = ({ kind, metadata }: KubeObject): string => `${kind} ${metadata.namespace ?? ''} ${metadata.name}`;
    const ofCell = new Map(cell().map((object) => [id(object), object]));
    const shared = hub().filter((object) => ofCell.has(id(object)));
    expect(shared.map(id)).toEqual([
      'Namespace  kubenode-system',
      'ClusterRole  kubenode-view',
      'ClusterRole  kubenode-operator',
      'ClusterRole  kubenode-admin',
      'ClusterRole  kubenode-metrics-reader',
    ]);
    for (const object of shared) expect(object).toEqual(ofCell.get(id(object)));
  });

  test('definitions contain nothing that a server drops', () => {
    for (const definition of [...cell(), ...hub()].filter(({ kind }) => kind === 'CustomResourceDefinition'))
      expect([definition.metadata.name, JSON.stringify(definition).match(/"(shortNames|properties)":(\[\]|\{\})/g)]).toEqual([
        definition.metadata.name,
        null,
      ]);
  });

  test('its processes meet the strictest standard of pods, and their arguments are what the command takes', () => {
    for (const [objects, args] of [
      [
        cell({
          server: 'https://api:6443',
          mirror: 'https://mirror/',
          reservedNodeNames: ['cp-*'],
          nodeDomains: ['nodes.example'],
          componentKeys: ['KEY'],
        }),
        '--cell --namespace kubenode-system --health :8080 --metrics :8443 --separate-identities --server https://api:6443 --mirror https://mirror/ --component-key KEY --reserved-node-names cp-* --node-domains nodes.example',
      ],
      [hub(), '--hub --namespace kubenode-system --health :8080 --metrics :8443 --cache /cache --isolation namespaces'],
    ] as const) {
      const deployment = objects.find(({ kind }) => kind === 'Deployment');
      expect(deployment).toMatchObject({
        spec: {
          replicas: 2,
          template: {
            spec: {
              securityContext: { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } },
              containers: [
                {
                  image: 'kubenode:1',
                  args: ['controller', ...args.split(' ')],
                  securityContext: { allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: { drop: ['ALL'] } },
                  livenessProbe: { httpGet: { path: '/healthz', port: 8080 } },
                  readinessProbe: { httpGet: { path: '/readyz', port: 8080 } },
                },
              ],
            },
          },
        },
      });
      const help = execFileSync(process.execPath, [...process.execArgv, ENTRY, 'controller', '--help'], { encoding: 'utf8' });
      for (const flag of args.split(' ').filter((word) => word.startsWith('--'))) expect(help).toContain(`${flag} `);
    }
  });

  test('one replica needs no disruption budget', () => {
    expect(names(cell({ replicas: 1 }))).not.toHaveProperty('PodDisruptionBudget');
  });

  test('security 1: a hub renders behind namespaces or not at all, in a pod that may make them where a profile allows it', () => {
    const deployment = (more: object) => hub(more).find(({ kind }) => kind === 'Deployment');
    expect(deployment({ seccompProfile: 'kubenode.json' })).toMatchObject({
      spec: { template: { spec: { securityContext: { seccompProfile: { type: 'Localhost', localhostProfile: 'kubenode.json' } } } } },
    });
    const warnings = (...args: string[]): string => run('--hub', ...args).stderr;
    expect(warnings()).toContain('this hub refuses to render');
    expect(warnings('--seccomp-profile', 'kubenode.json')).toBe('');
  });

  test.each([
    ['hub', hub()],
    ['cell', cell()],
  ])('security 9: only namespaces that read metrics reach the pods of a %s, and only there', (_, objects) => {
    const deployment = objects.find(({ kind }) => kind === 'Deployment');
    const policies = objects.filter(({ kind }) => kind === 'NetworkPolicy');
    expect(policies).toHaveLength(1);
    expect(policies[0]).toHaveProperty('spec', {
      podSelector: { matchLabels: deployment?.metadata.labels },
      policyTypes: ['Ingress'],
      ingress: [
        {
          from: [{ namespaceSelector: { matchLabels: { 'kubenode.io/reads-metrics': 'true' } } }],
          ports: [{ protocol: 'TCP', port: 8443 }],
        },
      ],
    });
    expect(deployment).toMatchObject({ spec: { template: { metadata: { labels: deployment?.metadata.labels } } } });
  });

  test('security 9: the image is built on a base that a digest names, or not at all', () => {
    const lines = readFileSync(new URL('../../../deploy/Dockerfile', import.meta.url), 'utf8').split('\n');
    expect(lines.filter((line) => line.startsWith('FROM'))).toEqual(['FROM ${BASE} AS build', 'FROM ${BASE}']);
    expect(lines).toContain('ARG BASE');
    const check = lines.find((line) => line.startsWith('RUN printf'))?.slice('RUN '.length) ?? '';
    const builds = (base: string): boolean => spawnSync('sh', ['-c', check], { env: { ...process.env, BASE: base } }).status === 0;
    const digest = `sha256:${'0a'.repeat(32)}`;
    expect(builds(`docker.io/library/node:24-slim@${digest}`)).toBe(true);
    for (const base of ['', 'node:24-slim', `node@${digest}0`, `node@${digest.slice(0, -1)}`, `node@${digest.toUpperCase()}`, digest])
      expect([base, builds(base)]).toEqual([base, false]);
  });

  test('another namespace is used throughout, save for the Secrets that the hub reads', () => {
    const text = JSON.stringify(cell({ namespace: 'elsewhere' }));
    expect(text).toContain('system:serviceaccount:elsewhere:kubenode-machine');
    expect(text.replaceAll('"kubenode-system/', '')).not.toContain('kubenode-system:');
    const there = names(hub({ namespace: 'elsewhere' }));
    expect(there['Role']).toEqual([
      'elsewhere/kubenode-hub',
      'kubenode-system/kubenode-hub-secrets',
      'kubenode-system/kubenode-cluster-secrets',
    ]);
  });
});

describe('the owner table', () => {
  test('speaks of every kind, where it lives', () => {
    expect(Object.keys(CELL_OWNERS).sort()).toEqual(CELL_KINDS.map(({ plural }) => plural).sort());
    expect(Object.keys(HUB_OWNERS).sort()).toEqual(HUB_KINDS.map(({ plural }) => plural).sort());
  });

  test('names every field and no other: a new field of a Machine needs a writer', () => {
    const owners = { ...CELL_OWNERS, ...HUB_OWNERS };
    for (const { plural, specFields } of ALL_KINDS)
      expect([plural, Object.keys(owners[plural]?.fields ?? {}).sort()]).toEqual([plural, [...specFields].sort()]);
    expect(Machines.specFields.size).toBe(Object.keys(CELL_OWNERS['machines']?.fields ?? {}).length);
  });
});

describe('the command', () => {
  test('prints YAML or JSON of the same, and nothing else on stdout', () => {
    const yaml = run('--cell', '--server', 'https://api:6443');
    expect([yaml.status, yaml.stderr]).toEqual([0, '']);
    const objects = parseAllDocuments(yaml.stdout).map((document) => document.toJS() as KubeObject);
    const json = run('--cell', '--server', 'https://api:6443', '-o', 'json');
    expect(JSON.parse(json.stdout)).toMatchObject({ apiVersion: 'v1', kind: 'List' });
    const { items } = JSON.parse(json.stdout) as { items: KubeObject[] };
    expect(items).toEqual(objects);
    // What kubectl reads, where a bare `no` is false.
    expect(parseAllDocuments(yaml.stdout, { version: '1.1' }).map((document) => document.toJS() as KubeObject)).toEqual(items);
    expect(objects.length).toBe(cell().length);
  });

  test('warns that nodes will not find the server', () => {
    const { status, stderr } = run('--cell');
    expect([status, stderr]).toEqual([0, expect.stringContaining('without --server new nodes get an address that only pods reach')]);
  });

  test.each([
    [[], 'choose what this cluster shall be: --hub or --cell'],
    [['--hub', '--cell'], "option '--cell' cannot be used with option '--hub'"],
    [['--cell', '--replicas', '0'], '`--replicas` must be a whole number from 1 to 10, got "0"'],
    [['--cell', '--replicas', '2.5'], '`--replicas` must be a whole number from 1 to 10, got "2.5"'],
    [['--cell', '--namespace', 'Not A Name'], '`--namespace` must be the name of a namespace'],
    [['--cell', '--image', 'a b'], '`--image` must name an image, got "a b"'],
    [['--cell', '--server', 'http://api:6443'], '`--server` must be https://host:port, got "http://api:6443"'],
    [['--cell', '--mirror', 'https://mirror/x'], '`--mirror` must be a URL that ends with a slash, got "https://mirror/x"'],
    [['--hub', '--server', 'https://api:6443'], '--server is for --cell'],
    [['--cell', '--reserved-node-names', 'a', 'b c'], '`--reserved-node-names` must be names of Nodes'],
    [['--cell', '--node-domains', 'nodes.example', '*.example'], '`--node-domains` must be domains like nodes.example'],
    [['--cell', '--node-domains', '.example'], '`--node-domains` must be domains like nodes.example'],
    [['--cell', '--node-domains', ''], '`--node-domains` must be domains like nodes.example'],
    [['--hub', '--node-domains', 'nodes.example'], '--node-domains is for --cell'],
    [['--hub', '--reserved-node-names', 'a'], '--reserved-node-names is for --cell'],
    [['--cell', '--component-keys', '/nowhere/keys'], '/nowhere/keys cannot be read'],
    [['--hub', '--component-keys', 'a'], '--component-keys is for --cell'],
    [['--hub', '--mirror', 'https://m/'], '--mirror is for --cell'],
    [['--hub', '--isolation', 'process'], "unknown option '--isolation'"],
    [['--cell', '--seccomp-profile', 'kubenode.json'], '--seccomp-profile is for --hub'],
    [['--hub', '--seccomp-profile', '/etc/x'], "must be a path below the kubelet's seccomp folder"],
    [['--hub', '--seccomp-profile', 'a/../../x'], "must be a path below the kubelet's seccomp folder"],
    [['--cell', '-o', 'xml'], "argument 'xml' is invalid. Allowed choices are yaml, json."],
    [['--cells'], "unknown option '--cells'"],
  ])('%j is refused in one sentence', (args, message) => {
    const { status, stdout, stderr } = run(...args);
    expect([status, stdout, stderr]).toEqual([2, '', expect.stringContaining(message)]);
    expect(stderr.trim().split('\n').length).toBeLessThan(3);
  });
});
