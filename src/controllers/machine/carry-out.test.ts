import { describe, expect, test } from 'vitest';
import { CodedError } from '../../api/errors.ts';
import { agentLeaseName } from '../../api/names.ts';
import type { InfraProvider } from '../../api/provider.ts';
import type { Stored } from '../../api/wire.ts';
import type { Node } from '../../api/builtin.ts';
import type { Machine } from '../../api/machine.ts';
import { ApiError } from '../../kube/api-error.ts';
import type { JsonPatchOperation } from '../../kube/client.ts';
import { carryOutAll } from './carry-out.ts';
import type { Hands } from './step-kind.ts';
import { machine, node, view } from './testing/objects.ts';
import type { MachineView, Step } from './view.ts';

const failing = (code: number, reason: string) => new ApiError(code, { reason, message: reason });

interface World {
  /** As the server has it. */
  live?: Stored<Node>;
  found?: () => Promise<Stored<Node> | undefined>;
  /** As the server has it. */
  ofMachine?: Stored<Machine>;
  /** By the kind that a request is about, or its method: what the server answers. */
  refused?: Record<string, ApiError>;
  provider?: Partial<InfraProvider> | 'none';
  signal?: AbortSignal;
}

const writesOf = (json: JsonPatchOperation[]): object =>
  Object.fromEntries(json.filter(({ op }) => op !== 'test').map(({ path, value }) => [path, value]));

/** A server and a provider that note what they are asked. */
function world({
  live,
  found = () => Promise.resolve(live),
  ofMachine = machine(),
  refused = {},
  provider = {},
  signal = new AbortController().signal,
}: World = {}) {
  const asked: unknown[][] = [];
  const ask = (kind: string, ...request: unknown[]): Promise<void> => {
    asked.push([kind, ...request]);
    const error = refused[kind];
    return error === undefined ? Promise.resolve() : Promise.reject(error);
  };
  const client = {
    find: ({ kind }: { kind: string }) => (kind === 'Machine' ? Promise.resolve(ofMachine) : found()),
    patch: ({ kind }: { kind: string }, key: { name: string }, { json }: { json: JsonPatchOperation[] }) =>
      ask(kind === 'Node' ? 'patch Node' : 'patch', key.name, writesOf(json)),
    delete: ({ kind }: { kind: string }, key: { name: string }, options: { uid?: string }) => ask(kind, key.name, options.uid),
  } as unknown as Hands['client'];
  const by = { delete: () => Promise.resolve('gone' as const), ...(provider === 'none' ? {} : provider) } as InfraProvider;
  const hands = {
    client,
    provider: provider === 'none' ? undefined : by,
    cell: { server: 'https://cell', certificateAuthority: 'ca', mirror: undefined },
    epoch: 3,
    newID: () => 'new',
    signal,
  } as unknown as Hands;
  return {
    asked,
    carryOut: async (steps: Step[], of: MachineView = view()) => {
      const carried: [string, string | undefined][] = [];
      const result = await carryOutAll(steps, of, hands, (step, { note }) => carried.push([step.do, note]));
      return { ...result, carried };
    },
  };
}

const plain: Step = { do: 'DeleteInstance', reservation: undefined, providerID: 'fake://a', why: '' };
const finalize: Step = { do: 'Finalize', reservation: undefined, why: '' };
const addFinalizer: Step = { do: 'AddFinalizer', why: '' };
const syncNode: Step = { do: 'SyncNode', why: '' };
const without = ['patch', 'a', { '/metadata/finalizers': [] }];

