/** A session of everyday kubectl, command by command, on both servers. */
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openCluster, serve, type ApiServer, type EmbeddedCluster } from '@kubenode/embedded';
import { Api, systemClock } from '@kubenode/embedded/testing';
import { realServer, type RealServer } from '../kubernetes/real-server.ts';
import { Normalizer } from './normalize.ts';
import type { Json } from './scene.ts';
import { expectSame } from './suite.ts';
import { defineWidgets } from './widgets.ts';

const widget = (name: string, spec: object, labels: object = { app: name }): string =>
  JSON.stringify({ apiVersion: 'example.io/v1', kind: 'Widget', metadata: { name, labels }, spec });

const NODE = JSON.stringify({
  apiVersion: 'v1',
  kind: 'Node',
  metadata: { name: 'session-node', labels: { 'node-role.kubernetes.io/worker': '' } },
  status: {
    conditions: [{ type: 'Ready', status: 'True', reason: 'KubeletReady' }],
    addresses: [{ type: 'InternalIP', address: '10.1.2.3' }],
    nodeInfo: { kubeletVersion: 'v1.34.4', osImage: 'Debian', kernelVersion: '6.1', containerRuntimeVersion: 'containerd://1.7' },
  },
});
const POD = JSON.stringify({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name: 'p', labels: { app: 'x' } },
  spec: { serviceAccountName: 'default', nodeName: 'session-node', containers: [{ name: 'c', image: 'i:1' }] },
});

/** Arguments and, where there is one, what stands on standard input. */
const SESSION: readonly (readonly [string, string?])[] = [
  ['create namespace session'],
  ['get namespace session'],
  ['-n session apply -f -', widget('one', { color: 'red', replicas: 2 })],
  ['-n session apply -f -', widget('one', { color: 'red', replicas: 2 })],
  ['-n session apply -f -', widget('one', { color: 'blue' })],
  ['-n session get widgets'],
  ['-n session get wd one -o wide'],
  ['-n session get wd -o name'],
  ['-n session get wd one -o jsonpath={.spec}'],
  ['-n session get wd one -o yaml'],
  ['-n session get wd one -o yaml --show-managed-fields'],
  ['-n session get wd -l app=none'],
  ['-n session get wd --field-selector spec.color=blue --no-headers'],
  ['-n session get wd none'],
  ['-n session get wd one --show-labels'],
  ['-n session describe wd one'],
  ['-n session label wd one tier=front'],
  ['-n session label wd one tier=back'],
  ['-n session label wd one tier=back --overwrite'],
  ['-n session label wd one tier-'],
  ['-n session annotate wd one note=hello'],
  ['-n session patch wd one --type=merge -p {"spec":{"color":"green"}}'],
  ['-n session patch wd one --type=json -p [{"op":"replace","path":"/spec/color","value":"red"}]'],
  ['-n session patch wd one -p {"spec":{"color":"red"}}'],
  ['-n session patch wd one --type=merge -p {"spec":{"color":"pink"}}'],
  ['-n session patch wd one --subresource=status --type=merge -p {"status":{"conditions":[{"type":"Ready","status":"True"}]}}'],
  ['-n session wait --for=condition=Ready wd/one --timeout=5s'],
  ['-n session wait --for=jsonpath={.spec.color}=red wd/one --timeout=5s'],
  ['-n session scale wd/one --replicas=5'],
  ['-n session get wd one'],
  ['-n session apply --server-side --field-manager=a -f -', widget('ssa', { color: 'red' })],
  ['-n session apply --server-side --field-manager=b -f -', widget('ssa', { color: 'blue' })],
  ['-n session apply --server-side --field-manager=b --force-conflicts -f -', widget('ssa', { color: 'blue' })],
  ['-n session apply --server-side --field-manager=b --dry-run=server -f -', widget('ssa', { color: 'green' })],
  ['-n session diff --server-side --field-manager=b -f -', widget('ssa', { color: 'green' })],
  ['-n session apply -f -', widget('bad', { color: 'red', colour: 1 })],
  ['-n session apply --validate=warn -f -', widget('warned', { color: 'red', colour: 1 })],
  ['-n session create -f -', widget('one', { color: 'red' })],
  ['-n session replace -f -', widget('one', { color: 'blue' })],
  ['-n session replace -f -', widget('nobody', { color: 'blue' })],
  ['-n session delete wd one'],
  ['-n session delete wd one'],
  ['-n session delete wd -l app=ssa'],
  ['-n session delete wd --all'],
  ['-n session create configmap c --from-literal=a=b'],
  ['-n session get configmap c'],
  ['-n session get configmap c -o yaml'],
  ['-n session describe configmap c'],
  ['-n session create secret generic s --from-literal=p=q'],
  ['-n session get secret s'],
  ['-n session get secret s -o jsonpath={.data.p}'],
  ['-n session describe secret s'],
  ['-n session create serviceaccount bot'],
  ['-n session create pdb b --selector=app=x --min-available=1'],
  ['apply -f -', NODE],
  ['get node session-node'],
  ['get node session-node -o wide'],
  ['cordon session-node'],
  ['cordon session-node'],
  ['taint node session-node a=b:NoSchedule'],
  ['taint node session-node a=b:NoSchedule'],
  ['taint node session-node a-'],
  ['get node session-node'],
  ['uncordon session-node'],
  ['-n session apply -f -', POD],
  ['-n session patch pod p --subresource=status -p {"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}'],
  ['-n session get pods'],
  ['-n session get pods -o wide'],
  ['-n session get pod p -o jsonpath={.spec.tolerations}'],
  ['-n session delete pdb b'],
  ['drain session-node --force --dry-run=server'],
  ['-n session delete pod p --now --wait=false'],
  ['-n session delete pod p --grace-period=0 --force'],
  ['delete node session-node'],
  ['api-resources --api-group=example.io'],
  ['api-resources --api-group=example.io -o name'],
  ['explain widget.spec'],
  ['explain widget.spec.color'],
  ['explain widget --recursive'],
  ['explain none'],
  ['auth whoami'],
  ['auth can-i delete pods'],
  ['get --raw /readyz'],
  ['get nothing'],
  ['get crd widgets.example.io'],
  ['delete namespace session --wait=false'],
];

