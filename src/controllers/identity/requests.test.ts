import { describe, expect, it } from 'vitest';
import { SIGNERS, VOUCHER } from '../../api/admission.ts';
import { CertificateSigningRequests } from '../../api/builtin.ts';
import { Machines, type Machine } from '../../api/machine.ts';
import type { Stored } from '../../api/wire.ts';
import type { Client, JsonPatchOperation } from '../../kube/client.ts';
import { recordBootstrap } from './record.ts';
import { answer, askedOf, conditionOf, isJudged, keptOf, requestOf, stateOf, type StoredRequest } from './requests.ts';
import { machineWith, OPEN } from './testing/requests.ts';

const { signal } = new AbortController();
const NOW = Date.parse('2026-11-20T12:00:00Z');

type Answer = 'Approved' | 'Denied' | 'Failed';
function request(certificate: string | undefined, ...conditions: [Answer, 'True' | 'False'][]): StoredRequest {
  return {
    apiVersion: 'certificates.k8s.io/v1',
    kind: 'CertificateSigningRequest',
    metadata: { name: 'csr', uid: 'csr-1', resourceVersion: '7', creationTimestamp: '2026-11-20T12:00:00Z' },
    spec: { request: '', signerName: SIGNERS.client },
    status: {
      ...(certificate === undefined ? {} : { certificate }),
      conditions: conditions.map(([type, status]) => ({ type, status, reason: 'r', message: 'm' })),
    },
  };
}

describe('a request', () => {
  it('is open until a condition of it is true', () => {
    const { status: _, ...bare } = request(undefined);
    expect([stateOf(bare), stateOf(request(undefined)), stateOf(request(''))]).toEqual(['Open', 'Open', 'Open']);
    expect(stateOf(request(undefined, ['Approved', 'False'], ['Denied', 'False']))).toBe('Open');
    expect(stateOf(request(undefined, ['Approved', 'True']))).toBe('Approved');
    expect(stateOf(request('MII', ['Approved', 'True']))).toBe('Issued');
  });

  it('that was denied or failed is that, also with other conditions', () => {
    expect(stateOf(request('MII', ['Approved', 'True'], ['Failed', 'True']))).toBe('Failed');
    expect(stateOf(request('MII', ['Approved', 'True'], ['Failed', 'True'], ['Denied', 'True']))).toBe('Denied');
    expect(conditionOf(request(undefined, ['Approved', 'True'], ['Denied', 'True']), 'Denied')).toMatchObject({ type: 'Denied' });
    expect(conditionOf(request(undefined, ['Approved', 'True']), 'Denied')).toBeUndefined();
  });

  it('of another signer is not judged', () => {
    const of = (signerName: string) => isJudged({ ...request(undefined), spec: { request: '', signerName } });
    expect([of(SIGNERS.client), of(SIGNERS.kubeletServing), of('example.com/mine')]).toEqual([true, true, false]);
  });

  it('G7a: is kept in memory without what is never read', () => {
    const long = 'x'.repeat(2048);
    const more = { uid: 'u', extra: { e: [long] } };
    const whole: StoredRequest = {
      ...request(undefined),
      metadata: {
        ...request(undefined).metadata,
        annotations: { ...Object.fromEntries(Array.from({ length: 7 }, (_, each) => [`a${each}`, long])), [VOUCHER]: 'v' },
        labels: { l: long },
      },
      spec: {
        ...more,
        request: long,
        signerName: SIGNERS.kubeletClient,
        usages: ['client auth'],
        expirationSeconds: 600,
        username: 'system:node:a',
        groups: ['system:nodes'],
      },
    };
    const open = keptOf(whole);
    expect(askedOf(open)).toEqual(askedOf(whole));
    expect(JSON.stringify(open).length).toBeLessThan(3000);
    const { username, metadata } = { username: whole.spec.username, metadata: whole.metadata };
    const denied = keptOf({ ...whole, status: request(undefined, ['Denied', 'True']).status ?? {} });
    expect([stateOf(denied), askedOf(denied).userUID, askedOf(denied).username, denied.metadata.uid]).toEqual([
      'Denied',
      'u',
      username,
      metadata.uid,
    ]);
    expect(JSON.stringify(denied).length).toBeLessThan(800);
    const issued = keptOf({ ...whole, status: request('MII', ['Approved', 'True']).status ?? {} });
    expect([stateOf(issued), issued.status?.certificate, askedOf(issued).request]).toEqual(['Issued', 'MII', askedOf(whole).request]);
    const foreign = keptOf({ ...whole, spec: { ...whole.spec, signerName: 'example.com/mine' }, status: { certificate: long } });
    expect([isJudged(foreign), JSON.stringify(foreign).length < 400]).toEqual([false, true]);
  });

  it('that cannot be read is reported as such, and what else breaks is an error', () => {
    expect(requestOf('')).toEqual({ unreadable: expect.stringContaining('not one PEM block') });
    expect(() => requestOf(undefined as unknown as string)).toThrow(TypeError);
  });

  it('is answered by one more condition on what was read, and not before the server has taken it', async () => {
    const updates: unknown[][] = [];
    const client = { update: (...given: unknown[]) => (updates.push(given), Promise.resolve({})) } as unknown as Client;
    const open = request(undefined, ['Failed', 'False']);
    await answer(client, open, { do: 'Approve', reason: 'Admitted', message: 'admitted' }, NOW, signal);
    await answer(client, open, { do: 'Deny', reason: 'TokenUsed', message: 'no' }, NOW, signal);
    const at = '2026-11-20T12:00:00Z';
    const answered = (type: Answer, reason: string, message: string) => ({
      metadata: open.metadata,
      status: {
        conditions: [
          ...(open.status?.conditions ?? []),
          { type, status: 'True', reason, message, lastUpdateTime: at, lastTransitionTime: at },
        ],
      },
    });
    expect(updates).toMatchObject([
      [CertificateSigningRequests, answered('Approved', 'Admitted', 'admitted'), { subresource: 'approval' }],
      [CertificateSigningRequests, answered('Denied', 'TokenUsed', 'no'), { subresource: 'approval' }],
    ]);
    const refusing = { update: () => Promise.reject(new Error('Conflict')) } as unknown as Client;
    await expect(answer(refusing, open, { do: 'Approve', reason: 'r', message: 'm' }, NOW, signal)).rejects.toThrow('Conflict');
  });
});

