import { X509Certificate } from 'node:crypto';
import { beforeEach, describe, expect, it } from 'vitest';
import { SIGNERS } from '../../api/admission.ts';
import { CertificateSigningRequests, Namespaces, Nodes, ServiceAccounts } from '../../api/builtin.ts';
import { Disk } from '../../agent/testing/inodes.ts';
import { agentServiceAccountName } from '../../api/identity.ts';
import { API_VERSION } from '../../api/kind.ts';
import { Machines } from '../../api/machine.ts';
import { createClient } from '../../kube/http-client.ts';
import { openAdmission } from './admission.ts';
import { endOfHold, readHold, writeHold } from './holds.ts';
import { stateOf } from './requests.ts';
import { base64, pkcs10 } from './testing/requests.ts';
import { KEY, openWorld, requestsOf, type Agent, type IdentityWorld } from './testing/world.ts';

const HOUR = 3_600_000;
const AGENT = 'kubenode:machine:web:a';
const STAND_IN = 'system:serviceaccount:web:kubenode-agent-a';

let world: IdentityWorld;
beforeEach(async () => {
  world = await openWorld();
  return () => world.close();
});

const admitted = (agent: Agent, as = AGENT): Promise<true> => world.until(`the agent is ${as}`, async () => (await agent.whoIs()) === as);
const bootstrap = async () => (await world.machine()).status?.bootstrap;
const condition = async () => (await world.machine()).status?.conditions?.find(({ type }) => type === 'Admitted');
const logged = (agent: Agent, text: string): boolean => agent.log.lines.some(({ message }) => message.includes(text));

describe('an agent', () => {
  it('is admitted with its token and acts as its machine from then on', async () => {
    await world.make();
    world.lead();
    const agent = world.start();
    await admitted(agent);
    const [request] = await requestsOf(world);
    expect(await bootstrap()).toMatchObject({ epoch: 1, csrUID: request?.metadata.uid, by: 'Certificate' });
    expect(await condition()).toMatchObject({ status: 'True', reason: 'ClientCertificate' });
    expect(world.events).toMatchObject([{ reason: 'Admitted' }]);
    // Within the second that a person would not notice.
    expect(world.requests.filter((each) => each.includes('certificatesigningrequests')).length).toBeLessThan(10);
  });

  it('renews at two thirds of its life with another key, and goes on so for weeks', async () => {
    await world.make();
    world.lead();
    const agent = world.start();
    await admitted(agent);
    await world.editStatus({ agent: { version: '1', apiLevel: 1, bootID: 'b', os: 'linux', arch: 'amd64' } });
    const first = (await bootstrap())?.keySHA256;
    await world.clock.advance(14 * HOUR);
    expect((await bootstrap())?.keySHA256).toBe(first);
    await world.until('the renewal was made', async () => (await bootstrap())?.keySHA256 !== first, 4 * HOUR);
    expect((await bootstrap())?.formerKeySHA256).toBe(first);
    for (let day = 0; day < 2; day++) {
      await world.pass(24 * HOUR);
      expect(await agent.whoIs()).toBe(AGENT);
    }
    expect(await bootstrap()).toMatchObject({ epoch: 1 });
    expect(world.events.filter(({ type }) => type === 'Warning')).toEqual([]);
  });

  it('started again goes on with what it has, and asks nothing', async () => {
    await world.make();
    world.lead();
    const first = world.start();
    await admitted(first);
    await first.stop();
    const before = world.requests.length;
    const second = world.start();
    expect(await second.whoIs()).toBe(AGENT);
    expect(world.requests.length).toBe(before + 1);
  });

  it('whose cell has no leader waits, and is admitted when there is one', async () => {
    await world.make();
    const agent = world.start();
    await world.clock.advance(HOUR / 4);
    world.lead();
    await admitted(agent);
    expect((await requestsOf(world)).length).toBe(1);
  });
});

