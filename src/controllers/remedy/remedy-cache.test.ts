import { afterEach, describe, expect, test } from 'vitest';
import { Nodes } from '../../api/builtin.ts';
import { DisruptionLedgers, LEDGER_NAME } from '../../api/disruption-ledger.ts';
import { Machines } from '../../api/machine.ts';
import { NodeRemediers } from '../../api/node-remedier.ts';
import type { ApiResponse } from '../../api/transport.ts';
import { createCache } from '../../kube/cache.ts';
import { createClient } from '../../kube/http-client.ts';
import { fakeApiServer } from '../../kube/testing/api-server.ts';
import { fakeClock, seededRandom } from '../../kube/testing/clock.ts';
import { recordingLog } from '../../kube/testing/log.ts';
import { rule } from '../../rules/testing.ts';
import { openRemedyCache } from './remedy-cache.ts';

const ends: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0)) await end();
});

/** The cache of a server that sends nothing of `stale` after its first list. */
async function seen(stale?: string, before: (api: ReturnType<typeof fakeApiServer>) => void = () => undefined) {
  const api = fakeApiServer();
  before(api);
  const clock = fakeClock();
  const ended = new AbortController();
  let isCut = false;
  api.intercept(({ path, query, signal }) => {
    if (stale === undefined || !path.endsWith(`/${stale}`) || (!isCut && query?.['watch'] === undefined)) return undefined;
    return new Promise<ApiResponse>((_, reject) => signal?.addEventListener('abort', () => reject(signal.reason), { once: true }));
  });
  const ports = { client: createClient(api.transport), clock, random: seededRandom(1), log: recordingLog(), signal: ended.signal };
  const cache = createCache(ports);
  const opening = openRemedyCache({ ...ports, cache });
  await clock.advance(1000);
  const remedyCache = await opening;
  isCut = true;
  ends.push(() => (remedyCache.stop(), ended.abort(new Error('over')), cache.done()));
  const isStale = (): boolean => remedyCache.isStale();
  return {
    api,
    remedyCache,
    clock,
    isStale,
    /** Time passes in which the server sends bookmarks of all other kinds. */
    pass: async (seconds: number): Promise<void> => {
      for (let left = seconds; left > 0; left -= 10) {
        await clock.advance(10_000);
        api.bookmark();
        await clock.advance(0);
      }
    },
  };
}

describe('invariant 7: a cell whose stores are stale is not judged', () => {
  test.each(['machines', 'nodes', 'leases', 'disruptionledgers', 'remedyoperationjobs'])(
    'after 150 seconds without %s, while all the others are current',
    async (plural) => {
      const { isStale, pass } = await seen(plural);
      await pass(140);
      expect(isStale()).toBe(false);
      await pass(20);
      expect(isStale()).toBe(true);
    },
  );

  test('one whose stores are current is, for ever', async () => {
    const { isStale, pass } = await seen();
    await pass(1000);
    expect(isStale()).toBe(false);
  });
});

test('machines that were there before are counted as soon as it is open, and no listener is notified of that', async () => {
  const names = ['a', 'b', 'c'];
  const { remedyCache, clock } = await seen(undefined, (api) => {
    for (const name of names) {
      const node = api.put(Nodes, { apiVersion: 'v1', kind: 'Node', metadata: { name } });
      const nodeRef = { name, uid: node.metadata.uid };
      const metadata = { name, namespace: 'web', uid: `uid-${name}` };
      api.put(Machines, { apiVersion: 'kubenode.io/v1alpha1', kind: 'Machine', metadata, spec: {}, status: { nodeRef } });
    }
  });
  const changed: string[] = [];
  remedyCache.onGroups((groups) => void changed.push(...groups));
  const [machine] = remedyCache.machinesOfNode('a');
  expect(machine && remedyCache.snapshot(machine).peers.cluster).toMatchObject({ total: 2, unhealthy: 2 });
  expect(machine && Object.keys(remedyCache.groupsOf(machine.metadata.uid)).toSorted()).toEqual(['cluster', 'pool']);
  await clock.advance(1000);
  expect(changed).toEqual([]);
});

test('reservations of the ledger: listeners get their machines when they come, are others or go, and at no other write', async () => {
  const { api, remedyCache, clock } = await seen();
  const uids = ['a', 'b'].map(
    (name) =>
      api.put(Machines, { apiVersion: 'kubenode.io/v1alpha1', kind: 'Machine', metadata: { name, namespace: 'web' }, spec: {} }).metadata
        .uid ?? '',
  );
  const changed = new Set<string>();
  remedyCache.onMachine((key) => void changed.add(key));
  const since = '2026-01-01T00:00:00Z';
  const reservation = (id: string, machineUID = uids[0] ?? '') => ({
    id,
    machineUID,
    machine: 'web/a',
    kind: 'Change' as const,
    class: 'Change' as const,
    requesterUID: `of-${id}`,
    requester: '',
    scopes: [],
    since,
    notAfter: since,
  });
  const write = async (reservations: ReturnType<typeof reservation>[], name = LEDGER_NAME): Promise<string[]> => {
    await clock.advance(1000);
    changed.clear();
    api.put(DisruptionLedgers, {
      apiVersion: 'kubenode.io/v1alpha1',
      kind: 'DisruptionLedger',
      metadata: { name },
      spec: {},
      status: { reservations },
    });
    await clock.advance(1000);
    return [...changed].toSorted();
  };
  expect(await write([])).toEqual([]);
  expect(await write([reservation('one')])).toEqual(['web/a']);
  expect(remedyCache.reservationOf(uids[0] ?? '')?.id).toBe('one');
  expect(remedyCache.reservationAskedBy('of-one')?.machineUID).toBe(uids[0]);
  expect(await write([reservation('one')])).toEqual([]);
  expect(await write([reservation('two')])).toEqual(['web/a']);
  expect(await write([reservation('two'), reservation('three', uids[1])])).toEqual(['web/b']);
  expect(await write([reservation('of another ledger')], 'another')).toEqual([]);
  expect(remedyCache.reservationOf(uids[0] ?? '')?.id).toBe('two');
  expect(await write([reservation('three', uids[1])])).toEqual(['web/a']);
  expect(remedyCache.reservationOf(uids[0] ?? '')).toBeUndefined();
});

test('a listener for rules is called when a rule is another one, and not for its status or a bookmark', async () => {
  const { api, remedyCache, clock } = await seen();
  const calls: string[][] = [];
  remedyCache.onRulebook((_before, { sources }) => void calls.push([...sources.keys()]));
  const hung = rule('hung');
  const write = async (change: object): Promise<void> => {
    api.put(NodeRemediers, { ...hung, ...change });
    await clock.advance(1000);
  };
  await write({});
  expect(calls).toEqual([['hung']]);
  await write({ status: { observedGeneration: 1 } });
  api.bookmark();
  await clock.advance(1000);
  expect(calls).toHaveLength(1);
  await write({ spec: { ...hung.spec, holdsForSeconds: 31 } });
  expect(calls).toHaveLength(2);
});
