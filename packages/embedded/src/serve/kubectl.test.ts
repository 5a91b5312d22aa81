import { execFile, spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, it } from 'vitest';
import { stringify } from 'yaml';
import { openCluster, type EmbeddedCluster } from '../cluster.ts';
import { makeRequest } from '../testing/csr.ts';
import { systemClock } from '../testing/system-clock.ts';
import { WIDGETS } from '../testing/widgets.ts';
import { serve, type ApiServer } from './serve.ts';

const found = spawnSync('kubectl', ['version', '--client', '-o', 'json'], { encoding: 'utf8' });
const version = found.status === 0 ? (/"gitVersion": "([^"]+)"/.exec(found.stdout)?.[1] ?? 'unknown') : undefined;

const widget = (name: string, spec: object) =>
  stringify({ apiVersion: 'example.io/v1', kind: 'Widget', metadata: { name, labels: { app: name } }, spec });

const rows = (output: string) =>
  output
    .trim()
    .split('\n')
    .map((line) => line.trim().split(/\s+/));

describe.skipIf(version === undefined).concurrent(`kubectl ${version ?? '(not on PATH: skipped)'}`, () => {
  let root: string;
  let cluster: EmbeddedCluster;
  let server: ApiServer;
  let env: NodeJS.ProcessEnv;

  beforeAll(async () => {
    root = mkdtempSync(join(tmpdir(), 'embedded-kubectl-'));
    cluster = await openCluster({ name: 'test', state: 'memory', clock: systemClock });
    server = await serve({ clusters: [cluster], listen: '127.0.0.1:0', state: 'memory', clock: systemClock });
    writeFileSync(join(root, 'config'), server.kubeconfig('test'), { mode: 0o600 });
    env = { ...process.env, KUBECONFIG: join(root, 'config'), HOME: root, KUBECACHEDIR: join(root, 'cache') };
    await kubectl(['apply', '-f', '-'], stringify(WIDGETS));
    await kubectl(['wait', '--for=condition=Established', 'crd/widgets.example.io', '--timeout=10s']);
  });

  afterAll(async () => {
    await server.close();
    await cluster.close();
    rmSync(root, { recursive: true });
  });

  /** Standard output and standard error of a call that succeeds; both in the message of one that fails. */
  function kubectl(args: string[], input?: string): Promise<string> {
    return new Promise((resolve, reject) => {
      const child = execFile('kubectl', args, { env, timeout: 15_000 }, (error, stdout, stderr) => {
        if (error === null) resolve(stdout + stderr);
        else reject(new Error(`${stdout}${stderr}`));
      });
      child.stdin?.end(input ?? '');
    });
  }

  /** What a drain prints first when it must wait; it would try again every five seconds. */
  async function refusedDrain(): Promise<string> {
    const child = spawn('kubectl', ['drain', 'n1', '--force'], { env });
    let printed = '';
    child.stderr.setEncoding('utf8');
    for await (const chunk of child.stderr) {
      printed += String(chunk);
      if (printed.includes('will retry')) child.kill();
    }
    return printed;
  }

  it('lists what is served', async ({ expect }) => {
    const resources = await kubectl(['api-resources', '-o', 'wide']);
    for (const line of [/^widgets +wd +example\.io\/v1 +true +Widget .*all$/m, /^poddisruptionbudgets +pdb/m, /^namespaces +ns .*false/m])
      expect(resources).toMatch(line);
    expect(await kubectl(['version', '-o', 'json'])).toContain('kubenode');
    expect(await kubectl(['get', '--raw', '/readyz'])).toBe('ok');
    expect(await kubectl(['get', '--raw', '/version'])).toContain('"gitVersion"');
    expect(await kubectl(['get', '--raw', '/api/v1/namespaces/default'])).toContain('"kind":"Namespace"');
  });

  it('explains kinds from their schemas', async ({ expect }) => {
    expect(await kubectl(['explain', 'widget.spec.color'])).toMatch(/FIELD: color <string>\nENUM:|enum: red, green, blue/);
    expect(await kubectl(['explain', 'pod.spec.containers.image'])).toContain('Image of the container.');
  });

  it('creates, shows in every form, changes and deletes', async ({ expect }) => {
    await kubectl(['apply', '-f', '-'], widget('one', { color: 'red', replicas: 2 }));
    expect(await kubectl(['apply', '-f', '-'], widget('one', { color: 'red', replicas: 2 }))).toContain('unchanged');
    expect(rows(await kubectl(['get', 'wd', 'one']))).toEqual([
      ['NAME', 'COLOR', 'REPLICAS', 'READY', 'AGE'],
      ['one', 'red', '2', expect.stringMatching(/^\d+s$/)],
    ]);
    expect(rows(await kubectl(['get', 'wd', '-o', 'wide']))[0]).toContain('SINCE');
    expect(await kubectl(['get', 'wd', 'one', '-o', 'jsonpath={.spec.color}'])).toBe('red');
    expect(await kubectl(['get', 'wd', 'one', '-o', 'yaml'])).toContain('color: red');
    expect(await kubectl(['get', 'wd', '-l', 'app=one', '-o', 'name'])).toBe('widget.example.io/one\n');
    expect(await kubectl(['get', 'wd', '--field-selector', 'spec.color=blue,metadata.name=one'])).toContain('No resources found');
    expect(await kubectl(['describe', 'wd', 'one'])).toMatch(/Color: +red/);
    expect(await kubectl(['patch', 'wd', 'one', '--type=merge', '-p', '{"spec":{"color":"blue"}}'])).toContain('patched');
    expect(await kubectl(['patch', 'wd', 'one', '--type=json', '-p', '[{"op":"replace","path":"/spec/color","value":"green"}]'])).toContain(
      'patched',
    );
    expect(await kubectl(['scale', 'wd/one', '--replicas=5'])).toContain('scaled');
    await kubectl(['label', 'wd', 'one', 'x=y']);
    await kubectl([
      'patch',
      'wd',
      'one',
      '--subresource=status',
      '--type=merge',
      '-p',
      '{"status":{"conditions":[{"type":"Ready","status":"True"}]}}',
    ]);
    expect(await kubectl(['wait', '--for=condition=Ready', 'wd/one', '--timeout=5s'])).toContain('condition met');
    expect(rows(await kubectl(['get', 'wd', 'one', '--no-headers']))[0]?.slice(0, 4)).toEqual(['one', 'green', '5', 'True']);
    expect(await kubectl(['replace', '-f', '-'], widget('one', { color: 'red' }))).toContain('replaced');
    expect(await kubectl(['delete', 'wd', 'one'])).toContain('deleted');
    await expect(kubectl(['get', 'wd', 'one'])).rejects.toThrow('NotFound');
  });

  it('applies on the server, and gets conflicts and warnings of misspelt fields', async ({ expect }) => {
    const apply = (manager: string, spec: object, ...more: string[]) =>
      kubectl(['apply', '--server-side', '--field-manager', manager, ...more, '-f', '-'], widget('ssa', spec));
    expect(await apply('a', { color: 'red' })).toContain('serverside-applied');
    await expect(apply('b', { color: 'blue' })).rejects.toThrow('conflict with "a": .spec.color');
    expect(await apply('b', { color: 'blue' }, '--force-conflicts')).toContain('serverside-applied');
    expect(await apply('b', { color: 'green' }, '--dry-run=server')).toContain('(server dry run)');
    expect(await kubectl(['get', 'wd', 'ssa', '-o', 'jsonpath={.spec.color}'])).toBe('blue');
    await expect(kubectl(['apply', '-f', '-'], widget('bad', { color: 'red', colour: 1 }))).rejects.toThrow(
      'strict decoding error: unknown field "spec.colour"',
    );
    await expect(kubectl(['diff', '-f', '-'], widget('ssa', { color: 'red' }))).rejects.toThrow('+  color: red');
    await kubectl(['delete', 'wd', 'ssa', '--wait=false']);
  });

  it('follows changes', async ({ expect }) => {
    await kubectl(['create', 'configmap', 'seen', '--from-literal=a=b']);
    const child = spawn('kubectl', ['get', 'cm', '-w', '--no-headers', '--field-selector', 'metadata.name=seen'], { env });
    let printed = '';
    child.stdout.setEncoding('utf8');
    for await (const chunk of child.stdout) {
      if (printed === '') await kubectl(['patch', 'cm', 'seen', '-p', '{"data":{"c":"d"}}']);
      printed += String(chunk);
      if (rows(printed).length >= 2) child.kill();
    }
    expect(rows(printed).map((row) => row.slice(0, 2))).toEqual([
      ['seen', '1'],
      ['seen', '2'],
    ]);
  });

  it('makes built-in objects, which it sends as protobuf', async ({ expect }) => {
    await kubectl(['create', 'namespace', 'web']);
    await kubectl(['-n', 'web', 'create', 'configmap', 'c', '--from-literal=a=b']);
    await kubectl(['-n', 'web', 'create', 'secret', 'generic', 's', '--from-literal=p=q']);
    await kubectl(['-n', 'web', 'create', 'serviceaccount', 'bot']);
    await kubectl(['-n', 'web', 'create', 'pdb', 'b', '--selector=app=x', '--min-available=50%']);
    expect(await kubectl(['-n', 'web', 'get', 'cm', 'c', '-o', 'jsonpath={.data.a}'])).toBe('b');
    expect(await kubectl(['-n', 'web', 'get', 'secret', 's', '-o', 'jsonpath={.data.p}'])).toBe('cQ==');
    expect(await kubectl(['-n', 'web', 'get', 'pdb', 'b', '-o', 'jsonpath={.spec}'])).toContain('"minAvailable":"50%"');
    const token = (await kubectl(['-n', 'web', 'create', 'token', 'bot'])).trim();
    expect(await kubectl(['--token', token, 'auth', 'whoami', '-o', 'jsonpath={.status.userInfo.username}'])).toBe(
      'system:serviceaccount:web:bot',
    );
    expect(await kubectl(['auth', 'can-i', 'delete', 'pods'])).toContain('yes');
    expect(await kubectl(['delete', 'namespace', 'web'])).toContain('deleted');
  });

  it('keeps nodes: cordon, taint, describe, drain with a budget in the way', async ({ expect }) => {
    const node = {
      apiVersion: 'v1',
      kind: 'Node',
      metadata: { name: 'n1' },
      status: { conditions: [{ type: 'Ready', status: 'True' }], nodeInfo: { kubeletVersion: 'v1.33.1' } },
    };
    const pod = {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: 'p', labels: { app: 'x' } },
      spec: { nodeName: 'n1', terminationGracePeriodSeconds: 1, containers: [{ name: 'c', image: 'i' }] },
    };
    const budget = {
      apiVersion: 'policy/v1',
      kind: 'PodDisruptionBudget',
      metadata: { name: 'b' },
      spec: { minAvailable: 1, selector: { matchLabels: { app: 'x' } } },
    };
    await kubectl(['apply', '-f', '-'], [node, pod, budget].map((it) => stringify(it)).join('---\n'));
    await kubectl([
      'patch',
      'pod',
      'p',
      '--subresource=status',
      '-p',
      '{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}',
    ]);
    await kubectl(['taint', 'node', 'n1', 'a=b:NoSchedule']);
    expect(await kubectl(['cordon', 'n1'])).toContain('cordoned');
    expect(rows(await kubectl(['get', 'nodes']))[1]).toEqual(['n1', 'Ready,SchedulingDisabled', '<none>', expect.any(String), 'v1.33.1']);
    expect(await kubectl(['describe', 'node', 'n1'])).toMatch(/Taints: +a=b:NoSchedule[\s\S]*Non-terminated Pods: +\(1 in total\)/);
    expect(await refusedDrain()).toContain("violate the pod's disruption budget");
    await kubectl(['delete', 'pdb', 'b']);
    expect(await kubectl(['drain', 'n1', '--force', '--timeout=10s'])).toContain('node/n1 drained');
    expect(await kubectl(['uncordon', 'n1'])).toContain('uncordoned');
  });

  it('approves a certificate', async ({ expect }) => {
    const request = Buffer.from(await makeRequest([{ CN: ['me'] }])).toString('base64');
    const spec = { request, signerName: 'kubernetes.io/kube-apiserver-client', usages: ['client auth'] };
    await kubectl(
      ['apply', '-f', '-'],
      stringify({ apiVersion: 'certificates.k8s.io/v1', kind: 'CertificateSigningRequest', metadata: { name: 'me' }, spec }),
    );
    await kubectl(['certificate', 'approve', 'me']);
    await kubectl(['wait', '--for=jsonpath={.status.certificate}', 'csr/me', '--timeout=5s']);
    expect(rows(await kubectl(['get', 'csr', 'me', '--no-headers']))[0]?.at(-1)).toBe('Approved,Issued');
  });

  it('is refused with a wrong token', async ({ expect }) => {
    const wrong = server.kubeconfig('test').replace(/token: .*/, 'token: wrong');
    writeFileSync(join(root, 'wrong'), wrong);
    await expect(kubectl(['--kubeconfig', join(root, 'wrong'), 'get', 'nodes'])).rejects.toThrow(/Unauthorized|credentials/);
  });
});
