import { expect, it } from 'vitest';
import { endOfCertificate, endOfHold, holdName, MOST_UNSIGNED, withIssued, withRequest } from './holds.ts';

const NOW = Date.parse('2026-11-20T12:00:00Z');
const DAY = 24 * 3_600_000;

it('G4f: a request counts with what it asks for, or with a year; what it got replaces that, sooner or later', () => {
  const asked = withRequest({}, 'one', 600, NOW);
  expect(endOfHold({ ends: asked })).toBeGreaterThan(NOW + 600_000);
  const both = withRequest(asked, 'two', undefined, NOW);
  expect(endOfHold({ ends: both })).toBeGreaterThan(NOW + 365 * DAY);
  const got = withIssued(both, 'two', NOW + DAY, NOW);
  expect(got).toEqual({ ...asked, issued: '2026-11-21T12:00:00Z' });
  expect(withIssued(got, 'one', NOW + 3650 * DAY, NOW)).toEqual({ issued: '2036-11-17T12:00:00Z' });
  expect(withIssued(got, 'one', NOW + 1000, NOW)).toEqual({ issued: '2026-11-21T12:00:00Z' });
});

it('G4f: a request that is judged again after a crash keeps its end, and what has ended is forgotten', () => {
  const asked = withRequest({}, 'one', 600, NOW);
  expect(withRequest(asked, 'one', 600, NOW + 1000)).toEqual(asked);
  expect(Object.keys(withRequest(asked, 'two', 600, NOW + DAY))).toEqual(['two']);
});

it('G4f: many requests that are gone, and were never seen signed, are one entry with the last end of all', () => {
  let ends: Readonly<Record<string, string>> = {};
  for (let each = 0; each < 40; each++) {
    ends = withRequest(ends, `uid-${each}`, each === 3 ? undefined : 600, NOW);
    expect(Object.keys(ends).length).toBeLessThanOrEqual(MOST_UNSIGNED);
  }
  expect(endOfHold({ ends })).toBeGreaterThan(NOW + 365 * DAY);
});

it('G4f: requests that are still there keep an end of their own, which the end of the certificate replaces', () => {
  const uids = Array.from({ length: 3 * MOST_UNSIGNED }, (_, each) => `uid-${each}`);
  const there = uids.slice(-MOST_UNSIGNED);
  let ends: Readonly<Record<string, string>> = {};
  for (const uid of uids) ends = withRequest(ends, uid, 600, NOW, there);
  expect(there.every((uid) => ends[uid] !== undefined)).toBe(true);
  expect(Object.keys(ends).length).toBe(MOST_UNSIGNED + 1);
  ends = withRequest({}, 'gone', 600, NOW, there);
  for (const uid of there) ends = withRequest(ends, uid, undefined, NOW, there);
  for (const uid of there) ends = withIssued(ends, uid, NOW + DAY, NOW);
  expect(endOfHold({ ends })).toBe(NOW + DAY);
});

it('G4f: nothing held ends before everything', () => expect(endOfHold({ ends: {} })).toBe(-Infinity));

it('G4f: each name of a Node has a Lease of its own, whose name an API server takes', () => {
  const long = ['a', 'b'].map((end) => `${'x'.repeat(63)}.${'y'.repeat(63)}.${'z'.repeat(63)}.${'v'.repeat(60)}${end}`);
  const names = ['a', 'a.b', ...long].map(holdName);
  expect(new Set(names).size).toBe(4);
  expect(names.every((name) => name.length <= 253 && /^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$/.test(name))).toBe(true);
});

it('what is no certificate has no end', () => expect(endOfCertificate('bm9uZQ==')).toBeUndefined());