describe('G1: a leader that dies between recording and approving', () => {
  it('is followed by one that approves the same request, and no other', async () => {
    await world.make();
    let approvals = 0;
    world.onWrite = (request) => {
      if (request.path.endsWith('/approval') && approvals++ === 0) throw new Error('the leader died');
    };
    const dying = world.lead();
    const agent = world.start();
    await world.until('the request is recorded', async () => (await bootstrap())?.csrUID !== undefined);
    await dying.stop();
    const recorded = await bootstrap();
    const [request] = await requestsOf(world);
    expect([recorded?.csrUID, request?.status?.conditions ?? []]).toEqual([request?.metadata.uid, []]);
    world.lead();
    await admitted(agent);
    expect(await bootstrap()).toEqual(recorded);
  });

  it('has recorded nothing else that could be approved: the API itself refuses a second request in an epoch', async () => {
    await world.make();
    world.lead();
    await admitted(world.start());
    const write = world.editStatus({ bootstrap: { csrUID: 'another' } });
    await expect(write).rejects.toThrow('one request is admitted in an epoch');
    await expect(world.editStatus({ bootstrap: { epoch: 0 } })).rejects.toThrow(/epoch/);
  });
});

describe('a token', () => {
  it('that admitted an agent admits no second one', async () => {
    await world.make();
    world.lead();
    await admitted(world.start());
    world.disk = new Disk();
    const second = world.start();
    await world.until('its log has the reason', () => logged(second, 'TokenUsed'));
    expect(await second.whoIs()).toContain('not admitted');
    expect(world.events.filter(({ type }) => type === 'Warning')).toMatchObject([{ reason: 'CertificateDenied' }]);
  });

  it('that was never used is replaced in its epoch, and by one of the next only where that is asked for', async () => {
    const { uid } = (await world.machine()).metadata;
    const { signal } = new AbortController();
    const epochs: number[] = [];
    for (const again of [undefined, undefined, false, true, undefined]) {
      const opened = await openAdmission(world.client, { ...KEY, uid }, { signal, ...(again === undefined ? {} : { again }) });
      epochs.push(opened.epoch);
    }
    expect(epochs).toEqual([1, 1, 1, 2, 2]);
  });

  it('that ran out before the node booted is replaced, in the same epoch', async () => {
    await world.make();
    world.lead();
    await world.clock.advance(5 * HOUR);
    const agent = world.start();
    await admitted(agent);
    expect(await bootstrap()).toMatchObject({ epoch: 1 });
  });

  it('that ran out is nothing, and is reported as such; the node is kept', async () => {
    await world.make();
    await world.clock.advance(5 * HOUR);
    const agent = world.start();
    await world.until('it reports that', () => logged(agent, 'the bootstrap token is not accepted'));
    expect(await agent.whoIs()).toContain('the node is kept as it is');
  });
});

describe('a request that is denied', () => {
  it('by a person is reported on the Machine, with their words, until another token admits', async () => {
    await world.make();
    const agent = world.start();
    const request = await world.until('it asks', async () => (await requestsOf(world))[0]);
    const denied = { type: 'Denied', status: 'True', reason: 'NotNow', message: 'ask me on Monday' };
    const status = { ...request.status, conditions: [denied] };
    await world.client.update(CertificateSigningRequests, { ...request, status }, { subresource: 'approval' });
    world.lead();
    await world.until('the Machine reports it', async () => (await condition())?.reason === 'Denied');
    expect(await condition()).toMatchObject({
      status: 'False',
      message: `request ${request.metadata.name} was denied: NotNow: ask me on Monday`,
    });
    expect(world.events).toMatchObject([{ type: 'Warning', reason: 'CertificateDenied' }]);
    expect(logged(agent, 'the agent is not admitted: NotNow: ask me on Monday; the node is kept as it is')).toBe(true);
    // The token is replaced when it has run out unused.
    await world.clock.advance(5 * HOUR);
    await admitted(agent);
    expect(await condition()).toMatchObject({ status: 'True', reason: 'ClientCertificate' });
  });

  it('by a person gets an Event once it is written down, also where the first write is lost', async () => {
    await world.make();
    world.start();
    const request = await world.until('it asks', async () => (await requestsOf(world))[0]);
    const denied = { type: 'Denied', status: 'True', reason: 'NotNow', message: 'ask me on Monday' };
    const status = { ...request.status, conditions: [denied] };
    await world.client.update(CertificateSigningRequests, { ...request, status }, { subresource: 'approval' });
    const written: number[] = [];
    world.onWrite = ({ path }) => {
      if (!path.endsWith('/machines/a/status')) return;
      written.push(world.events.length);
      if (written.length === 1) throw new Error('the write is lost');
    };
    world.lead();
    await world.until('the Machine reports it', async () => (await condition())?.reason === 'Denied');
    await world.until('there is an Event', () => world.events.length > 0);
    expect([written, world.events.map(({ reason }) => reason)]).toEqual([[0, 0], ['CertificateDenied']]);
  });

  it('after another was admitted changes nothing that the Machine reports', async () => {
    await world.make();
    world.lead();
    await admitted(world.start());
    const before = await condition();
    world.disk = new Disk();
    const second = world.start();
    await world.until('its log has the reason', () => logged(second, 'TokenUsed'));
    expect(await condition()).toEqual(before);
    expect(world.events.filter(({ reason }) => reason === 'CertificateDenied')).toHaveLength(1);
  });
});

