import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Namespaces, Nodes } from '../../src/api/builtin.ts';
import { API_VERSION } from '../../src/api/kind.ts';
import { Machines } from '../../src/api/machine.ts';
import { ANNOTATIONS } from '../../src/api/names.ts';
import type { ImportResult } from '../../src/cli/import/import-all.ts';
import { installOn } from '../../src/cli/start/installed.ts';
import { systemClock } from '../../src/kube/clock.ts';
import { createClient } from '../../src/kube/http-client.ts';
import type { Client } from '../../src/kube/client.ts';
import { waitFor } from '../../src/kube/testing/wait-for.ts';
import { fingerprintOf } from '../../src/ssh/host-keys.ts';
import { startWire } from '../../src/ssh/testing/sshd.ts';
import { startProgram, type Program } from '../kubernetes/program.ts';
import { command } from './command.ts';
import { startNodesControlPlane, type NodesControlPlane } from './control-plane.ts';
import type { TestMachine } from './machine.ts';
import { openNodes, type NodesRig } from './rig.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const BIN = join(ROOT, 'bin/kubenode.js');
const POOL = 'web';
const print = (line: string): void => void process.stderr.write(`${line}\n`);

let rig: NodesRig;
let plane: NodesControlPlane;
let client: Client;
let controllers: Program;
let identity: string;
let publicKey: string;
let machine: TestMachine;
let other: TestMachine;

interface Called {
  code: number | null;
  results: ImportResult[];
  stderr: string;
}

interface Calling {
  pool?: string;
  identity?: string;
  knownHosts?: string;
  json?: boolean;
  /** Gets its output as it is printed, and may end it. */
  seen?: (output: string, kill: () => void) => void;
}