/** Splits at blanks; JSON has none here. */
const words = (line: string): string[] => line.split(' ');

interface Printed {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

function normal(names: Normalizer, text: string): string {
  return names
    .text(text)
    .replaceAll(/\b\d+([smhdy]|m\d+s|h\d+m|d\d+h|y\d+d)\b(?= *$| +(<|\w|[\d.]))/gm, '<age>')
    .replaceAll(/(resourceVersion: )"\d+"/g, '$1<version>')
    .replaceAll(/(Resource Version: +)\d+/g, '$1<version>')
    .replaceAll(/\/tmp\/(LIVE|MERGED)-\d+/g, '/tmp/$1')
    .replaceAll(/^(---|\+\+\+) (\S+)\t.*$/gm, '$1 $2')
    .replaceAll(/ +$/gm, '')
    .replaceAll(/ {2,}/g, '  ');
}

const real = realServer();

describe.skipIf(real?.kubectl === undefined)('kubectl', () => {
  let root: string;
  let cluster: EmbeddedCluster;
  let server: ApiServer;
  const shared: RealServer | undefined = real;

  beforeAll(async () => {
    root = mkdtempSync(join(tmpdir(), 'kubenode-session-'));
    cluster = await openCluster({ name: 'embedded', state: 'memory', clock: systemClock, podsEndedBy: 'kubelet' });
    server = await serve({ clusters: [cluster], listen: '127.0.0.1:0', state: 'memory', clock: systemClock });
    writeFileSync(join(root, 'config'), server.kubeconfig('embedded'), { mode: 0o600 });
    await defineWidgets(new Api(cluster.asUser()));
    if (shared !== undefined) await defineWidgets(new Api(shared.transport));
  }, 60_000);

  afterAll(async () => {
    await server.close();
    await cluster.close();
    await shared?.transport.close();
    rmSync(root, { recursive: true });
  });

  function kubectl(kubeconfig: string, home: string, line: string, input: string | undefined): Promise<Printed> {
    const env = { PATH: process.env['PATH'] ?? '', KUBECONFIG: kubeconfig, HOME: join(root, home), KUBECTL_EXTERNAL_DIFF: 'diff -u -N' };
    return new Promise((resolve) => {
      const child = execFile(shared?.kubectl ?? 'kubectl', words(line), { env, timeout: 20_000 }, (error, stdout, stderr) => {
        resolve({ code: error === null ? 0 : typeof error.code === 'number' ? error.code : -1, stdout, stderr });
      });
      child.stdin?.end(input ?? '');
    });
  }

  async function session(kubeconfig: string, home: string): Promise<Json[]> {
    const names = new Normalizer([]);
    const steps: Json[] = [];
    for (const [line, input] of SESSION) {
      const { code, stdout, stderr } = await kubectl(kubeconfig, home, line, input);
      steps.push({ did: `kubectl ${line}`, code, stdout: normal(names, stdout).split('\n'), stderr: normal(names, stderr).split('\n') });
    }
    return steps;
  }

  it('prints the same on both servers, command by command', async () => {
    const [ours, theirs] = await Promise.all([session(join(root, 'config'), 'embedded'), session(shared?.kubeconfig ?? '', 'real')]);
    expect(ours.length).toBe(SESSION.length);
    expectSame('kubectl: prints the same on both servers, command by command', ours, theirs, 'real');
  }, 240_000);
});
