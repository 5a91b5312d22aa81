import { expect, it } from 'vitest';
import { Leases, type Lease } from '../../api/builtin.ts';
import { fakeClock } from '../../kube/testing/clock.ts';
import { leaseAges } from './lease-ages.ts';
import { modelApi } from '../machine-component-set/testing/api.ts';

const key = { namespace: 'web', name: 'agent-a' };

function setup(renewedAgoMs = 0) {
  const clock = fakeClock();
  const api = modelApi(() => clock.now());
  const renewTime = new Date(clock.now() - renewedAgoMs).toISOString();
  const lease: Lease = {
    apiVersion: 'coordination.k8s.io/v1',
    kind: 'Lease',
    metadata: key,
    spec: { renewTime, leaseDurationSeconds: 180 },
  };
  api.create(Leases, lease);
  const reader = api.reader();
  const ages = leaseAges(reader.store(Leases), clock);
  const renew = (renewTime: string): void => api.edit(Leases, key, (each) => void (each.spec = { ...each.spec, renewTime }));
  return { clock, api, reader, ages, renew };
}

it('believes the renewTime of a Lease that was there before', () => {
  const { ages } = setup(3_600_000);
  expect(ages.of(key)).toMatchObject({ silentMs: 3_600_000, fresh: false });
});

it('judges later renewals by its own clock: a node whose clock is an hour wrong is alive', async () => {
  const { clock, reader, ages, renew } = setup(3_600_000);
  await clock.advance(60_000);
  renew(new Date(clock.now() - 3_599_000).toISOString());
  reader.deliver(9);
  expect(ages.of(key)).toMatchObject({ silentMs: 0, fresh: true });
  await clock.advance(181_000);
  reader.deliver(9);
  expect(ages.of(key)).toMatchObject({ silentMs: 181_000, fresh: false });
});

it('says until when a Lease is fresh', async () => {
  const { clock, ages } = setup(60_000);
  const untilMs = ages.freshUntilMs(key) ?? 0;
  expect(untilMs - clock.monotonic()).toBe(120_000);
  await clock.advance(120_000);
  expect(ages.of(key)?.fresh).toBe(true);
  await clock.advance(1);
  expect(ages.of(key)?.fresh).toBe(false);
  expect(ages.freshUntilMs({ namespace: 'web', name: 'other' })).toBeUndefined();
});

it('holds nobody for silent while it was not listening itself, nor for fresh', async () => {
  const { clock, ages } = setup();
  await clock.advance(700_000);
  expect(ages.of(key)).toMatchObject({ silentMs: 0, fresh: false });
  expect(ages.quietMs()).toBe(700_000);
});

it('knows no age of a Lease that is not there, or not any more', () => {
  const { api, reader, ages } = setup();
  expect(ages.of({ namespace: 'web', name: 'other' })).toBeUndefined();
  api.remove(Leases, key);
  reader.deliver(9);
  expect(ages.of(key)).toBeUndefined();
});

it('counts from when it saw a Lease whose renewTime is none', async () => {
  const clock = fakeClock();
  const api = modelApi(() => clock.now());
  const lease = { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease' };
  const other = { namespace: 'web', name: 'agent-b' };
  api.create(Leases, { ...lease, metadata: key, spec: { renewTime: 'yesterday', leaseDurationSeconds: 10 } });
  api.create(Leases, { ...lease, metadata: other, spec: {} });
  const reader = api.reader();
  const ages = leaseAges(reader.store(Leases), clock);
  expect(ages.of(key)).toEqual({ silentMs: 0, fresh: true });
  expect((ages.freshUntilMs(other) ?? 0) - clock.monotonic()).toBe(180_000);
  await clock.advance(10_001);
  reader.deliver(9);
  expect(ages.of(key)).toEqual({ silentMs: 10_001, fresh: false });
  expect(ages.of(other)).toEqual({ silentMs: 10_001, fresh: true });
});

it('holds a Lease for fresh whose holder has a clock that is ahead', () => {
  const { clock, ages } = setup(-3_600_000);
  expect(ages.of(key)).toEqual({ silentMs: 0, fresh: true });
  expect((ages.freshUntilMs(key) ?? 0) - clock.monotonic()).toBe(180_000);
});