/** `kubenode import`, as a process. */
async function kubenodeImport(args: readonly string[], calling: Calling = {}): Promise<Called> {
  const fixed = ['--kubeconfig', plane.kubeconfig, '--pool', calling.pool ?? POOL, '-i', calling.identity ?? identity];
  const known = ['--known-hosts', calling.knownHosts ?? join(rig.folder, 'known_hosts')];
  const child = spawn(process.execPath, [BIN, 'import', ...fixed, ...known, ...(calling.json === false ? [] : ['-o', 'json']), ...args], {
    cwd: rig.folder,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let stdout = '';
  let stderr = '';
  child.stdout.on('data', (piece: Buffer) => (stdout += piece.toString()));
  child.stderr.on('data', (piece: Buffer) => {
    stderr += piece.toString();
    calling.seen?.(stderr, () => child.kill('SIGKILL'));
  });
  const [code] = (await once(child, 'close')) as [number | null];
  return { code, results: stdout.startsWith('[') ? (JSON.parse(stdout) as ImportResult[]) : [], stderr };
}

const fingerprintFor = (of: TestMachine): string[] => ['--fingerprint', fingerprintOf(of.hostKey)];
const machineNow = (name: string) => client.find(Machines, { namespace: POOL, name });

/** As if KubeNode had never been there. */
async function plain(of: TestMachine): Promise<void> {
  await of.run(['sh', '-c', '[ ! -x /opt/kubenode/agent/current/uninstall ] || /opt/kubenode/agent/current/uninstall --forget']);
  await of.ok([
    'sh',
    '-c',
    'rm -rf /opt/kubenode /etc/kubenode; find /var/lib/kubenode -mindepth 1 -delete; rm -f /run/kubenode-import.lock',
  ]);
}

async function gone(name: string): Promise<void> {
  await client.delete(Machines, { namespace: POOL, name });
  await waitFor(async () => (await machineNow(name)) === undefined, { deadlineMs: 300_000, what: `Machine ${name} to be gone` });
}

beforeAll(async () => {
  rig = await openNodes(print);
  identity = join(rig.folder, 'id');
  await command(['ssh-keygen', '-q', '-t', 'ed25519', '-N', '', '-f', identity]);
  publicKey = readFileSync(`${identity}.pub`, 'utf8');
  plane = await startNodesControlPlane(rig.gateway, print);
  [machine, other] = await Promise.all([rig.boot({ authorizedKeys: publicKey }), rig.boot({ authorizedKeys: publicKey })]);
  writeFileSync(join(rig.folder, 'known_hosts'), [machine, other].map((each) => `[${each.address}]:22 ${each.hostKey}\n`).join(''));
  client = createClient(plane.transport);
  await installOn(client, { role: 'cell', fieldManager: 'test', clock: systemClock({ ref: true }), signal: new AbortController().signal });
  for (const name of [POOL, 'shop']) await client.create(Namespaces, { apiVersion: 'v1', kind: 'Namespace', metadata: { name } });
  const args = [BIN, 'controller', '--cell', '--kubeconfig', plane.kubeconfig, '--leader-elect', 'false', '--separate-identities'];
  controllers = startProgram('controllers', process.execPath, args, join(rig.folder, 'controllers.log'));
}, 900_000);
afterAll(async () => {
  await controllers?.stop();
  await plane?.stop();
  await rig?.close();
});

describe('a plain machine', () => {
  it('is imported: its agent runs under systemd, is admitted by a certificate of its own, and the Machine knows it', async () => {
    const begun = performance.now();
    const { code, results, stderr } = await kubenodeImport([machine.address, ...fingerprintFor(machine), '--label', 'rack=r1'], {
      knownHosts: join(rig.folder, 'first'),
    });
    expect({ code, stderr, results }).toMatchObject({
      code: 0,
      results: [
        { host: machine.address, state: 'Imported', machine: `${POOL}/${machine.name}`, did: ['transfer', 'install', 'admit', 'start'] },
      ],
    });
    print(`import of one machine took ${((performance.now() - begun) / 1000).toFixed(1)} s`);
    const found = await machineNow(machine.name);
    expect(found?.status?.agent).toMatchObject({ bootID: await machine.bootID(), os: 'linux' });
    expect(found?.status?.bootstrap).toMatchObject({ epoch: 1, by: 'Certificate' });
    expect(found?.status?.providerID).toBe(`ssh://${POOL}/${machine.name}/${found?.metadata.uid}`);
    expect(found?.spec.labels).toEqual({ rack: 'r1' });
    expect((await machine.ok(['systemctl', 'is-active', 'kubenode-agent'])).trim()).toBe('active');
    expect((await machine.ok(['systemctl', 'is-enabled', 'kubenode-agent'])).trim()).toBe('enabled');
    expect((await machine.ok(['stat', '-c', '%a %U', '/etc/kubenode/bootstrap.json'])).trim()).toBe('600 root');
    expect((await machine.ok(['find', '/opt/kubenode', '-name', '.*'])).trim()).toBe('');
  });

  it('is left as it is when it is imported again', async () => {
    const before = await machine.ok(['systemctl', 'show', '-p', 'InvocationID', '--value', 'kubenode-agent']);
    const { code, results } = await kubenodeImport([machine.address]);
    expect({ code, results }).toMatchObject({ code: 0, results: [{ state: 'Unchanged', did: [] }] });
    expect(await machine.ok(['systemctl', 'show', '-p', 'InvocationID', '--value', 'kubenode-agent'])).toBe(before);
  });

  it('reports what it is, and that all is as it was installed, also without a network; and names what is not', async () => {
    await machine.ok(['ip', 'link', 'set', 'host0', 'down']);
    const status = await machine.ok(['kubenode-agent', 'status']);
    expect(status).toContain(`${POOL}/${machine.name} (`);
    expect(status).toContain('Certificate, until');
    expect(await machine.ok(['kubenode-agent', 'verify'])).toContain('0 components and the agent are as they were installed');
    expect(await machine.ok(['kubenode-agent', 'journal'])).toMatch(/^1 (open|state) /);
    await machine.ok(['sh', '-c', 'cp -a /opt/kubenode/agent/current/VERSION /tmp/v; echo >>/opt/kubenode/agent/current/VERSION']);
    const { code, stdout } = await machine.run(['kubenode-agent', 'verify']);
    expect({ code, stdout }).toMatchObject({ code: 1, stdout: expect.stringContaining('VERSION is missing or differs') as string });
    await machine.ok(['sh', '-c', 'cp -a /tmp/v /opt/kubenode/agent/current/VERSION']);
    await machine.ok(['ip', 'link', 'set', 'host0', 'up']);
    await machine.ok(['networkctl', 'reconfigure', 'host0']).catch(() => undefined);
  });

  it('comes back by itself after a reboot', async () => {
    const before = await machine.bootID();
    await machine.run(['systemctl', 'reboot']);
    await machine.rebooted(before);
    const after = await machine.bootID();
    await waitFor(async () => (await machineNow(machine.name))?.status?.agent?.bootID === after, { deadlineMs: 300_000 });
  });

  it('is not taken into another pool, nor is a second Machine made of it', async () => {
    const { code, results } = await kubenodeImport([machine.address, '--name', 'again'], { pool: 'shop' });
    expect({ code, results }).toMatchObject({ code: 1, results: [{ state: 'Failed', reason: 'OtherMachine' }] });
    expect(await client.find(Machines, { namespace: 'shop', name: 'again' })).toBeUndefined();
  });

  it('goes when its Machine is deleted, and can be imported again once its agent is uninstalled', async () => {
    await gone(machine.name);
    expect((await kubenodeImport([machine.address])).results).toMatchObject([{ state: 'Failed', reason: 'OtherMachine' }]);
    await machine.ok(['/opt/kubenode/agent/current/uninstall', '--forget']);
    expect((await machine.run(['systemctl', 'cat', 'kubenode-agent'])).code).not.toBe(0);
    expect((await kubenodeImport([machine.address])).results).toMatchObject([{ state: 'Imported' }]);
    await gone(machine.name);
    await plain(machine);
  });
});

describe('a machine that was wiped', () => {
  it('is not admitted a second time; its Machine waits for proof that it is gone, which a person gives', async () => {
    expect((await kubenodeImport([other.address])).results).toMatchObject([{ state: 'Imported' }]);
    await plain(other);
    expect((await kubenodeImport([other.address])).results).toMatchObject([{ state: 'Failed', reason: 'AlreadyAdmitted' }]);
    expect((await other.run(['ls', '/opt/kubenode', '/etc/kubenode'])).stdout).toBe('');
    const key = { namespace: POOL, name: other.name };
    await client.delete(Machines, key);
    // Its order is given, and no agent there reports that it is done.
    await waitFor(async () => (await machineNow(other.name))?.spec.operation?.kind === 'Delete', { deadlineMs: 300_000 });
    expect((await kubenodeImport([other.address])).results).toMatchObject([{ state: 'Failed', reason: 'MachineDeleting' }]);
    expect((await machineNow(other.name))?.status?.phase).toBe('Deleting');
    await client.patch(Machines, key, { merge: { metadata: { annotations: { [ANNOTATIONS.machineIsOff]: 'wiped' } } } });
    await waitFor(async () => (await machineNow(other.name)) === undefined, { deadlineMs: 300_000, what: 'the Machine to be gone' });
    expect((await kubenodeImport([other.address])).results).toMatchObject([{ state: 'Imported' }]);
    await gone(other.name);
    await plain(other);
  });
});

/** As who may write what only the cell's own writers may: here one administrator is the hub, and the kubelet. */
const administrator = (args: readonly string[], input = ''): Promise<string> => {
  const who = ['--kubeconfig', plane.kubeconfig, '--as=test', '--as-group=system:masters', '--as-group=kubenode:break-glass'];
  return command([plane.kubectl, ...who, ...args], { input, timeoutMs: 120_000 });
};
const applied = (objects: object[]): Promise<string> =>
  administrator(['apply', '--server-side', '-f', '-'], JSON.stringify({ apiVersion: 'v1', kind: 'List', items: objects }));

describe('a machine with a component', () => {
  const FILE = '/etc/sleeper/sleeper.conf';
  const component = {
    componentName: 'sleeper',
    version: '1.0.0',
    platforms: [{ os: 'any', arch: 'any', artifacts: [] }],
    files: [{ path: FILE, content: 'of the component\n', mode: '0644' }],
    units: [{ name: 'sleeper', exec: ['/usr/local/bin/kubelet', 'infinity'] }],
    probes: [],
  };
  const objects = [
    { apiVersion: API_VERSION, kind: 'MachineComponent', metadata: { name: 'sleeper-1.0.0' }, spec: component },
    {
      apiVersion: API_VERSION,
      kind: 'MachineComponentSet',
      metadata: { name: 'sleeper' },
      spec: { componentName: 'sleeper', version: '1.0.0', batches: ['100%'], soakSeconds: 0 },
    },
  ];
  const agentFiles = ['/opt/kubenode', '/etc/kubenode/bootstrap.json', '/var/lib/kubenode/identity', '/var/lib/kubenode/journal'];
  /** By the process and by what it was started from. */
  const running = async (): Promise<string> =>
    `${await machine.ok(['systemctl', 'show', '-p', 'ActiveState,MainPID,InvocationID', 'sleeper'])}${await machine.ok(['sha256sum', '/etc/systemd/system/sleeper.service', FILE])}`;
  const isAgentGone = async (): Promise<boolean> =>
    (await machine.run(['systemctl', 'cat', 'kubenode-agent'])).code !== 0 &&
    (await machine.run(['ls', ...agentFiles])).stdout.trim() === '';

  /** Imported; its component runs, and its Node is there. */
  async function withComponent(): Promise<string> {
    expect((await kubenodeImport([machine.address, '--label', 'tier=web'])).results).toMatchObject([{ state: 'Imported' }]);
    const found = await waitFor(
      async () => {
        const now = await machineNow(machine.name);
        return now?.status?.components?.some(({ state }) => state === 'Healthy') === true ? now : undefined;
      },
      { deadlineMs: 300_000, what: 'the component' },
    );
    return found.metadata.uid;
  }

  beforeAll(async () => {
    await machine.ok(['cp', '/bin/sleep', '/usr/local/bin/kubelet']);
    await applied(objects);
  });
  afterAll(async () => {
    await administrator([
      'delete',
      'machinecomponentset/sleeper',
      'machinecomponent/sleeper-1.0.0',
      `node/${machine.name}`,
      '--ignore-not-found',
    ]);
    await machine.run([
      'sh',
      '-c',
      'systemctl disable --now sleeper; rm -rf /etc/systemd/system/sleeper.service /etc/sleeper; systemctl daemon-reload',
    ]);
    await plain(machine);
  });

  it('C14: is reset: the component is removed, and then the agent goes too', async () => {
    await withComponent();
    await client.patch(Machines, { namespace: POOL, name: machine.name }, { merge: { spec: { deletionPolicy: 'Reset' } } });
    await gone(machine.name);
    await waitFor(isAgentGone, { deadlineMs: 60_000, what: 'the agent to be gone' });
    expect((await machine.run(['systemctl', 'cat', 'sleeper'])).code).not.toBe(0);
    expect((await machine.run(['ls', FILE])).code).not.toBe(0);
  });

  it('C14: is given back: the agent goes, its component runs on in the same process, and its Node stays', async () => {
    const uid = await withComponent();
    const providerID = `ssh://${POOL}/${machine.name}/${uid}`;
    await applied([{ apiVersion: 'v1', kind: 'Node', metadata: { name: machine.name, labels: { team: 'x' } }, spec: { providerID } }]);
    const node = () => client.get(Nodes, { name: machine.name });
    await waitFor(async () => (await node()).metadata.labels?.['tier'] === 'web', { deadlineMs: 60_000, what: 'its label' });
    const before = await running();
    expect(before).toContain('ActiveState=active');

    const args = [BIN, 'give-back', machine.name, '-n', POOL, '--kubeconfig', plane.kubeconfig];
    expect(await command([process.execPath, ...args], { timeoutMs: 300_000 })).toBe('');
    expect(await machineNow(machine.name)).toBeUndefined();
    await waitFor(isAgentGone, { deadlineMs: 60_000, what: 'the agent to be gone' });
    expect(await running()).toBe(before);
    const { metadata, spec } = await node();
    expect(metadata.labels).toMatchObject({ team: 'x' });
    expect(metadata.labels).not.toHaveProperty('tier');
    expect(metadata.annotations?.[ANNOTATIONS.givenBack]).toBe(`${POOL}/${machine.name}`);
    expect([spec?.providerID, spec?.unschedulable]).toEqual([providerID, undefined]);

    const again = await kubenodeImport([machine.address]);
    expect(again.results).toMatchObject([{ state: 'Failed', reason: 'KubeletPresent' }]);
    expect(await running()).toBe(before);
  });
});

describe('an import that is interrupted', () => {
  const STEPS = [
    'is inspected',
    'gets its Machine',
    'takes the archive',
    'installs the agent',
    'gets its bootstrap',
    'starts the agent',
    'is waited for',
  ];

  it.each(STEPS)('by kill -9 when the machine %s: run again it goes on', async (step) => {
    const killed = await kubenodeImport([machine.address], { json: false, seen: (output, kill) => output.includes(step) && kill() });
    expect(killed).toMatchObject({ code: null });
    const { code, results, stderr } = await kubenodeImport([machine.address]);
    expect({ code, results, stderr }).toMatchObject({ code: 0, results: [{ machine: `${POOL}/${machine.name}` }] });
    await gone(machine.name);
    await plain(machine);
  });

  it.each(STEPS.filter((each) => each !== 'gets its Machine'))(
    'by a cut of the connection when the machine %s: it goes on by itself',
    async (step) => {
      const wire = await startWire(machine.address, 22);
      try {
        let isCut = false;
        const seen = (output: string): void => {
          if (isCut || !output.includes(step)) return;
          isCut = true;
          // In the middle of the conversation that begins now.
          wire.cutAfter(step === 'takes the archive' ? 5_000_000 : 3000);
          setTimeout(() => {
            wire.cut();
            wire.cutAfter(Infinity);
          }, 1500);
        };
        const at = `127.0.0.1:${wire.port}`;
        const { code, stderr } = await kubenodeImport([at, '--name', machine.name, ...fingerprintFor(machine)], { json: false, seen });
        expect({ code, stderr }).toMatchObject({ code: 0 });
        expect(isCut).toBe(true);
      } finally {
        await wire.close();
        await gone(machine.name);
        await plain(machine);
      }
    },
  );
});

describe('a machine that cannot be imported is left as it is, and the message gives the reason:', () => {
  const fails = async (reason: string, args: readonly string[], calling?: Calling): Promise<ImportResult | undefined> => {
    const { code, results, stderr } = await kubenodeImport(args, calling);
    expect({ code, results, stderr }).toMatchObject({ code: 1, results: [{ state: 'Failed', reason }] });
    expect(results[0]?.next).toBeDefined();
    return results[0];
  };
  const untouched = async (): Promise<void> => {
    expect((await other.run(['ls', '/opt/kubenode', '/etc/kubenode'])).stdout).toBe('');
    expect(await machineNow(other.name)).toBeUndefined();
  };

  it('its host key is not known', async () => {
    const result = await fails('HostKeyUnknown', [other.address], { knownHosts: join(rig.folder, 'none') });
    expect(result?.next).toContain(fingerprintOf(other.hostKey));
    await untouched();
  });

  it('shows another host key than the one that was given', async () => {
    await fails('HostKeyChanged', [other.address, ...fingerprintFor(machine)], { knownHosts: join(rig.folder, 'none') });
    await untouched();
  });

  it('its host key has changed since it was confirmed', async () => {
    const knownHosts = join(rig.folder, 'changed');
    writeFileSync(knownHosts, `[${other.address}]:22 ${machine.hostKey}\n`);
    await fails('HostKeyChanged', [other.address], { knownHosts });
    await untouched();
  });

  it('asks for a password', async () => {
    const stranger = join(rig.folder, 'stranger');
    await command(['ssh-keygen', '-q', '-t', 'ed25519', '-N', '', '-f', stranger]);
    await other.ok(['sh', '-c', 'echo "PasswordAuthentication yes" >/etc/ssh/sshd_config.d/p.conf; systemctl reload ssh']);
    await fails('PasswordAsked', [other.address, ...fingerprintFor(other)], { identity: stranger });
    await untouched();
  });

  it('its user may not become root without a password; one who may imports it', async () => {
    const add =
      'useradd -m -s /bin/bash admin && install -d -m 700 -o admin ~admin/.ssh && install -m 600 -o admin /root/.ssh/authorized_keys ~admin/.ssh/';
    await other.ok(['bash', '-c', add]);
    await fails('SudoRefused', [other.address, '--user', 'admin']);
    await untouched();
    await other.ok(['sh', '-c', 'echo "admin ALL=(ALL) NOPASSWD: ALL" >/etc/sudoers.d/admin']);
    expect((await kubenodeImport([`admin@${other.address}`])).results).toMatchObject([{ state: 'Imported' }]);
    await gone(other.name);
    await plain(other);
  });

  it('has no room', async () => {
    await other.ok(['mount', '-t', 'tmpfs', '-o', 'size=64m', 'tmpfs', '/opt']);
    expect((await fails('NoSpace', [other.address]))?.message).toContain('/opt has');
    await untouched();
    await other.ok(['umount', '/opt']);
  });

  it('its disk is read-only', async () => {
    await other.ok(['mount', '-t', 'tmpfs', '-o', 'ro', 'tmpfs', '/etc/systemd']);
    await other.ok(['mount', '--bind', '-o', 'ro', '/etc', '/etc']).catch(() => undefined);
    await other.ok(['mount', '-o', 'remount,bind,ro', '/etc']);
    await fails('ReadOnly', [other.address]);
    await other.ok(['sh', '-c', 'umount -R /etc || umount -l /etc']);
    await other.run(['sh', '-c', 'umount -l /etc/systemd']);
    await untouched();
  });

  it('cannot reach the API server', async () => {
    const { port } = new URL(plane.connection.server);
    await other.ok(['iptables', '-A', 'OUTPUT', '-p', 'tcp', '--dport', port, '-j', 'REJECT']);
    await fails('NoRoute', [other.address]);
    await other.ok(['iptables', '-F', 'OUTPUT']);
    await untouched();
  });

  it('a foreign kubelet runs there', async () => {
    await other.ok(['sh', '-c', 'cp /bin/sleep /usr/local/bin/kubelet; systemd-run --unit=old-kubelet /usr/local/bin/kubelet 1000']);
    await fails('KubeletPresent', [other.address]);
    await other.ok(['systemctl', 'stop', 'old-kubelet']);
    await untouched();
  });

  it('the agent of another cell is there', async () => {
    await other.ok(['mkdir', '-p', '/etc/kubenode']);
    const file = { server: 'https://10.9.9.9:6443', machine: { namespace: 'web', name: 'elsewhere', uid: 'x-1' } };
    writeFileSync(join(other.disk, 'etc/kubenode/bootstrap.json'), JSON.stringify(file, undefined, 2));
    expect((await fails('OtherMachine', [other.address]))?.message).toContain('another cell');
    expect(await machineNow(other.name)).toBeUndefined();
    await other.ok(['rm', '-rf', '/etc/kubenode']);
  });

  it('another Machine has its name', async () => {
    await kubenodeImport([machine.address]);
    await fails('NameTaken', [other.address, '--name', machine.name]);
    await untouched();
    await gone(machine.name);
    await plain(machine);
  });

  it('nothing listens there; others of the same call are imported all the same', async () => {
    const file = join(rig.folder, 'machines.txt');
    writeFileSync(file, `# two\n${machine.address}\n${other.address}:2 fingerprint=${fingerprintOf(other.hostKey)}\n${other.address}\n`);
    const { code, results } = await kubenodeImport(['--hosts', file]);
    expect(code).toBe(1);
    expect(results).toMatchObject([{ state: 'Imported' }, { state: 'Failed', reason: 'HostUnreachable' }, { state: 'Imported' }]);
    for (const each of [machine, other]) {
      await gone(each.name);
      await plain(each);
    }
  });
});
