import { describe, expect, it } from 'vitest';
import type { Cluster, Orphans } from '../../api/cluster.ts';
import { API_VERSION } from '../../api/kind.ts';
import type { KubeObject, Stored } from '../../api/wire.ts';
import { ApiError } from '../../kube/api-error.ts';
import type { Client } from '../../kube/client.ts';
import { recordingLog } from '../../kube/testing/log.ts';
import { CONNECTING, type Away } from '../cell/away.ts';
import type { Cell } from '../cell/cell.ts';
import { NewOrphans } from './new-orphans.ts';
import { Reports } from './reports.ts';

const AWAY: Away = { reason: 'Timeout', message: 'no answer' };
const TRUE = [{ type: 'Reachable', status: 'True', reason: 'Connected', message: '', lastTransitionTime: '2026-11-22T00:00:00Z' }];
const FALSE = [{ ...TRUE[0], status: 'False', reason: 'Timeout', message: 'no answer' }];
const orphan: KubeObject = {
  apiVersion: API_VERSION,
  kind: 'MachineComponentSet',
  metadata: { name: 'old', labels: { 'kubenode.io/fleet': 'main' } },
};

function cellOf({
  away,
  synced = true,
  trial = false,
  objects = [],
}: {
  away?: Away;
  synced?: boolean;
  trial?: boolean;
  objects?: KubeObject[];
}): Cell {
  const content = { store: (kind: string) => ({ list: () => objects.filter((each) => each.kind === kind) }) };
  // Only these parts of a cell are used.
  return {
    read: (decide: (content: unknown) => unknown) => (away === undefined ? decide(content) : undefined),
    away: () => away,
    synced: () => synced,
    isOnTrial: () => trial,
    uid: () => 'cell-uid',
  } as unknown as Cell;
}

const clusterOf = (name: string, status: object = {}): Stored<Cluster> =>
  ({ kind: 'Cluster', metadata: { name, uid: name, resourceVersion: '7' }, spec: {}, status }) as unknown as Stored<Cluster>;

interface World {
  clusters?: Stored<Cluster>[];
  connections: Record<string, Cell | Away>;
  refuses?: Record<string, Error>;
  now?: number;
}

function worldOf({ clusters = [clusterOf('a')], connections, refuses = {} }: World) {
  const patches: { name: string; merge: { status: Record<string, unknown> } }[] = [];
  const events: string[] = [];
  const log = recordingLog();
  const time = { ms: 0 };
  const hub = {
    patch: (_kind: unknown, { name }: { name: string }, { merge }: { merge: { status: Record<string, unknown> } }) => {
      const refused = refuses[name];
      if (refused !== undefined) return Promise.reject(refused);
      patches.push({ name, merge });
      return Promise.resolve({});
    },
  } as unknown as Client;
  const reports = new Reports({
    clusters: {
      list: () => clusters,
      get: ({ name }: { name: string }) => clusters.find(({ metadata }) => metadata.name === name),
    } as never,
    fleets: { list: () => [{ metadata: { name: 'main' } }] } as never,
    inForceOf: () => [],
    recorder: {
      event: ({ metadata }: KubeObject, { type, reason, message }: { type: string; reason: string; message: string }) =>
        events.push(`${metadata.name} ${type} ${reason}: ${message}`),
    } as never,
    clock: { monotonic: () => time.ms, now: () => Date.parse('2026-11-22T00:00:00Z') } as never,
    signal: new AbortController().signal,
  });
  const report = async () => await reports.report(new Map(Object.entries(connections)), hub, log);
  return { report, reports, patches, events, log, time };
}

const refusal = (reason: 'Conflict' | 'NotFound' | 'Invalid' | 'BadRequest' | 'RequestEntityTooLarge' | 'Forbidden', code: number) =>
  new ApiError(code, { reason, message: reason });