describe('after an outage that was longer than a certificate lasts', () => {
  it('a node gets a new bootstrap from its provider, and is admitted in the next epoch', async () => {
    await world.make();
    const leader = world.lead();
    const agent = world.start();
    await admitted(agent);
    await world.editStatus({ agent: { version: '1', apiLevel: 1, bootID: 'b', os: 'linux', arch: 'amd64' } });
    await Promise.all([leader.stop(), agent.stop()]);
    await world.clock.advance(72 * HOUR);
    const returned = world.start();
    await world.until('it reports that it cannot go on', () => logged(returned, 'admit it again'));
    expect(await returned.whoIs()).toBe(401);
    world.lead();
    await admitted(returned);
    expect(await bootstrap()).toMatchObject({ epoch: 2 });
    expect(world.events.map(({ reason }) => reason)).toContain('BootstrapRenewed');
  });
});

describe('G2: a cluster whose signer', () => {
  it('does not answer gives its agents tokens instead, reports that, and renews them', async () => {
    await world.close();
    world = await openWorld({ signs: false });
    await world.make();
    world.lead();
    const agent = world.start();
    await admitted(agent, STAND_IN);
    await world.editStatus({ agent: { version: '1', apiLevel: 1, bootID: 'b', os: 'linux', arch: 'amd64' } });
    expect(await condition()).toMatchObject({
      status: 'True',
      reason: 'ServiceAccountToken',
      message: expect.stringContaining('signed nothing within 60 s'),
    });
    expect(world.events.filter(({ type }) => type === 'Warning')).toMatchObject([{ reason: 'SignerRefused' }]);
    for (let day = 0; day < 2; day++) {
      await world.pass(24 * HOUR);
      expect(await agent.whoIs()).toBe(STAND_IN);
    }
    expect(await bootstrap()).toMatchObject({ epoch: 1, by: 'Token' });
  });

  it.each([
    [
      'its reason and message',
      { reason: 'SignerValidationFailure', message: 'not here' },
      'it refused: SignerValidationFailure: not here)',
    ],
    ['its reason alone', { reason: 'SignerValidationFailure' }, 'it refused: SignerValidationFailure)'],
  ])('refuses is reported by %s, at once', async (_what, given, expected) => {
    await world.close();
    world = await openWorld({ signs: false });
    await world.make();
    world.lead();
    const agent = world.start();
    const request = await world.until('it is approved', async () =>
      (await requestsOf(world)).find(({ status }) => status?.conditions !== undefined),
    );
    const failed = { type: 'Failed', status: 'True', ...given };
    const status = { ...request.status, conditions: [...(request.status?.conditions ?? []), failed] };
    await world.client.update(CertificateSigningRequests, { ...request, status }, { subresource: 'status' });
    await admitted(agent, STAND_IN);
    expect((await condition())?.message).toContain(expected);
  });

  it('gives no token to a machine that has a certificate', async () => {
    await world.make();
    world.lead();
    await admitted(world.start());
    expect(await world.client.find(ServiceAccounts, { namespace: 'web', name: agentServiceAccountName('a') })).toBeUndefined();
  });
});

