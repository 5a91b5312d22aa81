import { beforeEach, describe, expect, it } from 'vitest';
import { unitDigest } from '../../api/digest.ts';
import type { KubeObject } from '../../api/wire.ts';
import { fakeClock, seededRandom } from '../../kube/testing/clock.ts';
import type { StoredUnit } from '../bundles.ts';
import { openUnits } from './units.ts';

const object = (name: string): KubeObject => ({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name } });
const unitOf = (name: string): StoredUnit => ({ key: `ConfigMap/${name}`, objects: [object(name)], origins: [undefined] });
const wanted = (name: string, commit = 'c1') => ({
  digest: unitDigest([object(name)]),
  commit,
  unit: `ConfigMap/${name}`,
  cluster: 'prod',
});

describe('E8: what an empty cache lost', () => {
  const clock = fakeClock();
  let rendered: string[] = [];
  let fails = false;
  const quiet = { debug() {}, info() {}, warn() {}, error() {} };
  const open = () =>
    openUnits({
      bundles: { get: () => Promise.resolve(undefined), put: () => Promise.resolve() },
      async render(_fleet, commit, unit) {
        rendered.push(`${commit} ${unit}`);
        if (fails) throw new Error('no answer');
        return unitOf(unit.split('/')[1] ?? '');
      },
      clock,
      random: seededRandom(1),
      log: quiet,
      signal: new AbortController().signal,
    });
  beforeEach(() => {
    rendered = [];
    fails = false;
  });

  it('is rendered again from the commit of its record, once', async () => {
    const units = open();
    await units.load('main', [wanted('a'), wanted('b', 'c2'), wanted('a')]);
    await units.load('main', [wanted('a'), wanted('b', 'c2')]);
    expect(rendered).toEqual(['c1 ConfigMap/a', 'c2 ConfigMap/b']);
    expect(units.get(wanted('a').digest)?.key).toBe('ConfigMap/a');
    expect(units.missing(wanted('a').digest)).toBeUndefined();
  });

  it('says why it is missing, and is tried again with backoff, a commit at a time', async () => {
    const units = open();
    fails = true;
    await units.load('main', [wanted('a'), wanted('b')]);
    await units.load('main', [wanted('a'), wanted('b')]);
    expect(rendered).toEqual(['c1 ConfigMap/a']);
    for (const name of ['a', 'b']) expect(units.missing(wanted(name).digest)).toBe('no answer');
    expect(units.dueAtMs()).toBeGreaterThan(clock.monotonic());
    fails = false;
    await clock.advance(1000);
    await units.load('main', [wanted('a'), wanted('b')]);
    for (const name of ['a', 'b']) expect(units.get(wanted(name).digest)?.key).toBe(`ConfigMap/${name}`);
    expect(units.dueAtMs()).toBeUndefined();
  });
});
