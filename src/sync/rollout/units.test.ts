import { beforeEach, describe, expect, it } from 'vitest';
import { unitDigest } from '../../api/digest.ts';
import type { KubeObject } from '../../api/wire.ts';
import { CodedError } from '../../api/errors.ts';
import { fakeClock } from '../../kube/testing/clock.ts';
import { recordingLog } from '../../kube/testing/log.ts';
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
  let fails: boolean | ((unit: string) => Error | undefined) = false;
  let kept: Map<string, StoredUnit>;
  let log = recordingLog();
  let stop = new AbortController();
  const open = () =>
    openUnits({
      bundles: { get: (digest) => Promise.resolve(kept.get(digest)), put: async (digest, unit) => void kept.set(digest, unit) },
      async render(_fleet, commit, unit) {
        rendered.push(`${commit} ${unit}`);
        const failure = fails === true ? new Error('no answer') : fails === false ? undefined : fails(unit);
        if (failure !== undefined) throw failure;
        return unitOf(unit.split('/')[1] ?? '');
      },
      clock,
      random: () => 0.5,
      log,
      signal: stop.signal,
    });
  beforeEach(() => {
    rendered = [];
    fails = false;
    kept = new Map();
    log = recordingLog();
    stop = new AbortController();
  });

  it('is rendered again from the commit of its record, once', async () => {
    const units = open();
    await units.load('main', [wanted('a'), wanted('b', 'c2'), wanted('a')]);
    await units.load('main', [wanted('a'), wanted('b', 'c2')]);
    expect(rendered).toEqual(['c1 ConfigMap/a', 'c2 ConfigMap/b']);
    expect(units.get(wanted('a').digest)?.key).toBe('ConfigMap/a');
    expect(units.missing(wanted('a').digest)).toBeUndefined();
    expect(kept.get(wanted('b').digest)?.key).toBe('ConfigMap/b');
    expect(log.lines).toEqual([]);
  });

  it('reports why it is missing, and is tried again with backoff, a commit at a time', async () => {
    const units = open();
    fails = true;
    await units.load('main', [wanted('a'), wanted('b')]);
    await units.load('main', [wanted('a'), wanted('b')]);
    expect(rendered).toEqual(['c1 ConfigMap/a']);
    for (const name of ['a', 'b']) expect(units.missing(wanted(name).digest)).toBe('no answer');
    expect(units.dueAtMs(clock.monotonic())).toBeGreaterThan(clock.monotonic());
    fails = false;
    await clock.advance(1000);
    await units.load('main', [wanted('a'), wanted('b')]);
    for (const name of ['a', 'b']) expect(units.get(wanted(name).digest)?.key).toBe(`ConfigMap/${name}`);
    expect(units.dueAtMs(clock.monotonic())).toBeUndefined();
  });

  it('is tried ever more rarely while its commit cannot be rendered, and as at first when that is over', async () => {
    const units = open();
    const triesIn = async (ms: number): Promise<number> => {
      const before = rendered.length;
      for (let passed = 0; passed < ms; passed += 250) {
        await units.load('main', [wanted('a')]);
        await clock.advance(250);
      }
      return rendered.length - before;
    };
    fails = true;
    // At 0, 0.75 and 2.25 s.
    expect(await triesIn(750)).toBe(1);
    expect(await triesIn(750)).toBe(1);
    expect(await triesIn(750)).toBe(0);
    expect(await triesIn(750)).toBe(1);
    expect(await triesIn(600_000)).toBeLessThan(15);
    expect(log.lines.at(-1)).toMatchObject({ level: 'warn', fields: { fleet: 'main', commit: 'c1', error: 'no answer' } });
    fails = false;
    await triesIn(300_000);
    expect(units.missing(wanted('a').digest)).toBeUndefined();
    fails = true;
    await units.load('main', [wanted('b')]);
    expect(rendered.at(-1)).toBe('c1 ConfigMap/b');
    expect((units.dueAtMs(clock.monotonic()) ?? 0) - clock.monotonic()).toBe(750);
  });

  it('is not missing where its commit was rendered before something else of it failed', async () => {
    const units = open();
    fails = (unit) => (unit === 'ConfigMap/b' ? new Error('killed') : undefined);
    await units.load('main', [wanted('a'), wanted('b'), wanted('c')]);
    expect(rendered).toEqual(['c1 ConfigMap/a', 'c1 ConfigMap/b']);
    expect(['a', 'b', 'c'].map((name) => units.missing(wanted(name).digest))).toEqual([undefined, 'killed', 'killed']);
  });

  it.each(['DigestMismatch', 'InvalidDigest'])('costs the rest of its commit nothing where it alone cannot be had: %s', async (code) => {
    const units = open();
    fails = (unit) => (unit === 'ConfigMap/a' ? new CodedError(code, 'renders no more') : undefined);
    await units.load('main', [wanted('a'), wanted('b')]);
    expect(['a', 'b'].map((name) => units.missing(wanted(name).digest))).toEqual(['renders no more', undefined]);
    expect(units.get(wanted('b').digest)?.key).toBe('ConfigMap/b');
    expect(units.dueAtMs(clock.monotonic())).toBeGreaterThan(clock.monotonic());
  });

  it('is missing no more when the cache has it again, and nothing is due then', async () => {
    const units = open();
    fails = true;
    await units.load('main', [wanted('a')]);
    kept.set(wanted('a').digest, unitOf('a'));
    await units.load('main', [wanted('a')]);
    expect([units.missing(wanted('a').digest), units.dueAtMs(clock.monotonic())]).toEqual([undefined, undefined]);
    expect(units.get(wanted('a').digest)?.key).toBe('ConfigMap/a');
  });

  it('is due when the first of several commits is', async () => {
    const units = open();
    fails = true;
    await units.load('main', [wanted('a')]);
    const first = units.dueAtMs(clock.monotonic());
    await clock.advance(100);
    await units.load('main', [wanted('b', 'c2')]);
    expect(units.dueAtMs(clock.monotonic())).toBe(first);
  });

  it('is forgotten when it is not used any more, with the tries that failed', async () => {
    const units = open();
    await units.load('main', [wanted('a'), wanted('b')]);
    fails = true;
    await units.load('main', [wanted('c', 'c2')]);
    units.keep(new Set([wanted('a').digest, wanted('c').digest]));
    expect([units.get(wanted('a').digest)?.key, units.get(wanted('b').digest)]).toEqual(['ConfigMap/a', undefined]);
    expect(units.missing(wanted('c').digest)).toBe('no answer');
    expect(units.dueAtMs(clock.monotonic())).toBeDefined();
    // One that is missing still holds the others back.
    await units.load('main', [wanted('d', 'c2')]);
    expect(rendered.filter((each) => each.startsWith('c2'))).toEqual(['c2 ConfigMap/c']);
    units.keep(new Set([wanted('a').digest]));
    expect([units.missing(wanted('c').digest), units.dueAtMs(clock.monotonic())]).toEqual([undefined, undefined]);
    await units.load('main', [wanted('d', 'c2')]);
    expect(rendered.filter((each) => each.startsWith('c2'))).toEqual(['c2 ConfigMap/c', 'c2 ConfigMap/d']);
  });

  it('is asked for no longer when the hub ends, and nothing is reported of that', async () => {
    const units = open();
    fails = () => {
      stop.abort(new Error('the end'));
      return new Error('killed');
    };
    await expect(units.load('main', [wanted('a'), wanted('b')])).rejects.toThrow('the end');
    expect(rendered).toEqual(['c1 ConfigMap/a']);
    expect(log.lines).toEqual([]);
  });
});
