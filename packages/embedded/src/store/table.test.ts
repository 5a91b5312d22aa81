import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { entryOf, type Entry, type EntryEvent } from './entry.ts';
import { Table } from './table.ts';

const NOTHING = { labels: {}, fields: {}, owners: [] };

function entry(key: string, rv: number): Entry {
  const [namespace = '', name = ''] = key.split('/');
  return entryOf({ metadata: { namespace, name, uid: key } }, rv, NOTHING);
}

/** Writes to a few keys; the objects at each resourceVersion are kept aside. */
function play(table: Table, writes: readonly [string, boolean][], from: number): Map<number, string[]> {
  const truth = new Map<number, string[]>();
  let rv = from;
  for (const [key, remove] of writes) {
    const previous = table.get(key);
    if (remove && previous === undefined) continue;
    rv++;
    const now = entry(key, rv);
    const event: EntryEvent = {
      type: remove ? 'DELETED' : previous === undefined ? 'ADDED' : 'MODIFIED',
      resource: 'r',
      rv,
      entry: now,
      previous,
    };
    table.record(event);
    truth.set(rv, Array.from(table.entries(), (item) => `${item.key}@${item.rv}`).sort());
  }
  return truth;
}

const keys = fc.constantFrom('a/x', 'a/y', 'a-b/x', 'b/x', 'b/z');
const writes = fc.array(fc.tuple(keys, fc.boolean()), { maxLength: 60 });

describe('a table', () => {
  it('shows every past that its history reaches, exactly and in key order', () => {
    fc.assert(
      fc.property(writes, fc.integer({ min: 3, max: 80 }), (list, limit) => {
        const table = new Table(100, limit);
        for (const [rv, expected] of play(table, list, 100)) {
          const snapshot = table.at(rv);
          expect(snapshot === undefined).toBe(rv < table.compacted);
          if (snapshot === undefined) continue;
          const seen = Array.from(snapshot.range('', ''));
          expect(seen.map((item) => item.key)).toEqual(seen.map((item) => item.key).toSorted());
          expect(seen.map((item) => `${item.key}@${item.rv}`).sort()).toEqual(expected);
          expect(seen.map((item) => snapshot.get(item.key))).toEqual(seen);
        }
      }),
    );
  });

  it('gives one namespace and a start, in any past', () => {
    const table = new Table(0, 100);
    play(
      table,
      ['a/x', 'a/y', 'a/z', 'a-b/x', 'b/x'].map((key): [string, boolean] => [key, false]),
      0,
    );
    play(table, [['a/y', true]], 5);
    const range = (rv: number, prefix: string, start: string) => Array.from(table.at(rv)?.range(prefix, start) ?? [], (item) => item.key);
    expect(range(6, 'a/', '')).toEqual(['a/x', 'a/z']);
    expect(range(5, 'a/', '')).toEqual(['a/x', 'a/y', 'a/z']);
    expect(range(5, 'a/', 'a/x\0')).toEqual(['a/y', 'a/z']);
    expect(range(3, '', 'a/y')).toEqual(['a/y', 'a/z']);
  });

  it('keeps no more history than its limit, and reports where it begins', () => {
    const table = new Table(0, 10);
    play(
      table,
      Array.from({ length: 50 }, (): [string, boolean] => ['a/x', false]),
      0,
    );
    const [oldest] = table.since(table.compacted);
    expect(oldest?.rv).toBe(table.compacted + 1);
    expect(table.since(table.compacted).length).toBeLessThanOrEqual(13);
    expect(table.at(table.compacted - 1)).toBeUndefined();
  });

  it('that was loaded has no earlier events', () => {
    const table = new Table(7, 10);
    expect([table.at(6), table.at(7) === undefined, table.compacted]).toEqual([undefined, false, 7]);
  });
});
