import { describe, expect, it, test } from 'vitest';
import { SIGNERS } from '../../api/admission.ts';
import type { Node } from '../../api/builtin.ts';
import type { Machine } from '../../api/machine.ts';
import { ANNOTATIONS } from '../../api/names.ts';
import type { Stored } from '../../api/wire.ts';
import type { Asked, RequesterFacts } from './asked.ts';
import { decide } from './decide.ts';
import { nodeFor, nodeOf } from './kubelet.ts';
import { AGENT_USER, asked, BOOTSTRAP_USER, known, machineWith, OPEN, summary, TOKEN_USER, type Made } from './testing/requests.ts';

const WEEK = 7 * 24 * 3600;

describe('G4: a kubelet', () => {
  const subject = [{ O: ['system:nodes'] }, { CN: ['system:node:a'] }];
  const nodeRef = { name: 'a', uid: 'node-a' };
  const addresses = [
    { type: 'InternalIP', address: '10.0.0.1' },
    { type: 'InternalIP', address: '2001:db8::1' },
    { type: 'Hostname', address: 'a.example' },
  ];
  const agent = { username: AGENT_USER, userUID: undefined, groups: ['kubenode:machines'], signerName: SIGNERS.kubeletClient };
  const node = { username: 'system:node:a', userUID: undefined, groups: ['system:nodes'] };
  const owner = machineWith(OPEN, { nodeRef, addresses });
  const twin = { ...machineWith(OPEN), metadata: { ...owner.metadata, namespace: 'db', uid: 'twin' } };
  const nodeWith = (uid: string, providerID: string | undefined): Stored<Node> => ({
    apiVersion: 'v1',
    kind: 'Node',
    metadata: { name: 'a', uid, resourceVersion: '1', creationTimestamp: '2026-11-20T12:00:00Z' },
    spec: providerID === undefined ? {} : { providerID },
  });
  const held = (pool: string, issued: string, since?: string) => ({
    pool,
    ends: { 'csr-0': '2026-11-20T11:00:00Z', issued },
    since,
    unsigned: [],
  });
  const mine = known(OPEN, { machine: machineWith(OPEN), ofNode: [machineWith(OPEN)] });
  const claimed = known(OPEN, { machine: undefined, ofNode: [owner] });
  const registered = { ...nodeWith('node-a', undefined) };
  registered.metadata = { ...registered.metadata, creationTimestamp: '2026-11-20T12:00:01Z' };
  const given = { ...registered, metadata: { ...registered.metadata, annotations: { [ANNOTATIONS.givenBack]: 'web/a' } } };
  const uids = (count: number): string[] => Array.from({ length: count }, (_, each) => `uid-${each}`);
  const LATER_MS = Date.parse('2026-11-20T12:20:00Z');
  const imported = { ...claimed, ofNode: [{ ...owner, spec: { provider: { name: 'ssh', config: { address: '10.0.0.1' } } } }] };
  const client = { ...node, signerName: SIGNERS.kubeletClient };
  const serving = { ...node, signerName: SIGNERS.kubeletServing, usages: ['server auth', 'digital signature'] };
  const own = [
    { type: 'dns', value: 'a.example' },
    { type: 'ip', value: '10.0.0.1' },
    { type: 'ip', value: '2001:db8:0::1' },
  ] as const;

  const deleting = (machine: typeof owner) => ({
    ...machine,
    metadata: { ...machine.metadata, deletionTimestamp: '2026-11-20T12:00:00Z' },
  });
  const table: [string, Made, Partial<Asked>, RequesterFacts, string][] = [
    ["its machine's agent asks for the Node of its machine", { subject }, agent, mine, 'Approve NodeOfMachine'],
    [
      'with key encipherment',
      { subject },
      { ...agent, usages: ['client auth', 'key encipherment', 'digital signature'] },
      mine,
      'Approve NodeOfMachine',
    ],
    ['the node renews itself', { subject }, client, claimed, 'Approve NodeOfMachine'],
    ['an RSA key', { subject, algorithm: 'RSA' }, client, claimed, 'Approve NodeOfMachine'],
    ['a short key', { subject, algorithm: 'RSA-1024' }, client, claimed, 'Deny RequestInvalid'],
    ['another Node', { subject: [{ O: ['system:nodes'] }, { CN: ['system:node:b'] }] }, agent, mine, 'Deny RequestInvalid'],
    ['another Node, by a node', { subject: [{ O: ['system:nodes'] }, { CN: ['system:node:b'] }] }, client, claimed, 'Deny RequestInvalid'],
    ...['..', 'a/b', '%2e%2e'].map((name): [string, Made, Partial<Asked>, RequesterFacts, string] => [
      `G4h: a Node that cannot be (${name})`,
      { subject: [{ O: ['system:nodes'] }, { CN: [`system:node:${name}`] }] },
      agent,
      mine,
      'Deny RequestInvalid',
    ]),
    ['G4h: by a node that cannot be', { subject }, { ...client, username: 'system:node:a/b' }, claimed, 'Leave'],
    ['masters, too', { subject: [...subject, { O: ['system:masters'] }] }, agent, mine, 'Deny RequestInvalid'],
    ['a SAN', { subject, names: [{ type: 'dns', value: 'a.example' }] }, agent, mine, 'Deny RequestInvalid'],
    ['serving by its client', { subject }, { ...agent, usages: ['server auth', 'digital signature'] }, mine, 'Deny RequestInvalid'],
    ['a bootstrap token', { subject }, { signerName: SIGNERS.kubeletClient }, mine, 'Deny ForeignRequester'],
    [
      'G2a: the token of its agent, where that stands in for a certificate',
      { subject },
      { ...agent, username: TOKEN_USER, userUID: 'account-9' },
      { ...mine, machine: machineWith({ ...OPEN, by: 'Token' }) },
      'Approve NodeOfMachine',
    ],
    [
      'G2a: the token of its agent, while a certificate is its identity: nothing that was granted',
      { subject },
      { ...agent, username: TOKEN_USER, userUID: 'account-9' },
      { ...mine, machine: machineWith({ ...OPEN, by: 'Certificate' }) },
      'Deny NotByToken',
    ],
    ['the token of an agent that was never admitted', { subject }, { ...agent, username: TOKEN_USER }, mine, 'Deny NotByToken'],
    ['an agent outside its group', { subject }, { ...agent, groups: ['system:authenticated'] }, mine, 'Deny ForeignRequester'],
    ['an agent whose Machine is gone', { subject }, agent, { ...mine, machine: undefined }, 'Deny NoMachine'],
    ['a token whose Machine is gone', { subject }, { ...agent, username: TOKEN_USER }, { ...mine, machine: undefined }, 'Leave'],
    ['a bootstrap token of another account', { subject }, { signerName: SIGNERS.kubeletClient, userUID: 'account-9' }, mine, 'Leave'],
    ['a request that cannot be read', { subject }, { ...agent, request: { unreadable: 'torn' } }, mine, 'Deny RequestUnreadable'],
    [
      'a Node that another Machine has',
      { subject },
      agent,
      {
        ...mine,
        ofNode: [machineWith(OPEN), { ...machineWith(OPEN, { nodeRef }), metadata: { ...owner.metadata, namespace: 'db', uid: 'other' } }],
      },
      'Deny NodeOfAnother',
    ],
    [
      'two Machines claim it',
      { subject },
      client,
      { ...claimed, ofNode: [owner, { ...owner, metadata: { ...owner.metadata, namespace: 'db' } }] },
      'Deny NodeAmbiguous',
    ],
    [
      'G4: a Node that exists and is not proven to be of this Machine',
      { subject },
      agent,
      { ...mine, node: nodeWith('cp', undefined) },
      'Deny NodeNotOfMachine',
    ],
    [
      'G4: a Node with the providerID of another instance',
      { subject },
      agent,
      { ...mine, machine: machineWith(OPEN, { providerID: 'cloud://1' }), node: nodeWith('cp', 'cloud://2') },
      'Deny NodeNotOfMachine',
    ],
    [
      'G4: a Node without providerID, by a Machine without one',
      { subject },
      agent,
      { ...mine, node: nodeWith('cp', '') },
      'Deny NodeNotOfMachine',
    ],
    [
      'G4: a Node that was made again since this Machine claimed it',
      { subject },
      agent,
      { ...mine, machine: machineWith(OPEN, { nodeRef }), node: nodeWith('node-b', undefined) },
      'Deny NodeNotOfMachine',
    ],
    [
      'G4: the same, though it is on the same instance: a claim is of one Node',
      { subject },
      agent,
      { ...mine, machine: machineWith(OPEN, { nodeRef, providerID: 'cloud://1' }), node: nodeWith('node-b', 'cloud://1') },
      'Deny NodeNotOfMachine',
    ],
    ['a person, also where the Machine is known', { subject }, { ...agent, username: 'alice' }, mine, 'Leave'],
    ['a node whose Machine is being deleted', { subject }, client, { ...claimed, ofNode: [deleting(owner)] }, 'Deny MachineDeleting'],
    [
      'an agent whose Machine is being deleted',
      { subject },
      agent,
      { ...mine, machine: deleting(machineWith(OPEN)) },
      'Deny MachineDeleting',
    ],
    ['an extension', { subject, extensions: ['2.5.29.19'] }, agent, mine, 'Deny RequestInvalid'],
    ['an attribute of the subject more', { subject: [...subject, { OU: ['x'] }] }, agent, mine, 'Deny RequestInvalid'],
    ['no group', { subject: subject.slice(1) }, agent, mine, 'Deny RequestInvalid'],
    ['a usage more', { subject }, { ...agent, usages: ['client auth', 'digital signature', 'server auth'] }, mine, 'Deny RequestInvalid'],
    ['serving, with an extension', { subject, names: [...own], extensions: ['2.5.29.19'] }, serving, claimed, 'Deny RequestInvalid'],
    ['serving, for an e-mail address', { subject, names: [...own, { type: 'email', value: 'a' }] }, serving, claimed, 'Deny NameOfAnother'],
    [
      'G4c: serving of an imported machine, for its Node name and another',
      {
        subject,
        names: [
          { type: 'dns', value: 'a' },
          { type: 'ip', value: '10.0.0.1' },
        ],
      },
      serving,
      imported,
      'Leave',
    ],
    ['G4: the same, by the node itself', { subject }, client, { ...claimed, node: nodeWith('node-b', undefined) }, 'Deny NodeNotOfMachine'],
    [
      'G4: a Node with the providerID of this Machine',
      { subject },
      agent,
      { ...mine, machine: machineWith(OPEN, { providerID: 'cloud://1' }), node: nodeWith('cp', 'cloud://1') },
      'Approve NodeOfMachine',
    ],
    [
      'G4: the Node that this Machine has claimed',
      { subject },
      agent,
      { ...mine, machine: machineWith(OPEN, { nodeRef }), node: nodeWith('node-a', undefined) },
      'Approve NodeOfMachine',
    ],
    [
      'G4: two Machines of one name in two pools, before there is a Node',
      { subject },
      agent,
      { ...mine, ofNode: [machineWith(OPEN), twin] },
      'Deny NodeAmbiguous',
    ],
    [
      'G4: two Machines of one name, and this one has proved its Node',
      { subject },
      agent,
      {
        ...mine,
        machine: machineWith(OPEN, { nodeRef }),
        ofNode: [machineWith(OPEN, { nodeRef }), twin],
        node: nodeWith('node-a', undefined),
      },
      'Approve NodeOfMachine',
    ],
    [
      'G4: two Machines of one name, and this one has claimed the Node that is absent now',
      { subject },
      agent,
      { ...mine, machine: machineWith(OPEN, { nodeRef }), ofNode: [machineWith(OPEN, { nodeRef }), twin] },
      'Approve NodeOfMachine',
    ],
    [
      'G4: the same, by the other one',
      { subject },
      agent,
      { ...mine, machine: machineWith(OPEN), ofNode: [machineWith(OPEN), { ...twin, status: { ...twin.status, nodeRef } }] },
      'Deny NodeOfAnother',
    ],
    ['G4e: its agent asks for no end', { subject }, { ...agent, expirationSeconds: undefined }, mine, 'Deny RequestInvalid'],
    ['G4e: its agent asks for a second too long', { subject }, { ...agent, expirationSeconds: WEEK + 1 }, mine, 'Deny RequestInvalid'],
    ['G4e: its agent asks for all that it may', { subject }, { ...agent, expirationSeconds: WEEK }, mine, 'Approve NodeOfMachine'],
    ['G4e: its agent asks for too little', { subject }, { ...agent, expirationSeconds: 599 }, mine, 'Deny RequestInvalid'],
    [
      'G4e: a kubelet asks for no lifetime, as all of them do',
      { subject },
      { ...client, expirationSeconds: undefined },
      claimed,
      'Approve NodeOfMachine',
    ],
    ['G4e: a node asks for too long', { subject }, { ...client, expirationSeconds: WEEK + 1 }, claimed, 'Deny RequestInvalid'],
    [
      'G4e: a node asks for a serving certificate for too long',
      { subject, names: [...own] },
      { ...serving, expirationSeconds: WEEK + 1 },
      claimed,
      'Deny RequestInvalid',
    ],
    [
      'G4f: a Node whose name another pool had a certificate for',
      { subject },
      agent,
      { ...mine, hold: held('evil', '2026-11-20T12:00:01Z') },
      'Deny NodeNameHeld',
    ],
    ['G4f: the same, by the node', { subject }, client, { ...claimed, hold: held('evil', '2026-11-20T12:00:01Z') }, 'Deny NodeNameHeld'],
    [
      'G4f: the same, for serving',
      { subject, names: [...own] },
      serving,
      { ...claimed, hold: held('evil', '2026-11-20T12:00:01Z') },
      'Deny NodeNameHeld',
    ],
    [
      'G4f: after the last of these ended',
      { subject },
      agent,
      { ...mine, hold: held('evil', '2026-11-20T11:58:59Z') },
      'Approve NodeOfMachine',
    ],
    [
      'G4f: a minute after it ended an API server may still take it',
      { subject },
      agent,
      { ...mine, hold: held('evil', '2026-11-20T11:59:00Z') },
      'Deny NodeNameHeld',
    ],
    ['G4g: made before the Machine', { subject }, { ...agent, createdAt: '2026-11-20T11:59:59Z' }, mine, 'Deny RequestOutdated'],
    [
      'G4g: by the node, made before the Machine that claims it now',
      { subject },
      { ...client, createdAt: '2026-11-20T11:59:59Z' },
      claimed,
      'Deny RequestOutdated',
    ],
    [
      'G4g: by the node, made before the Node registered',
      { subject },
      { ...client, createdAt: '2026-11-20T12:00:00Z' },
      { ...claimed, node: registered },
      'Deny RequestOutdated',
    ],
    [
      'G4g: for serving, made before the Node registered',
      { subject, names: [...own] },
      { ...serving, createdAt: '2026-11-20T12:00:00Z' },
      { ...claimed, node: registered },
      'Deny RequestOutdated',
    ],
    [
      'G4g: by the node, made since it registered',
      { subject },
      { ...client, createdAt: '2026-11-20T12:00:01Z' },
      { ...claimed, node: registered },
      'Approve NodeOfMachine',
    ],
    [
      "G4g: by the node, made while another pool's certificates were good",
      { subject },
      { ...client, createdAt: '2026-11-20T12:10:59Z' },
      { ...claimed, hold: held('evil', '2026-11-20T12:10:00Z'), nowMs: LATER_MS },
      'Deny RequestOutdated',
    ],
    [
      'G4g: by the agent, the same',
      { subject },
      { ...agent, createdAt: '2026-11-20T12:10:59Z' },
      { ...mine, hold: held('evil', '2026-11-20T12:10:00Z'), nowMs: LATER_MS },
      'Deny RequestOutdated',
    ],
    [
      'G4g: by the node, made after they ended',
      { subject },
      { ...client, createdAt: '2026-11-20T12:11:01Z' },
      { ...claimed, hold: held('evil', '2026-11-20T12:10:00Z'), nowMs: LATER_MS },
      'Approve NodeOfMachine',
    ],
    [
      'G4g: by the node, made before its pool took the name',
      { subject },
      { ...client, createdAt: '2026-11-20T12:10:59Z' },
      { ...claimed, hold: held('web', '2026-11-20T13:00:00Z', '2026-11-20T12:11:00Z'), nowMs: LATER_MS },
      'Deny RequestOutdated',
    ],
    [
      'G4g: by the node, made since its pool took the name',
      { subject },
      { ...client, createdAt: '2026-11-20T12:11:00Z' },
      { ...claimed, hold: held('web', '2026-11-20T13:00:00Z', '2026-11-20T12:11:00Z'), nowMs: LATER_MS },
      'Approve NodeOfMachine',
    ],
    [
      'G4f: more requests than a signer leaves unsigned',
      { subject },
      client,
      { ...claimed, hold: { ...held('web', '2026-11-20T13:00:00Z'), unsigned: uids(16) } },
      'Deny TooManyRequests',
    ],
    [
      'G4f: as many as that',
      { subject },
      client,
      { ...claimed, hold: { ...held('web', '2026-11-20T13:00:00Z'), unsigned: uids(15) } },
      'Approve NodeOfMachine',
    ],
    [
      'G4f: one of these, after a crash',
      { subject },
      client,
      { ...claimed, hold: { ...held('web', '2026-11-20T13:00:00Z'), unsigned: [...uids(15), 'csr-1'] } },
      'Approve NodeOfMachine',
    ],
    ['G4g: of a time that cannot be read', { subject }, { ...client, createdAt: '' }, claimed, 'Deny RequestOutdated'],
    [
      'G4g: a node that no Machine claims, whose name a pool has',
      { subject },
      client,
      { ...claimed, ofNode: [machineWith(OPEN)], hold: held('web', '2026-11-20T13:00:00Z') },
      'Deny NodeUnclaimed',
    ],
    [
      'C14: one that was given back',
      { subject },
      client,
      { ...claimed, ofNode: [], node: given, hold: held('web', '2026-11-20T13:00:00Z') },
      'Leave',
    ],
    [
      'G4g: the same, for serving',
      { subject, names: [...own] },
      serving,
      { ...claimed, ofNode: [], hold: held('evil', '2026-11-20T13:00:00Z') },
      'Deny NodeUnclaimed',
    ],
    [
      'G4g: a node that no Machine claims, whose name a pool had: others may judge',
      { subject },
      client,
      { ...claimed, ofNode: [], hold: held('web', '2026-11-20T11:00:00Z') },
      'Leave',
    ],
    ['G4f: its own pool had it', { subject }, agent, { ...mine, hold: held('web', '2027-11-20T12:00:00Z') }, 'Approve NodeOfMachine'],
    ['G4: a reserved name', { subject }, agent, { ...mine, reserved: true }, 'Deny NodeNameReserved'],
    ['G4: a reserved name, by a node', { subject }, client, { ...claimed, reserved: true }, 'Deny NodeNameReserved'],
    ['a node of no Machine', { subject }, client, known(undefined, { machine: undefined }), 'Leave'],
    ['a kubeadm token', { subject }, { ...client, username: 'system:bootstrap:abcdef' }, claimed, 'Leave'],
    ['a node outside its group', { subject }, { ...client, groups: [] }, claimed, 'Deny ForeignRequester'],
    ['serving, for its addresses', { subject, names: [...own] }, serving, claimed, 'Approve AddressesOfMachine'],
    [
      'G4c: serving of an imported machine, for an address that its creator typed',
      { subject, names: [...own] },
      serving,
      imported,
      'Leave',
    ],
    [
      'G4c: serving of an imported machine, for another name',
      { subject, names: [{ type: 'dns', value: 'kubernetes.default.svc' }] },
      serving,
      imported,
      'Leave',
    ],
    [
      'G4i: serving of an imported machine, with as many newer requests as a person is left',
      { subject, names: [...own] },
      serving,
      { ...imported, newer: 4 },
      'Deny TooManyRequests',
    ],
    [
      'G4i: serving of an imported machine, with fewer newer requests',
      { subject, names: [...own] },
      serving,
      { ...imported, newer: 3 },
      'Leave',
    ],
    [
      'G4c: serving of an imported machine, for its Node name',
      { subject, names: [{ type: 'dns', value: 'a' }] },
      serving,
      imported,
      'Approve NodeOfMachine',
    ],
    ...['kubernetes', 'kubernetes.default', 'kubernetes.default.svc', 'kubernetes.default.svc.cluster.local', 'localhost'].map(
      (name): [string, Made, Partial<Asked>, RequesterFacts, string] => {
        const called = {
          ...owner,
          metadata: { ...owner.metadata, name },
          status: { ...owner.status, nodeRef: { name, uid: nodeRef.uid } },
        };
        return [
          `G4c: serving of a machine that is called ${name}`,
          { subject: [{ O: ['system:nodes'] }, { CN: [`system:node:${name}`] }], names: [{ type: 'dns', value: name }] },
          { ...serving, username: `system:node:${name}` },
          { ...claimed, ofNode: [called] },
          'Deny NameOfAnother',
        ];
      },
    ),
    ['serving, for its Node name', { subject, names: [{ type: 'dns', value: 'a' }] }, serving, claimed, 'Approve AddressesOfMachine'],
    [
      'serving, for an address more',
      { subject, names: [...own, { type: 'ip', value: '10.0.0.2' }] },
      serving,
      claimed,
      'Deny NameOfAnother',
    ],
    [
      'serving, for a name more',
      { subject, names: [...own, { type: 'dns', value: 'kubernetes' }] },
      serving,
      claimed,
      'Deny NameOfAnother',
    ],
    ['serving, for a URI', { subject, names: [...own, { type: 'url', value: 'a.example' }] }, serving, claimed, 'Deny NameOfAnother'],
    ['serving, for nothing', { subject }, serving, claimed, 'Deny RequestInvalid'],
    [
      'serving, and client',
      { subject, names: [...own] },
      { ...serving, usages: ['server auth', 'client auth', 'digital signature'] },
      claimed,
      'Deny RequestInvalid',
    ],
    [
      'serving, by its agent',
      { subject, names: [...own] },
      { ...serving, ...agent, signerName: SIGNERS.kubeletServing },
      mine,
      'Deny ForeignRequester',
    ],
    [
      'serving, before its addresses are known',
      { subject, names: [...own] },
      serving,
      { ...claimed, ofNode: [machineWith(OPEN, { nodeRef })] },
      'Wait',
    ],
  ];
  test.each(table)('%s', async (_what, made, more, knows, expected) => {
    expect(summary(decide(await asked(made, more), knows))).toBe(expected);
  });

  /** Machine and Node of one name, asked for by the node. */
  const called = (name: string, names: Made['names'], more: Partial<Stored<Machine>> = {}, knows: Partial<RequesterFacts> = {}) => {
    const named = { ...owner, metadata: { ...owner.metadata, name }, status: { ...owner.status, nodeRef: { name, uid: nodeRef.uid } } };
    return {
      made: {
        subject: [{ O: ['system:nodes'] }, { CN: [`system:node:${name}`] }],
        ...(names === undefined ? {} : { names }),
      } satisfies Made,
      username: `system:node:${name}`,
      knows: { ...claimed, ofNode: [{ ...named, ...more }], ...knows },
    };
  };
  const bySsh = { spec: { provider: { name: 'ssh', config: { address: '10.0.0.1' } } } };
  const dns = (...values: string[]): NonNullable<Made['names']> => values.map((value) => ({ type: 'dns', value }));
  const ip = (...values: string[]): NonNullable<Made['names']> => values.map((value) => ({ type: 'ip', value }));

  describe('G4d: a name by which clients reach the API server', () => {
    it.each([
      ['its host', 'api.prod.example'],
      ['the host of the other URL', '10.96.0.1'],
      ['an address of its host', '203.0.113.9'],
      ['a parent of its host', 'prod.example'],
    ])('%s (%s) is of no Node: neither its agent nor the node gets a certificate', async (_what, name) => {
      const machine = { ...machineWith(OPEN, {}, name), metadata: { ...machineWith(OPEN).metadata, name } };
      const { made, username, knows } = called(name, undefined);
      const client = { username, userUID: undefined, groups: ['system:nodes'], signerName: SIGNERS.kubeletClient };
      expect(summary(decide(await asked(made, client), knows))).toBe('Deny ServerName');
      const own = { ...agent, username: `kubenode:machine:web:${name}` };
      expect(summary(decide(await asked(made, own), { ...mine, machine, ofNode: [machine] }))).toBe('Deny ServerName');
      const asServer = { ...client, signerName: SIGNERS.kubeletServing, usages: serving.usages };
      expect(summary(decide(await asked({ ...made, names: dns(name) }, asServer), knows))).toBe('Deny ServerName');
    });

    const reported = (address: string) => ({ status: { nodeRef, addresses: [{ type: 'InternalDNS', address }] } });
    it.each([
      ['its host', dns('a', 'api.prod.example'), reported('api.prod.example')],
      ['its host in capitals', dns('API.prod.example'), reported('API.prod.example')],
      ['its host with a dot at its end', dns('api.prod.example.'), reported('api.prod.example.')],
      ['a wildcard for it', dns('*.prod.example'), reported('*.prod.example')],
      ['a parent of it', dns('prod.example'), reported('prod.example')],
      ['an address of it', ip('203.0.113.9'), reported('203.0.113.9')],
      ['an IPv6 address of it', ip('2001:db8::9'), reported('2001:db8::9')],
      ['an address of it, written as IPv6', ip('::ffff:cb00:7109'), reported('::ffff:203.0.113.9')],
      ['the address of the other URL', ip('10.96.0.1'), reported('10.96.0.1')],
      ['its address as a DNS name', dns('203.0.113.9'), reported('203.0.113.9')],
      ['its host, of an imported machine', dns('a', 'api.prod.example'), bySsh],
      ['its address, of an imported machine', ip('10.96.0.1'), bySsh],
    ])('is in no serving certificate, also where the provider names it: %s', async (_what, names, more) => {
      const { made, knows } = called('a', names, more);
      expect(summary(decide(await asked(made, serving), knows))).toBe('Deny ServerName');
    });

    it('is not the only one that a wildcard would take in: no node gets one', async () => {
      const { made, knows } = called('a', dns('*.other.example'), reported('*.other.example'));
      expect(summary(decide(await asked(made, serving), knows))).toBe('Deny NameOfAnother');
    });

    it('is not the only one: none by which Services are reached is in a certificate, also where the provider reports it', async () => {
      for (const name of ['localhost', 'KUBERNETES', 'kubernetes.default.svc']) {
        const { made, knows } = called('a', dns('a', name), reported(name));
        expect([name, summary(decide(await asked(made, serving), knows))]).toEqual([name, 'Deny NameOfAnother']);
      }
    });

    it('is none of names that only resemble it', async () => {
      for (const name of ['xapi.prod.example', 'api.prod.example.org', 'node.api.prod.example', 'node.prod.example']) {
        const { made, knows } = called('a', dns(name), reported(name));
        expect([name, summary(decide(await asked(made, serving), knows))]).toEqual([name, 'Approve AddressesOfMachine']);
      }
    });

    it('is not known while its addresses are not: a request with addresses waits, one without does not', async () => {
      const server = { hosts: ['api.prod.example'], addresses: undefined };
      const judged = async (names: Made['names']) =>
        summary(decide(await asked({ subject, ...(names === undefined ? {} : { names }) }, serving), { ...claimed, server }));
      expect([await judged(ip('10.0.0.1')), await judged(dns('a.example')), await judged(dns('a'))]).toEqual([
        'Wait',
        'Approve AddressesOfMachine',
        'Approve AddressesOfMachine',
      ]);
    });
  });

  describe('G4c: a Node name with dots, which the person who made the Machine chose', () => {
    const name = 'vault.corp.example';
    const judged = async (more: Partial<Stored<Machine>>, knows: Partial<RequesterFacts> = {}, chosen = name) => {
      const { made, username, knows: all } = called(chosen, dns(chosen), more, knows);
      return summary(decide(await asked(made, { ...serving, username }), all));
    };
    const setOwner = { apiVersion: 'kubenode.io/v1alpha1', kind: 'MachineSet', name: 's', uid: 's-1', controller: true };
    const metadata = { ...owner.metadata, name };
    it('is left to a person: of an imported machine and of one that was made by hand', async () => {
      expect(await judged(bySsh)).toBe('Leave');
      expect(await judged({ metadata })).toBe('Leave');
      expect(await judged({ metadata }, { newer: 4 })).toBe('Deny TooManyRequests');
      expect(
        await judged({ metadata, status: { nodeRef: { name, uid: 'node-a' }, addresses: [{ type: 'Hostname', address: name }] } }),
      ).toBe('Leave');
      const borrowed = { ...setOwner, controller: false };
      expect(await judged({ metadata: { ...metadata, ownerReferences: [borrowed] } })).toBe('Leave');
      expect(await judged({ metadata: { ...metadata, ownerReferences: [{ ...setOwner, kind: 'ReplicaSet' }] } })).toBe('Leave');
    });

    it('is approved below a domain that the administrator named, and not for what only ends like it', async () => {
      const knows = { nodeDomains: ['nodes.example', 'corp.example'] };
      expect(await judged(bySsh, knows)).toBe('Approve NodeOfMachine');
      expect(await judged({ metadata }, knows)).toBe('Approve AddressesOfMachine');
      expect(await judged(bySsh, knows, 'a.evilcorp.example')).toBe('Leave');
      expect(await judged(bySsh, knows, 'corp.example')).toBe('Leave');
      expect(await judged(bySsh, { nodeDomains: ['prod.example'] }, 'api.prod.example')).toBe('Deny ServerName');
    });

    it('is approved where no person chose it: a set of the fleet, or the provider that has it in DNS', async () => {
      expect(await judged({ metadata: { ...metadata, ownerReferences: [setOwner] } })).toBe('Approve AddressesOfMachine');
      const ec2 = 'ip-10-0-0-1.eu-west-1.compute.internal';
      const addresses = [{ type: 'InternalDNS', address: ec2 }];
      expect(await judged({ status: { nodeRef: { name: ec2, uid: 'node-a' }, addresses } }, {}, ec2)).toBe('Approve AddressesOfMachine');
      // Beside what it has otherwise.
      const several = [{ type: 'InternalIP', address: '10.0.0.1' }, ...addresses, { type: 'Hostname', address: 'a' }];
      expect(await judged({ status: { nodeRef: { name: ec2, uid: 'node-a' }, addresses: several } }, {}, ec2)).toBe(
        'Approve AddressesOfMachine',
      );
    });
  });

  it('reads why a Node is not its own', async () => {
    const why = async (knows: Partial<RequesterFacts>) => {
      const verdict = decide(await asked({ subject }, agent), { ...mine, ...knows });
      return 'message' in verdict ? verdict.message : verdict.do;
    };
    expect(await why({ machine: machineWith(OPEN, { providerID: 'cloud://1' }), node: nodeWith('cp', 'cloud://2') })).toContain(
      'its providerID is "cloud://2", and this Machine\'s "cloud://1"',
    );
    expect(await why({ machine: machineWith(OPEN, { nodeRef }), node: nodeWith('node-b', 'cloud://2') })).toContain(
      "its UID is node-b, and this Machine's Node had node-a",
    );
  });

  it('names its Node in the common name, and nowhere else', async () => {
    expect(nodeOf(await asked({ subject: [{ O: ['system:node:b'] }, { CN: ['system:node:a'] }] }))).toBe('a');
  });

  it('is about the Node that it names, and about none where it names none or cannot be read', async () => {
    const named = async (cn: string) => nodeOf(await asked({ subject: [{ O: ['system:nodes'] }, { CN: [cn] }] }));
    expect(await named('system:node:a')).toBe('a');
    expect(await named('system:node:')).toBeUndefined();
    expect(await named('admin')).toBeUndefined();
    for (const name of ['.', '..', 'a/b', '%2e%2e', 'A']) expect([name, await named(`system:node:${name}`)]).toEqual([name, undefined]);
    expect(nodeOf({ request: { unreadable: 'torn' } })).toBeUndefined();
  });

  it('G4h: is for the Node of the requester, and not for another that the request names', () => {
    const of = (username: string, signerName: string = SIGNERS.kubeletClient) => nodeFor({ username, signerName });
    expect([of('system:node:a'), of(AGENT_USER), of(TOKEN_USER)]).toEqual(['a', 'a', 'a']);
    expect([of('alice'), of('system:node:'), of('system:node:a/b'), of('system:node:..')]).toEqual(Array.from({ length: 4 }));
    expect([of(AGENT_USER, SIGNERS.kubeletServing), of(AGENT_USER, SIGNERS.client)]).toEqual(['a', undefined]);
  });

  it('is of no interest where it is not ours', async () => {
    expect(BOOTSTRAP_USER).toContain('kubenode-bootstrap-');
    expect(summary(decide(await asked({ subject }, { ...client, username: 'system:node:zz' }), claimed))).toBe('Leave');
  });
});