describe('a Machine that is deleted', () => {
  it('renews nothing any more', async () => {
    await world.make();
    world.lead();
    const agent = world.start();
    await admitted(agent);
    await world.client.delete(Machines, KEY);
    await world.until('the renewal is denied', () => logged(agent, 'the renewal of this identity is denied'), 20 * HOUR);
  });
});

describe('security 3, G4a: a Machine that is named like a Node', () => {
  /** Asks for the Node's client certificate, as the agent of Machine web/a does for its kubelet. */
  async function askForNode(agent: Agent, name: string, expirationSeconds = 3600) {
    const { pem } = await pkcs10({ subject: [{ O: ['system:nodes'] }, { CN: ['system:node:a'] }] });
    return await createClient(agent.identity.transport).create(CertificateSigningRequests, {
      apiVersion: 'certificates.k8s.io/v1',
      kind: 'CertificateSigningRequest',
      metadata: { name },
      spec: {
        request: base64(pem),
        signerName: SIGNERS.kubeletClient,
        usages: ['client auth', 'digital signature'],
        expirationSeconds,
      },
    });
  }
  const judged = async (name: string) =>
    await world.until('the request is judged', async () => {
      const request = await world.client.get(CertificateSigningRequests, { name });
      return stateOf(request) === 'Open' ? undefined : request;
    });

  it('that is not its own does not become it', async () => {
    await world.make();
    await world.client.create(Nodes, {
      apiVersion: 'v1',
      kind: 'Node',
      metadata: { name: 'a' },
      spec: { providerID: 'cloud://control-plane' },
    });
    world.lead();
    const agent = world.start();
    await admitted(agent);
    await askForNode(agent, 'theft');
    const request = await judged('theft');
    expect(stateOf(request)).toBe('Denied');
    expect(request.status?.conditions).toMatchObject([{ type: 'Denied', reason: 'NodeNotOfMachine' }]);
    expect(world.events).toContainEqual(expect.objectContaining({ type: 'Warning', reason: 'CertificateDenied' }));
  });

  it('shares its name with a Machine of another pool: neither becomes the Node', async () => {
    await world.make();
    world.lead();
    const agent = world.start();
    await admitted(agent);
    await world.client.create(Namespaces, { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'db' } });
    const spec = { provider: { name: 'fake' } };
    await world.client.create(Machines, { apiVersion: API_VERSION, kind: 'Machine', metadata: { namespace: 'db', name: 'a' }, spec });
    await askForNode(agent, 'twin');
    expect((await judged('twin')).status?.conditions).toMatchObject([{ type: 'Denied', reason: 'NodeAmbiguous' }]);
  });

  it('has a name that another pool got a certificate for: not before the last such certificate ended', async () => {
    await world.make();
    world.lead();
    const agent = world.start();
    await admitted(agent);
    await askForNode(agent, 'first', 7200);
    const first = await judged('first');
    expect(stateOf(first)).toMatch(/Approved|Issued/);
    const hold = async () => (await readHold(world.client, 'kubenode-system', 'a', new AbortController().signal)) ?? expect.fail('no hold');
    // What was signed replaces what was asked for, and is of the signer's own making.
    const held = await world.until('its end is recorded', async () => {
      const now = await hold();
      return now.ends['issued'] === undefined ? undefined : now;
    });
    expect(held).toMatchObject({ pool: 'web', ends: { issued: expect.any(String) } });
    expect(Object.keys(held.ends)).toEqual(['issued']);
    const { status } = await world.client.get(CertificateSigningRequests, { name: 'first' });
    const { validTo } = new X509Certificate(Buffer.from(status?.certificate ?? '', 'base64'));
    expect(endOfHold(held)).toBe(Date.parse(validTo));
    // As if another pool's Machine of this name had got it, and was deleted.
    const { lease } = held;
    await writeHold(
      world.client,
      { namespace: 'kubenode-system', node: 'a' },
      held,
      { ...held, pool: 'evil' },
      new AbortController().signal,
    );
    await askForNode(agent, 'second');
    const second = (await judged('second')).status?.conditions;
    expect(second).toMatchObject([{ type: 'Denied', reason: 'NodeNameHeld', message: expect.stringContaining(lease.metadata.name) }]);
    await world.pass(endOfHold(held) - world.clock.now() + 61_000);
    await admitted(agent);
    await askForNode(agent, 'third');
    expect(stateOf(await judged('third'))).toMatch(/Approved|Issued/);
    expect(await hold()).toMatchObject({ pool: 'web' });
  });

  /** Asks as the node itself, with a certificate for that name that a former machine kept. */
  async function askAsNode(name: string, serving = false, names = ['a']) {
    const { pem } = await pkcs10({
      subject: [{ O: ['system:nodes'] }, { CN: ['system:node:a'] }],
      ...(serving ? { names: names.map((value) => ({ type: 'dns' as const, value })) } : {}),
    });
    const user = { name: 'system:node:a', groups: ['system:nodes', 'system:authenticated'] };
    return await createClient((request) => world.cluster.handleAs(user, request)).create(CertificateSigningRequests, {
      apiVersion: 'certificates.k8s.io/v1',
      kind: 'CertificateSigningRequest',
      metadata: { name },
      spec: {
        request: base64(pem),
        signerName: serving ? SIGNERS.kubeletServing : SIGNERS.kubeletClient,
        usages: [serving ? 'server auth' : 'client auth', 'digital signature'],
      },
    });
  }
  const holdOf = (pool: string, endMs: number, ends = { issued: new Date(endMs).toISOString() }) =>
    writeHold(
      world.client,
      { namespace: 'kubenode-system', node: 'a' },
      undefined,
      { pool, ends, since: undefined },
      new AbortController().signal,
    );
  /** Its agent asks for the Node, which registers, and the Machine claims it. */
  async function join(agent: Agent, request: string): Promise<void> {
    await askForNode(agent, request);
    expect(stateOf(await judged(request))).toMatch(/Approved|Issued/);
    await world.clock.advance(1000);
    const { providerID = '' } = (await world.machine()).status ?? {};
    const node = await world.client.create(Nodes, { apiVersion: 'v1', kind: 'Node', metadata: { name: 'a' }, spec: { providerID } });
    await world.editStatus({ nodeRef: { name: 'a', uid: node.metadata.uid }, addresses: [] });
  }

  it('security 11, G4g: a request of the node that came before the Node was claimed is never approved', async () => {
    await world.make();
    const endMs = world.clock.now() + 600_000;
    await holdOf('evil', endMs);
    const leader = world.lead();
    const agent = world.start();
    await admitted(agent);
    await askAsNode('early');
    await askAsNode('early-serving', true);
    await world.until('they are denied', async () => {
      const both = await Promise.all(['early', 'early-serving'].map((name) => world.client.get(CertificateSigningRequests, { name })));
      return both.every((request) => stateOf(request) === 'Denied');
    });
    // No leader judges these before all other evidence shows that they are the Node's.
    await leader.stop();
    await askAsNode('late');
    await askAsNode('late-serving', true);
    await world.pass(endMs - world.clock.now() + 600_000);
    world.lead();
    await join(agent, 'own');
    await world.pass(1_200_000);
    for (const name of ['early', 'early-serving', 'late', 'late-serving'])
      expect([name, stateOf(await world.client.get(CertificateSigningRequests, { name }))]).toEqual([name, 'Denied']);
    // Who asks again is answered for what is so now.
    await askAsNode('renewal');
    expect((await judged('renewal')).status?.conditions).toMatchObject([{ type: 'Approved', reason: 'NodeOfMachine' }]);
    await askAsNode('serving', true);
    expect((await judged('serving')).status?.conditions).toMatchObject([{ type: 'Approved', reason: 'AddressesOfMachine' }]);
  });

  it('G4f: has 16 requests approved that its signer has not signed, and no more until one of them is gone', async () => {
    await world.close();
    world = await openWorld({ signs: false });
    world.lead();
    await world.clock.advance(1000);
    await world.editStatus({ nodeRef: { name: 'a', uid: 'node-a' } });
    const names = Array.from({ length: 20 }, (_, each) => `renewal-${each}`);
    for (const name of names) await askAsNode(name);
    for (const name of names) await judged(name);
    const states = (await requestsOf(world)).map((request) => request.status?.conditions?.[0]?.reason);
    expect(states.filter((reason) => reason === 'NodeOfMachine').length).toBe(16);
    expect(states.filter((reason) => reason === 'TooManyRequests').length).toBe(4);
    const approved = (await requestsOf(world)).find((request) => stateOf(request) === 'Approved') ?? expect.fail('none is approved');
    await world.client.delete(CertificateSigningRequests, approved.metadata);
    await world.clock.advance(1000);
    await askAsNode('again');
    expect((await judged('again')).status?.conditions).toMatchObject([{ reason: 'NodeOfMachine' }]);
  });

  it('G4i: leaves a person four requests of a node, the newest', async () => {
    await world.client.delete(Machines, KEY);
    const spec = { provider: { name: 'ssh', config: { address: '10.0.0.7' } } };
    await world.client.create(Machines, { apiVersion: API_VERSION, kind: 'Machine', metadata: KEY, spec });
    await world.editStatus({ nodeRef: { name: 'a', uid: 'node-a' } });
    world.lead();
    for (let each = 0; each < 12; each++) {
      await askAsNode(`left-${each}`, true, ['a', '10.0.0.7']);
      await world.clock.advance(1000);
    }
    const open = async () =>
      (await requestsOf(world)).filter((request) => stateOf(request) === 'Open').map(({ metadata }) => metadata.name);
    await world.until('the older ones are denied', async () => (await open()).length === 4);
    expect((await open()).toSorted()).toEqual(['left-10', 'left-11', 'left-8', 'left-9']);
  });

  it('gets no certificate whose end is not recorded first', async () => {
    await world.make();
    world.lead();
    const agent = world.start();
    await admitted(agent);
    let lost = 0;
    world.onWrite = ({ method, path }) => {
      if (method === 'POST' && path.includes('/leases') && lost++ < 2) throw new Error('the network is gone');
    };
    await askForNode(agent, 'own');
    await world.until('the second write is lost', () => lost >= 2);
    expect(stateOf(await world.client.get(CertificateSigningRequests, { name: 'own' }))).toBe('Open');
    expect(stateOf(await judged('own'))).toMatch(/Approved|Issued/);
  });

  it.each(['https://a:6443', 'https://a.example:6443'])('or like the host of %s: only as that host it becomes no Node', async (server) => {
    const other = await openWorld({ server });
    try {
      await other.make();
      other.lead();
      const agent = other.start();
      await other.until('the agent is admitted', async () => (await agent.whoIs()) === AGENT);
      await askForNode(agent, 'server');
      const request = await other.until('the request is judged', async () => {
        const found = await other.client.get(CertificateSigningRequests, { name: 'server' });
        return stateOf(found) === 'Open' ? undefined : found;
      });
      const expected = server.includes('example')
        ? { type: 'Approved', reason: 'NodeOfMachine' }
        : { type: 'Denied', reason: 'ServerName' };
      expect(request.status?.conditions).toMatchObject([expected]);
    } finally {
      await other.close();
    }
  });

  it('that its own instance has registered renews it', async () => {
    await world.make();
    const { providerID = '' } = (await world.machine()).status ?? {};
    await world.client.create(Nodes, { apiVersion: 'v1', kind: 'Node', metadata: { name: 'a' }, spec: { providerID } });
    world.lead();
    const agent = world.start();
    await admitted(agent);
    await askForNode(agent, 'own');
    expect((await judged('own')).status?.conditions).toMatchObject([{ type: 'Approved', reason: 'NodeOfMachine' }]);
  });
});
