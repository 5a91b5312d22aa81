/** One pass over a server that answers anything. */
import { beforeEach, describe, expect, it } from 'vitest';
import { API_VERSION } from '../../api/kind.ts';
import { Machines, type Machine } from '../../api/machine.ts';
import { MachineSets, type MachineSet } from '../../api/machine-set.ts';
import { ANNOTATIONS, LABELS } from '../../api/names.ts';
import { evidenceOf } from '../../sync/evidence.ts';
import type { ApiRequest } from '../../api/transport.ts';
import type { KubeObject, Stored } from '../../api/wire.ts';
import { createClient } from '../../kube/http-client.ts';
import type { QueueResult } from '../../kube/queue.ts';
import type { Store } from '../../kube/store.ts';
import { fakeApiServer, statusResponse, type FakeApiServer } from '../../kube/testing/api-server.ts';
import { fakeClock, seededRandom } from '../../kube/testing/clock.ts';
import { recordingLog } from '../../kube/testing/log.ts';
import type { Providers } from './provider.ts';
import { reconcileMachineSet } from './reconcile.ts';

const KEY = { namespace: 'web', name: 'web-a' };
const clock = fakeClock();
let server: FakeApiServer;
let events: string[];
let unsettled: Map<string, number | undefined>;
let log: ReturnType<typeof recordingLog>;
let random: () => number;

beforeEach(() => {
  server = fakeApiServer();
  events = [];
  unsettled = new Map();
  log = recordingLog();
  random = seededRandom(1);
});

const putSet = (
  spec: Partial<MachineSet['spec']>,
  more: Partial<MachineSet['metadata']> = {},
  status: MachineSet['status'] = {},
): Stored<MachineSet> =>
  server.put(MachineSets, {
    apiVersion: API_VERSION,
    kind: 'MachineSet',
    metadata: { ...KEY, generation: 1, ...more },
    spec: { provider: { name: 'fake' }, ...spec },
    status,
  });
const set = (): Stored<MachineSet> => {
  const [found] = server.objects(MachineSets);
  if (found === undefined) throw new Error('the set is gone');
  return found;
};
function putMachine(name: string, spec: Machine['spec'] = {}, more: Partial<Machine['metadata']> = {}): Stored<Machine> {
  const { uid } = set().metadata;
  return server.put(Machines, {
    apiVersion: API_VERSION,
    kind: 'Machine',
    metadata: {
      namespace: 'web',
      name,
      generation: 1,
      labels: { [LABELS.machineSet]: 'web-a' },
      ownerReferences: [{ apiVersion: API_VERSION, kind: 'MachineSet', name: 'web-a', uid, controller: true, blockOwnerDeletion: true }],
      ...more,
    },
    spec,
    status: {
      firstReadyAt: '2026-11-20T00:00:00Z',
      conditions: [{ type: 'Ready', status: 'True', reason: 'x', message: '', lastTransitionTime: '2026-11-20T00:00:00Z' }],
    },
  });
}
const machines = (): Stored<Machine>[] => server.objects(Machines);
const machine = (name: string): Stored<Machine> | undefined => machines().find(({ metadata }) => metadata.name === name);

/** As a store shows it; `stale`: as it was then. */
function storeOf<T extends KubeObject>(objects: () => Stored<T>[]): Store<T> {
  return {
    get: ({ namespace, name }: { namespace?: string; name: string }) =>
      objects().find(({ metadata }) => metadata.namespace === namespace && metadata.name === name),
    inNamespace: (namespace: string) => objects().filter(({ metadata }) => metadata.namespace === namespace),
  } as unknown as Store<T>;
}
interface Seen {
  sets?: Stored<MachineSet>[];
  machines?: Stored<Machine>[];
}
let providers: Providers;
beforeEach(() => {
  providers = new Map([['fake', { validate: () => [] }]]);
});
async function pass(seen: Seen = {}): Promise<QueueResult | void> {
  const deps = {
    sets: storeOf(() => seen.sets ?? server.objects(MachineSets)),
    machines: storeOf(() => seen.machines ?? machines()),
    componentSets: { list: () => [] },
    clock,
    random: () => random(),
    recorder: {
      event: (about: KubeObject, { reason, message }: { reason: string; message: string }) =>
        void events.push(`${about.kind} ${reason} ${message}`),
    },
    providers,
    epoch: 7,
    unsettled,
  };
  return await reconcileMachineSet(deps, 'web/web-a', {
    client: createClient(server.transport),
    log,
    signal: new AbortController().signal,
  });
}
const writes = (): ApiRequest[] => server.requests.filter(({ method }) => method !== 'GET');
const isPatchOf =
  (end: string) =>
  ({ method, path }: ApiRequest): boolean =>
    method === 'PATCH' && path.endsWith(end);