describe('a Cluster is reported', () => {
  it('as its cell is, conditioned on what was read, and with an Event where it is away', async () => {
    const { report, patches, events } = worldOf({ connections: { a: AWAY } });
    expect(await report()).toBe(true);
    expect(patches).toMatchObject([
      { name: 'a', merge: { metadata: { resourceVersion: '7' }, status: { conditions: [{ status: 'False', reason: 'Timeout' }] } } },
    ]);
    expect(events).toEqual(['a Warning Timeout: no answer']);
  });

  it('once, where nothing differs since', async () => {
    const first = worldOf({ connections: { a: cellOf({}) } });
    await first.report();
    const { machines, ...status } = first.patches[0]?.merge.status ?? {};
    const stored = { ...status, machines: { ...(machines as object), sets: [] } };
    const again = worldOf({ clusters: [clusterOf('a', stored)], connections: { a: cellOf({}) } });
    expect(await again.report()).toBe(true);
    expect(again.patches).toEqual([]);
  });

  it.each<[string, object, Cell | Away, string[]]>([
    ['that is reached for the first time has no Event', {}, cellOf({}), []],
    ['that is reached again has one', { conditions: FALSE }, cellOf({}), ['a Normal Connected: the hub reaches it again']],
    ['that is away again has one', { conditions: TRUE }, AWAY, ['a Warning Timeout: no answer']],
    ['that is away still has none', { conditions: FALSE }, { ...AWAY, message: 'no answer yet' }, []],
    [
      'that answers, and what it reports is not believed, is away',
      { conditions: TRUE },
      cellOf({ away: AWAY }),
      ['a Warning Timeout: no answer'],
    ],
  ])('%s', async (_what, status, connection, events) => {
    const world = worldOf({ clusters: [clusterOf('a', status)], connections: { a: connection } });
    expect(await world.report()).toBe(true);
    expect(world.events).toEqual(events);
    expect(world.patches).toHaveLength(1);
  });

  it.each<[string, Record<string, Cell | Away>]>([
    ['of which no connection is known', {}],
    ['that is being connected', { a: { reason: CONNECTING, message: '' } }],
    ['whose connection is made again', { a: cellOf({ away: { reason: CONNECTING, message: '' } }) }],
    ['whose lists are not read', { a: cellOf({ synced: false }) }],
    ['that is on trial', { a: cellOf({ trial: true }) }],
  ])('not where one %s', async (_what, connections) => {
    const { report, patches, events } = worldOf({ connections });
    expect(await report()).toBe(true);
    expect([patches, events]).toEqual([[], []]);
  });

  it.each(['Conflict', 'NotFound'] as const)(
    'by the next pass where another has written it, and no Event is of what was not written: %s',
    async (reason) => {
      const { report, events } = worldOf({ connections: { a: AWAY }, refuses: { a: refusal(reason, 409) } });
      expect(await report()).toBe(true);
      expect(events).toEqual([]);
    },
  );

  it.each(['Invalid', 'BadRequest', 'RequestEntityTooLarge'] as const)(
    'also where the report of another one is refused: %s',
    async (reason) => {
      const world = worldOf({
        clusters: [clusterOf('a'), clusterOf('b')],
        connections: { a: AWAY, b: AWAY },
        refuses: { a: refusal(reason, 422) },
      });
      expect(await world.report()).toBe(false);
      expect(world.patches.map(({ name }) => name)).toEqual(['b']);
      expect(world.events).toEqual([`a Warning StatusNotWritten: ${reason}`, 'b Warning Timeout: no answer']);
      expect(world.log.lines).toMatchObject([{ level: 'warn', fields: { cluster: 'a', error: reason } }]);
    },
  );

  it('and any other failure shows after all were tried: it may be the hub that does not answer', async () => {
    const world = worldOf({
      clusters: [clusterOf('a'), clusterOf('b')],
      connections: { a: AWAY, b: AWAY },
      refuses: { a: refusal('Forbidden', 403) },
    });
    await expect(world.report()).rejects.toThrow('Forbidden');
    expect(world.patches.map(({ name }) => name)).toEqual(['b']);
  });

  it('with what belongs to no unit once it was there for a minute', async () => {
    const { report, reports, patches, time } = worldOf({ connections: { a: cellOf({ objects: [orphan] }) } });
    const last = () => patches.at(-1)?.merge.status['orphans'] as Orphans | undefined;
    await report();
    expect(last()).toBeUndefined();
    expect(reports.waits()).toEqual([60_000]);
    time.ms = 59_999;
    await report();
    expect(last()).toBeUndefined();
    time.ms = 60_000;
    expect(reports.waits()).toEqual([0]);
    await report();
    expect(last()).toMatchObject({ total: 1, first: [{ object: 'MachineComponentSet/old', reason: 'NotDeclared' }] });
  });
});

describe('what belongs to no unit', () => {
  const found: Orphans = { total: 1, first: [] };
  it('is reported at once where the Cluster reports some already, or none are left', () => {
    const orphans = new NewOrphans({ monotonic: () => 0 });
    expect(orphans.reported(clusterOf('a', { orphans: found }), found)).toBe(found);
    expect(orphans.reported(clusterOf('a'), undefined)).toBeUndefined();
    expect(orphans.waits()).toEqual([]);
  });

  it('waits again where it was gone in between, and of a Cluster that is gone nothing is kept', () => {
    let now = 0;
    const orphans = new NewOrphans({ monotonic: () => now });
    orphans.reported(clusterOf('a'), found);
    now = 50_000;
    orphans.reported(clusterOf('a'), undefined);
    orphans.reported(clusterOf('a'), found);
    expect(orphans.waits()).toEqual([60_000]);
    now = 70_000;
    expect(orphans.reported(clusterOf('a'), found)).toBeUndefined();
    expect(orphans.waits()).toEqual([40_000]);
    now = 200_000;
    expect(orphans.waits()).toEqual([0]);
    orphans.keep((name) => name === 'a');
    expect(orphans.waits()).toHaveLength(1);
    orphans.keep(() => false);
    expect(orphans.waits()).toEqual([]);
  });
});
