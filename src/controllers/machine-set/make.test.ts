import { expect, test } from 'vitest';
import { API_VERSION } from '../../api/kind.ts';
import { Machines } from '../../api/machine.ts';
import { MachineSets } from '../../api/machine-set.ts';
import type { Clock } from '../../api/ports.ts';
import { seededRandom } from '../../kube/testing/clock.ts';
import { modelApi, type Fault, type ModelApi, type ModelReader } from '../machine-component-set/testing/api.ts';
import { reconcileMachineSet } from './reconcile.ts';
import { applyMachine } from './testing/applier.ts';
import { createSetWorld } from './testing/world.ts';

const KEY = { namespace: 'web', name: 'web-a' };
const log = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined };
const clock: Clock = { now: () => Date.UTC(2026, 10, 20), monotonic: () => 0, setTimer: () => () => undefined };

function cell(replicas: number): ModelApi {
  const api = modelApi(() => clock.now(), applyMachine);
  api.create(MachineSets, {
    apiVersion: API_VERSION,
    kind: 'MachineSet',
    metadata: { ...KEY },
    spec: { provider: { name: 'fake' }, replicas },
  });
  return api;
}

/** One pass of a leader that sees the sets of one reader and the machines of another. */
async function pass(api: ModelApi, { sets, machines }: { sets: ModelReader; machines: ModelReader }, faults: Fault[] = []): Promise<void> {
  const client = api.client(
    () => faults.shift() ?? 'none',
    () => undefined,
  );
  const deps = {
    sets: sets.store(MachineSets),
    machines: machines.store(Machines),
    componentSets: { list: () => [] },
    clock,
    random: seededRandom(api.version),
    recorder: { event: () => undefined },
    providers: new Map([['fake', { validate: () => [] }]]),
    epoch: 1,
    unsettled: new Map<string, number>(),
  };
  await reconcileMachineSet(deps, `${KEY.namespace}/${KEY.name}`, { client, log, signal: new AbortController().signal }).catch(
    () => undefined,
  );
}

const names = (api: ModelApi): string[] => api.list(Machines).map(({ metadata }) => metadata.name);
const noted = (api: ModelApi): string[] => api.find(MachineSets, KEY)?.status?.making ?? [];

test('C8c: a leader whose machines are older than its set makes none twice, though the set notes no name any more', async () => {
  const api = cell(2);
  const old = api.reader();
  old.store(Machines);
  for (let round = 0; round < 3; round++) await pass(api, { sets: api.reader(), machines: api.reader() });
  expect([names(api).length, noted(api).length]).toEqual([2, 0]);
  await pass(api, { sets: api.reader(), machines: old });
  expect(names(api)).toHaveLength(2);
});

test('C8c: a leader that dies after it noted names leaves them to the next, which makes those', async () => {
  const api = cell(2);
  await pass(api, { sets: api.reader(), machines: api.reader() }, ['dieAfter']);
  const first = noted(api);
  expect([first.length, names(api)]).toEqual([2, []]);
  await pass(api, { sets: api.reader(), machines: api.reader() });
  expect(names(api).toSorted()).toEqual(first.toSorted());
});

test('C8c: a leader that is late with its note makes nothing', async () => {
  const api = cell(2);
  const late = { sets: api.reader(), machines: api.reader() };
  late.sets.store(MachineSets);
  late.machines.store(Machines);
  for (let round = 0; round < 3; round++) await pass(api, { sets: api.reader(), machines: api.reader() });
  await pass(api, late);
  expect(names(api)).toHaveLength(2);
});

test('C8c: a name that another client took is given up for another', async () => {
  const api = cell(1);
  await pass(api, { sets: api.reader(), machines: api.reader() }, ['dieAfter']);
  const [taken = ''] = noted(api);
  api.create(Machines, { apiVersion: API_VERSION, kind: 'Machine', metadata: { namespace: 'web', name: taken }, spec: {} });
  for (let round = 0; round < 3; round++) await pass(api, { sets: api.reader(), machines: api.reader() });
  expect(names(api)).toHaveLength(2);
  expect(api.list(Machines).filter(({ metadata }) => metadata.ownerReferences !== undefined)).toHaveLength(1);
});

test('C8c: names are noted until their machines are seen, and no longer', async () => {
  const world = createSetWorld();
  world.set({ replicas: 3, maxInFlight: 2 });
  world.relist();
  await world.run();
  expect([world.machines().length, world.status().making?.length]).toEqual([2, 2]);
  await world.settle();
  expect(world.status().making).toBeUndefined();
});