describe('what is recorded of an admission', () => {
  const admitted = {
    type: 'Admitted',
    status: 'True' as const,
    reason: 'Before',
    message: 'b',
    lastTransitionTime: '2026-11-20T11:00:00Z',
  };
  const machine = machineWith(OPEN, { conditions: [{ ...admitted, type: 'Drained' }, admitted] });
  const sent = async (of: Stored<Machine>, ...given: [Parameters<typeof recordBootstrap>[2], Parameters<typeof recordBootstrap>[3]]) => {
    const patches: JsonPatchOperation[][] = [];
    const client = {
      patch: (resource: unknown, _key: unknown, { json }: { json: JsonPatchOperation[] }, options: unknown) => {
        expect(resource).toBe(Machines);
        expect(options).toMatchObject({ subresource: 'status', fieldManager: 'kubenode-identity' });
        patches.push(json);
        return Promise.resolve(of);
      },
    } as unknown as Client;
    await recordBootstrap(client, of, ...given, signal);
    const [patch = []] = patches;
    return { tests: patch.filter(({ op }) => op === 'test').map(({ path }) => path), writes: patch.filter(({ op }) => op !== 'test') };
  };
  const CONDITIONS = ['/metadata/uid', '/metadata/generation', '/metadata/deletionTimestamp', '/status/bootstrap'];

  it('is what is new, and of conditions its own alone', async () => {
    const of = { ...machine, metadata: { ...machine.metadata, generation: 3 } };
    const next = { ...OPEN, epoch: OPEN.epoch + 1 };
    expect(await sent(of, next, undefined)).toEqual({
      tests: CONDITIONS,
      writes: [{ op: 'add', path: '/status/bootstrap', value: next }],
    });
    const report = { condition: { status: 'False', reason: 'Denied', message: 'no' }, nowMs: NOW } as const;
    const value = { type: 'Admitted', status: 'False', reason: 'Denied', message: 'no', lastTransitionTime: '2026-11-20T12:00:00Z' };
    expect(await sent(of, undefined, report)).toEqual({
      tests: [...CONDITIONS, '/status/conditions/1'],
      writes: [{ op: 'replace', path: '/status/conditions/1', value }],
    });
  });

  it('names no condition where none was ever reported', async () => {
    const bare = machineWith(undefined);
    const { writes } = await sent(bare, OPEN, undefined);
    expect(writes).toEqual([{ op: 'add', path: '/status/bootstrap', value: OPEN }]);
  });

  it('is not recorded where another was faster', async () => {
    const client = { patch: () => Promise.reject(new Error('Conflict')) } as unknown as Client;
    await expect(recordBootstrap(client, machine, OPEN, undefined, signal)).rejects.toThrow('Conflict');
  });
});