describe('C8: the finalizer goes', () => {
  test('once the provider has answered that the instance is gone', async () => {
    const { asked, carryOut } = world();
    expect(await carryOut([plain, finalize])).toMatchObject({
      done: ['DeleteInstance', 'Finalize'],
      carried: [
        ['DeleteInstance', 'gone'],
        ['Finalize', undefined],
      ],
    });
    expect(asked).toEqual([['Lease', agentLeaseName('a'), undefined], without]);
  });

  test('not while the provider is still deleting it', async () => {
    const { asked, carryOut } = world({ provider: { delete: () => Promise.resolve('deleting') } });
    expect(await carryOut([plain, finalize])).toMatchObject({ done: ['DeleteInstance'] });
    expect(asked).toEqual([]);
  });

  test('not where the cell has no such provider, about which nothing is known', async () => {
    const { asked, carryOut } = world({ provider: 'none' });
    expect(await carryOut([plain, finalize])).toMatchObject({ done: [], failure: undefined });
    expect(asked).toEqual([]);
  });

  test('with the Node that the machine had, its Lease and the Lease of the agent, and last of all', async () => {
    const { asked, carryOut } = world({ live: node() });
    await carryOut([finalize]);
    expect(asked).toEqual([['Node', 'a', 'node-a'], ['Lease', 'a', undefined], ['Lease', agentLeaseName('a'), undefined], without]);
  });

  test('with a Node that it never claimed, if that has the ID of its instance', async () => {
    const { nodeRef: _, ...status } = machine().status ?? {};
    const unclaimed = view({ machine: { ...machine(), status } });
    const its = node('a', { spec: { providerID: 'fake://a' } });
    const ours = world({ live: its });
    await ours.carryOut([finalize], unclaimed);
    expect(ours.asked[0]).toEqual(['Node', 'a', 'node-a']);
    const bare = { ...node(), spec: {} };
    for (const [other, providerID] of [
      [node('a', { spec: { providerID: 'fake://b' } }), 'fake://a'],
      [bare, 'fake://a'],
      // Neither has an ID: that proves nothing.
      [bare, undefined],
    ] as const) {
      const theirs = world({ live: other });
      await theirs.carryOut([finalize], { ...unclaimed, providerID });
      expect(theirs.asked).toEqual([['Lease', agentLeaseName('a'), undefined], without]);
    }
  });

  test('also where what belonged to the machine went before, and not where the server would not let it go', async () => {
    for (const error of [failing(404, 'NotFound'), failing(409, 'Conflict')]) {
      const { carryOut, asked } = world({ live: node(), refused: { Node: error, Lease: error } });
      expect(await carryOut([finalize])).toMatchObject({ done: ['Finalize'] });
      expect(asked.at(-1)).toEqual(without);
    }
    const { carryOut, asked } = world({ live: node(), refused: { Node: failing(403, 'Forbidden') } });
    await expect(carryOut([finalize])).rejects.toThrow('Forbidden');
    expect(asked).toHaveLength(1);
  });

  test('and no other goes with it', async () => {
    const { asked, carryOut } = world();
    const kept = machine({ metadata: { finalizers: ['theirs', ...(machine().metadata.finalizers ?? [])] } });
    await carryOut([finalize], view({ machine: kept }));
    expect(asked.at(-1)).toEqual(['patch', 'a', { '/metadata/finalizers': ['theirs'] }]);
  });
});