/** Answers the first `times` requests that match. */
function answer(matches: (request: ApiRequest) => boolean, status: number, reason: string, times = Infinity): void {
  let left = times;
  server.intercept((request) => (matches(request) && left-- > 0 ? statusResponse(status, reason) : undefined));
}
const failure = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => undefined,
    (error: unknown) => error,
  );
const AGAIN = { requeueAfterMs: 200 };
const isMachine = ({ method, path }: ApiRequest): boolean => method === 'PATCH' && path.includes('/machines/');

describe('a set', () => {
  it('that is gone, or goes, is left alone', async () => {
    expect(await pass()).toBeUndefined();
    putSet({ replicas: 2 }, { deletionTimestamp: '2026-11-20T00:00:00Z' });
    expect(await pass()).toBeUndefined();
    expect(writes()).toEqual([]);
  });

  it('notes names, makes the machines of them, reports each, and reports its state', async () => {
    putSet({ replicas: 2, failureDomains: ['h', 'i'] });
    await pass();
    const [first, second] = machines();
    expect(set().status?.making).toEqual([first?.metadata.name, second?.metadata.name]);
    expect([first?.spec.failureDomain, second?.spec.failureDomain]).toEqual(['h', 'i']);
    expect(events).toEqual([`MachineSet MachineCreated ${first?.metadata.name}`, `MachineSet MachineCreated ${second?.metadata.name}`]);
    expect(log.lines.filter(({ message }) => message === 'made a machine').map(({ fields }) => fields)).toEqual([
      { machine: first?.metadata.name, failureDomain: 'h' },
      { machine: second?.metadata.name, failureDomain: 'i' },
    ]);
    expect(set().status).toMatchObject({ replicas: 0, selector: 'kubenode.io/machine-set=web-a', observedGeneration: 1 });
  });

  it('makes no machine that is there by that name already', async () => {
    putSet({ replicas: 2 }, {}, { making: ['web-a-aaaaa', 'web-a-bbbbb'] });
    const there = putMachine('web-a-aaaaa');
    await pass({ machines: [] });
    expect(machine('web-a-aaaaa')).toEqual(there);
    expect(machines()).toHaveLength(2);
    expect(events).toEqual(['MachineSet MachineCreated web-a-bbbbb']);
  });

  it('draws no name that it noted, or that another machine has', async () => {
    putSet({ replicas: 2 });
    const draws = [0, 0, 0, 0, 0, 0.99, 0.99, 0.99, 0.99, 0.99, 0, 0, 0, 0, 0, 0.99, 0.99, 0.99, 0.99, 0.99, 0.5, 0.5, 0.5, 0.5, 0.5];
    random = () => draws.shift() ?? 0.3;
    server.put(Machines, { apiVersion: API_VERSION, kind: 'Machine', metadata: { namespace: 'web', name: 'web-a-99999' }, spec: {} });
    await pass();
    expect(machines().map(({ metadata }) => metadata.name)).toEqual(['web-a-99999', 'web-a-bbbbb', 'web-a-rrrrr']);
  });

  it('gives machines names that are one DNS label, however long its own is', async () => {
    const name = 'x'.repeat(70);
    const { machineName } = await import('./names.ts');
    expect(
      machineName(
        name,
        () => 0,
        () => false,
      ),
    ).toBe(`${'x'.repeat(57)}-bbbbb`);
  });

  it.each<[string, () => void]>([
    ['another generation', () => putSet({ replicas: 1 }, { generation: 2 }, { making: ['web-a-aaaaa'] })],
    ['another making', () => putSet({ replicas: 1 }, {}, { making: ['web-a-zzzzz'] })],
    ['nothing noted', () => putSet({ replicas: 1 }, {}, {})],
    ['been deleted', () => putSet({ replicas: 1 }, { deletionTimestamp: '2026-11-20T00:00:00Z' }, { making: ['web-a-aaaaa'] })],
    ['gone', () => server.remove(MachineSets, KEY)],
    [
      'come again',
      () => {
        server.remove(MachineSets, KEY);
        putSet({ replicas: 1 }, {}, { making: ['web-a-aaaaa'] });
      },
    ],
  ])('C8c: makes nothing where it has %s since it was read', async (_what, meanwhile) => {
    const read = putSet({ replicas: 1 }, {}, { making: ['web-a-aaaaa'] });
    meanwhile();
    expect(await pass({ sets: [read] })).toEqual(AGAIN);
    expect(machines()).toEqual([]);
    expect(writes()).toEqual([]);
  });

  it('C8c: makes nothing where one of its names is noted no more', async () => {
    const read = putSet({ replicas: 2 }, {}, { making: ['web-a-aaaaa', 'web-a-bbbbb'] });
    putSet({ replicas: 2 }, {}, { making: ['web-a-bbbbb'] });
    expect(await pass({ sets: [read] })).toEqual(AGAIN);
    expect(machines()).toEqual([]);
  });

  it('C8c: makes all that it noted without another note', async () => {
    putSet({ replicas: 2 }, {}, { making: ['web-a-aaaaa', 'web-a-bbbbb'] });
    await pass();
    const [first] = writes();
    expect(first?.path).toMatch(/\/machines\/web-a-aaaaa$/);
    expect(machines().map(({ metadata }) => metadata.name)).toEqual(['web-a-aaaaa', 'web-a-bbbbb']);
  });

  it('counts no machine that bears its label and is not its own', async () => {
    putSet({ replicas: 1, maxRetiring: 5 });
    const own = { apiVersion: API_VERSION, kind: 'MachineSet', name: 'web-a', uid: set().metadata.uid, controller: true };
    const foreign = [
      { ownerReferences: [] },
      { ownerReferences: [{ ...own, uid: 'of-another-set' }] },
      { ownerReferences: [{ ...own, controller: false }] },
    ].map((more, index) => putMachine(`foreign-${index}`, {}, more));
    await pass();
    expect(machines()).toHaveLength(4);
    const [made = ''] = set().status?.making ?? [];
    // One more owner, that controls nothing, takes no machine from its set.
    const both = { ownerReferences: [{ ...own, kind: 'Other', uid: 'x', controller: false }, own] };
    server.remove(Machines, { namespace: 'web', name: made });
    putMachine(made, {}, both);
    putMachine('b', {}, both);
    await pass();
    for (const { metadata } of foreign) expect(machine(metadata.name)?.spec.retire).toBeUndefined();
    expect(machines().filter(({ spec }) => spec.retire !== undefined)).toHaveLength(1);
    expect(set().status?.replicas).toBe(2);
  });

  it('lists the machines of its own namespace alone', async () => {
    putSet({ replicas: 1 });
    await pass();
    putMachine('b');
    await pass();
    const lists = server.requests.filter(({ method, path }) => method === 'GET' && path.endsWith('/machines'));
    expect(lists.map(({ path }) => path)).toEqual(lists.map(() => '/apis/kubenode.io/v1alpha1/namespaces/web/machines'));
    expect(lists).toHaveLength(2);
  });

  it('without a configuration asks its provider about an empty one', async () => {
    const asked: unknown[] = [];
    providers = new Map([['fake', { validate: (config: unknown) => (asked.push(config), []) }]]);
    putSet({ replicas: 0 });
    await pass();
    putSet({ replicas: 0, provider: { name: 'fake', config: { size: 'small' } } });
    await pass();
    expect(asked).toEqual([{}, { size: 'small' }]);
  });

  it('C8c: makes nothing where its note is refused since another wrote it, and fails where the server fails', async () => {
    putSet({ replicas: 1 });
    answer(isPatchOf('/machinesets/web-a/status'), 409, 'Conflict', 1);
    expect(await pass()).toEqual(AGAIN);
    expect(machines()).toEqual([]);
    answer(isPatchOf('/machinesets/web-a/status'), 403, 'Forbidden', 1);
    expect(await failure(pass())).toMatchObject({ code: 'Forbidden' });
    expect(machines()).toEqual([]);
  });

  it('C8c: makes none where a list shows those that its store does not', async () => {
    putSet({ replicas: 1 });
    putMachine('web-a-aaaaa');
    expect(await pass({ machines: [] })).toEqual(AGAIN);
    expect(machines()).toHaveLength(1);
  });

  it.each([
    [
      'a provider that this cell does not have',
      new Map([
        ['local', { validate: () => [] }],
        ['aws', { validate: () => [] }],
      ]),
      'UnknownProvider',
      'UnknownProvider: this cell has no provider "fake"; it has aws, local',
    ],
    [
      'a provider, where this cell has none',
      new Map(),
      'UnknownProvider',
      'UnknownProvider: this cell has no provider "fake"; it has none',
    ],
    [
      'a configuration that its provider refuses',
      new Map([['fake', { validate: () => [{ path: 'zone', message: 'must be a string' }] }]]),
      'InvalidConfig',
      'InvalidConfig: `spec.provider.config.zone` must be a string',
    ],
  ])('of %s makes nothing and reports that, also while it has all its machines', async (_what, those: Providers, code, message) => {
    providers = those;
    putSet({ replicas: 1 });
    await pass();
    const reported = () => [set().status?.createFailure, set().status?.conditions?.find(({ type }) => type === 'Progressing')?.message];
    expect([machines(), set().status?.making, reported()]).toEqual([[], undefined, [code, message]]);
    putMachine('web-a-aaaaa');
    await pass();
    expect([set().status?.availableReplicas, reported()]).toEqual([1, [code, message]]);
    providers = new Map([['fake', { validate: () => [] }]]);
    await pass();
    expect([set().status?.availableReplicas, reported()]).toEqual([1, [undefined, '']]);
  });

  it('reports what the server refuses, and tries again; a server that is away is not reported', async () => {
    putSet({ replicas: 1 });
    answer(isMachine, 422, 'Invalid', 1);
    expect(await failure(pass())).toMatchObject({ code: 'Invalid' });
    expect(set().status).toMatchObject({
      createFailure: 'Invalid',
      conditions: expect.arrayContaining([expect.objectContaining({ reason: 'CreateFailed' })]) as unknown,
    });
    const before = set().status;
    answer(isMachine, 503, 'ServiceUnavailable', 1);
    expect(await failure(pass())).toMatchObject({ code: 'ServiceUnavailable' });
    expect(set().status).toEqual(before);
  });

  it('is reconciled again when its status was refused, fails where the server fails, and writes nothing that is there', async () => {
    putSet({ replicas: 0 });
    answer(isPatchOf('/machinesets/web-a/status'), 409, 'Conflict', 1);
    expect(await pass()).toEqual(AGAIN);
    answer(isPatchOf('/machinesets/web-a/status'), 403, 'Forbidden', 1);
    expect(await failure(pass())).toMatchObject({ code: 'Forbidden' });
    expect(await pass()).toBeUndefined();
    const before = server.requests.length;
    expect(await pass()).toBeUndefined();
    expect(server.requests).toHaveLength(before);
  });

  it('is reconciled when the next machine becomes available', async () => {
    putSet({ replicas: 1, minReadySeconds: 30 });
    const made = putMachine('a');
    const condition = {
      type: 'Ready',
      status: 'True',
      reason: 'x',
      message: '',
      lastTransitionTime: new Date(clock.now() - 10_000).toISOString(),
    } as const;
    server.put(Machines, { ...made, status: { ...made.status, conditions: [condition] } });
    expect(await pass()).toEqual({ requeueAfterMs: 20_000 });
  });

  it('is brought to its machines fifty at a time, and those that are gone or paused are left out', async () => {
    putSet({ replicas: 60, template: { labels: { a: '1' } }, maxInFlight: 100 });
    for (let index = 0; index < 60; index += 1) putMachine(`m${index}`, index === 0 ? { paused: true } : {});
    const gone = machines()[1];
    answer(isPatchOf('/machines/m1'), 409, 'Conflict');
    expect(await pass()).toEqual(AGAIN);
    const done = (): number => machines().filter(({ spec }) => spec.labels?.['a'] === '1').length;
    expect(done()).toBe(50);
    // What others wrote into the template's fields gives way.
    expect(
      writes()
        .filter(isMachine)
        .every(({ query }) => query?.['force'] === 'true'),
    ).toBe(true);
    expect(machine('m1')).toEqual(gone);
    expect(machine('m0')?.spec).toEqual({ paused: true });
    await pass();
    expect(done()).toBe(58);
  });

  it('reports which write the server refuses, brings the others to its machines, and has no evidence until then', async () => {
    putSet({ replicas: 3, template: { labels: { a: '1' } } });
    for (const name of ['m0', 'm1', 'm2']) putMachine(name);
    const reported = () => set().status?.conditions?.find(({ type }) => type === 'WriteFailed');
    const have = (): unknown[] => machines().map(({ spec }) => spec.labels?.['a']);
    answer(isPatchOf('/machines/m0'), 422, 'Invalid', 2);
    expect(await failure(pass())).toMatchObject({ code: 'Invalid' });
    expect([have(), reported()]).toMatchObject([[undefined, '1', '1'], { status: 'True', reason: 'Invalid', observedGeneration: 1 }]);
    expect(set().status).toMatchObject({ observedGeneration: 1, replicas: 3, availableReplicas: 3 });
    expect(evidenceOf(set(), '').evidence).toBe(false);
    const before = set().metadata.resourceVersion;
    expect(await failure(pass())).toMatchObject({ code: 'Invalid' });
    expect(set().metadata.resourceVersion).toBe(before);
    await pass();
    expect([have(), reported()]).toEqual([['1', '1', '1'], undefined]);
    expect(evidenceOf(set(), '').evidence).toBe(true);
  });

  it('reports what it counts also where the server fails in the middle, and asks it for no other machine', async () => {
    putSet({ replicas: 2, template: { labels: { a: '1' } } });
    for (const name of ['m0', 'm1']) putMachine(name);
    answer(isPatchOf('/machines/m0'), 500, 'InternalError');
    expect(await failure(pass())).toMatchObject({ code: 'InternalError' });
    expect(machines().map(({ spec }) => spec.labels?.['a'])).toEqual([undefined, undefined]);
    expect(set().status).toMatchObject({ observedGeneration: 1, replicas: 2 });
  });
});