describe('a step that needs no guard', () => {
  test('adds our finalizer to those that are there', async () => {
    const { asked, carryOut } = world();
    const theirs = machine({ metadata: { finalizers: ['theirs'] } });
    expect(await carryOut([addFinalizer], view({ machine: theirs }))).toMatchObject({ done: ['AddFinalizer'] });
    const [ours] = machine().metadata.finalizers ?? [];
    expect(asked).toEqual([['patch', 'a', { '/metadata/finalizers': ['theirs', ours] }]]);
  });

  test('is left out where another writer was faster; any other error is one', async () => {
    expect(await world({ refused: { patch: failing(409, 'Conflict') } }).carryOut([addFinalizer])).toMatchObject({ done: [], carried: [] });
    await expect(world({ refused: { patch: failing(403, 'Forbidden') } }).carryOut([addFinalizer])).rejects.toThrow('Forbidden');
  });

  test('gives labels to the Node as it is now, if it is still the one that the machine has claimed', async () => {
    const labelled = view({ machine: machine({ spec: { labels: { gpu: 'yes' } } }) });
    const now = node();
    const same = world({ live: { ...now, metadata: { ...now.metadata, resourceVersion: '9' } }, ofMachine: labelled.machine });
    expect(await same.carryOut([syncNode], labelled)).toMatchObject({ done: ['SyncNode'] });
    const nodeKeys = { nodeUID: 'node-a', nodeVersion: 'none', labels: ['gpu=yes'], taints: [] };
    const labels = [
      'patch Node',
      'a',
      {
        '/metadata/annotations': {},
        '/metadata/annotations/kubenode.io~1node-write': '9',
        '/metadata/labels': {},
        '/metadata/labels/gpu': 'yes',
      },
    ];
    // What is to be ours is recorded first.
    expect(same.asked).toEqual([['patch', 'a', { '/status/nodeKeys': nodeKeys }], labels]);
    const noted = { ...labelled.machine, status: { ...labelled.machine.status, nodeKeys } };
    const recorded = world({ live: { ...now, metadata: { ...now.metadata, resourceVersion: '9' } }, ofMachine: noted });
    await recorded.carryOut([syncNode], labelled);
    expect(recorded.asked).toEqual([labels]);
    const unrecorded = world({ live: now, ofMachine: labelled.machine, refused: { patch: failing(409, 'Conflict') } });
    expect(await unrecorded.carryOut([syncNode], labelled)).toMatchObject({ done: [] });
    expect(unrecorded.asked.map(([what]) => what)).toEqual(['patch', 'patch', 'patch', 'patch', 'patch']);
    // Another machine has the name by now.
    const another = { ...labelled.machine, metadata: { ...labelled.machine.metadata, uid: 'another' } };
    const late = world({ live: now, ofMachine: another });
    expect(await late.carryOut([syncNode], labelled)).toMatchObject({ done: [] });
    expect(late.asked).toEqual([]);
    const stranger = { ...now, metadata: { ...now.metadata, uid: 'another' } };
    for (const [live, of] of [
      [stranger, labelled],
      [undefined, labelled],
      [now, { ...labelled, claim: { state: 'Absent' } as unknown as MachineView['claim'] }],
    ] as const) {
      const other = world(live === undefined ? {} : { live });
      expect(await other.carryOut([syncNode], of)).toMatchObject({ done: [] });
      expect(other.asked).toEqual([]);
    }
  });
});

test('C11: a Node that the server, or an admission policy or webhook, does not take with its labels keeps nothing else back', async () => {
  const labelled = view({ machine: machine({ spec: { labels: { gpu: 'yes' } } }) });
  for (const [status, reason] of [
    [422, 'Invalid'],
    [403, 'Forbidden'],
    // Of a webhook that gives neither code nor reason.
    [400, 'Unknown'],
  ] as const) {
    const refusing = world({ live: node(), ofMachine: labelled.machine, refused: { 'patch Node': failing(status, reason) } });
    expect(await refusing.carryOut([syncNode, addFinalizer], labelled)).toMatchObject({ done: ['AddFinalizer'], nodeRefused: reason });
  }
  const broken = world({ live: node(), ofMachine: labelled.machine, refused: { 'patch Node': failing(500, 'InternalError') } });
  await expect(broken.carryOut([syncNode, addFinalizer], labelled)).rejects.toThrow('InternalError');
});

describe('what a provider answers to a machine that is to be made', () => {
  const ensure: Step = { do: 'EnsureInstance', why: '' };

  test('is a failure to be reported, if it is one of its errors', async () => {
    const failure = new CodedError('QuotaExceeded', 'no room');
    const carriedOut = (thrown: Error, signal?: AbortSignal) =>
      world({ found: () => Promise.reject(thrown), ...(signal === undefined ? {} : { signal }) }).carryOut([ensure]);
    expect(await carriedOut(failure)).toMatchObject({ done: [], failure });
    await expect(carriedOut(new Error('it is broken'))).rejects.toThrow('it is broken');
    // A process that ends got no answer.
    await expect(carriedOut(failure, AbortSignal.abort())).rejects.toBe(failure);
  });

  test('is an error in every other step', async () => {
    const failure = new CodedError('Unavailable', 'later');
    await expect(world({ provider: { delete: () => Promise.reject(failure) } }).carryOut([plain])).rejects.toBe(failure);
  });

  test('is nothing where the cell has no such provider', async () => {
    const { carryOut, asked } = world({ provider: 'none' });
    expect(await carryOut([ensure])).toMatchObject({ done: [], failure: undefined });
    expect(asked).toEqual([]);
  });
});