describe('safety 7, C8a: the marks of a set', () => {
  const marked = (): string[] =>
    machines()
      .filter(({ spec }) => spec.retire !== undefined)
      .map(({ metadata }) => metadata.name);

  it('are written with the term, the reason and the number, and reported', async () => {
    putSet({ replicas: 1, maxRetiring: 5 });
    for (const name of ['a', 'b', 'c']) putMachine(name);
    await pass();
    expect(marked()).toHaveLength(2);
    for (const name of marked()) {
      expect(machine(name)?.spec.retire).toEqual({ epoch: 7, reason: 'MachineSet web-a has more machines than it is to have' });
      expect(machine(name)?.metadata.annotations).toEqual({ [ANNOTATIONS.retireFor]: '1' });
    }
    expect(events.toSorted()).toEqual(
      marked()
        .map((name) => `MachineSet MachineRetiring ${name}`)
        .toSorted(),
    );
    const [request] = writes().filter(isMachine);
    const body = JSON.parse(String(request?.body)) as { op: string; path: string }[];
    expect(body.filter(({ op }) => op === 'test').map(({ path }) => path)).toEqual([
      '/metadata/uid',
      '/metadata/generation',
      '/metadata/deletionTimestamp',
      '/metadata/ownerReferences',
      '/metadata/annotations',
    ]);
  });

  it('are taken back, with their number, and reported', async () => {
    putSet({ replicas: 2 });
    putMachine('a', { retire: { epoch: 7, reason: 'x' } }, { annotations: { [ANNOTATIONS.retireFor]: '1', other: 'x' } });
    putMachine('b');
    await pass();
    expect(marked()).toEqual([]);
    expect(machine('a')?.metadata.annotations).toEqual({ other: 'x' });
    expect(events).toEqual(['MachineSet MachineKept a']);
  });

  it('of another term are confirmed, and not reported again', async () => {
    putSet({ replicas: 1 });
    putMachine('a', { retire: { epoch: 6, reason: 'x' } }, { annotations: { [ANNOTATIONS.retireFor]: '1' } });
    putMachine('b');
    await pass();
    expect(machine('a')?.spec.retire?.epoch).toBe(7);
    expect(events).toEqual([]);
  });

  it('of a term that is void are taken back, and leave the number as it is', async () => {
    putSet({ replicas: 2 });
    putMachine('a', { retire: { epoch: 0, reason: 'x' } }, { annotations: { [ANNOTATIONS.retireFor]: '2' } });
    putMachine('b');
    await pass();
    expect([marked(), machine('a')?.metadata.annotations]).toEqual([[], { [ANNOTATIONS.retireFor]: '2' }]);
  });

  it('are written by no leader of an earlier term', async () => {
    putSet({ replicas: 1 });
    putMachine('a', { retire: { epoch: 8, reason: 'x' } });
    putMachine('b');
    putMachine('c');
    expect(await failure(pass())).toMatchObject({ code: 'Deposed', message: "a bears the mark of epoch 8, this leader's is 7" });
    expect(writes().filter(isMachine)).toEqual([]);
  });

  it.each<[string, () => void]>([
    ['gone', () => server.remove(MachineSets, KEY)],
    ['being deleted', () => putSet({ replicas: 1 }, { deletionTimestamp: '2026-11-20T00:00:00Z' })],
    [
      'another',
      () => {
        server.remove(MachineSets, KEY);
        putSet({ replicas: 1 });
      },
    ],
  ])('are not written where the set is %s at that time', async (_what, meanwhile) => {
    const read = putSet({ replicas: 1 });
    const seen = ['a', 'b', 'c'].map((name) => putMachine(name));
    meanwhile();
    expect(await pass({ sets: [read], machines: seen })).toEqual(AGAIN);
    expect(marked()).toEqual([]);
  });

  it('are chosen of a list, and not of what the store shows', async () => {
    putSet({ replicas: 1 });
    const seen = ['a', 'b'].map((name) => putMachine(name));
    server.remove(Machines, { namespace: 'web', name: 'b' });
    await pass({ machines: seen });
    expect(marked()).toEqual([]);
  });

  it.each([
    [409, 'Conflict'],
    [404, 'NotFound'],
  ])('that cannot be taken back have perhaps done their work: no other machine is marked for it (%i)', async (status, reason) => {
    putSet({ replicas: 1 });
    putMachine('a', { hold: true, retire: { epoch: 7, reason: 'x' } }, { annotations: { [ANNOTATIONS.retireFor]: '1' } });
    putMachine('b');
    answer(isPatchOf('/machines/a'), status, reason, 1);
    expect(await pass()).toEqual(AGAIN);
    expect(marked()).toEqual(['a']);
    await pass();
    expect(marked()).toEqual(['b']);
  });

  it('end at the first machine that is another than was read', async () => {
    putSet({ replicas: 0, maxRetiring: 5 });
    for (const name of ['a', 'b', 'c']) putMachine(name);
    answer(isMachine, 409, 'Conflict', 1);
    expect(await pass()).toEqual(AGAIN);
    expect(marked()).toEqual([]);
  });

  it('whose answer was lost are remembered, made void where they are not wanted any more, and forgotten when that is written', async () => {
    putSet({ replicas: 1 });
    const [a, b] = [putMachine('a'), putMachine('b')];
    let lost = '';
    const cancel = server.intercept((request) => {
      if (!isMachine(request)) return undefined;
      lost = request.path.split('/').at(-1) ?? '';
      throw new Error('read ECONNRESET');
    });
    await failure(pass());
    cancel();
    const found = lost === 'a' ? a : b;
    expect(unsettled).toEqual(new Map([[found.metadata.uid, found.metadata.generation]]));
    putSet({ replicas: 2 }, { generation: 2 });
    expect(await pass()).toEqual(AGAIN);
    expect(machine(lost)?.spec.retire).toEqual({ epoch: 0, reason: 'a mark whose answer was lost is made void' });
    expect(machine(lost)?.metadata.annotations).toBeUndefined();
    expect([events, unsettled.size]).toEqual([[], 0]);
    await pass();
    expect(marked()).toEqual([]);
  });

  it('that the server refused are not remembered, nor those of a machine that was written since', async () => {
    putSet({ replicas: 1 });
    putMachine('a');
    putMachine('b');
    answer(isMachine, 403, 'Forbidden', 1);
    expect(await failure(pass())).toMatchObject({ code: 'Forbidden' });
    expect(unsettled.size).toBe(0);
    const { uid } = machine('a')?.metadata ?? {};
    unsettled.set(uid ?? '', 0);
    putSet({ replicas: 2 }, { generation: 2 });
    await pass();
    expect([marked(), unsettled.size]).toEqual([[], 0]);
  });
});
