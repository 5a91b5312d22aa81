import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Node } from '../api/builtin.ts';
import type { Stored } from '../api/wire.ts';
import { createObjectStore } from './object-store.ts';

function node(name: string, uid: string, resourceVersion: string, zone = 'a'): Stored<Node> {
  return {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: { name, uid, resourceVersion, creationTimestamp: '2026-11-20T00:00:00Z', labels: { zone } },
  };
}
const byZone = (object: Stored<Node>): string[] => [object.metadata.labels?.['zone'] ?? ''];

const texts = (objects: Stored<Node>[]): string[] => objects.map((item) => JSON.stringify(item)).sort();

describe('the object store', () => {
  test('an object of a new UID under one name is a deletion and an addition', () => {
    const store = createObjectStore<Node>();
    const old = node('n', 'u1', '1');
    const fresh = node('n', 'u2', '2');
    store.set(old);
    expect(store.set(fresh)).toEqual([
      { type: 'deleted', object: old },
      { type: 'added', object: fresh },
    ]);
    expect(store.remove(old)).toEqual([]);
    expect(store.get({ name: 'n' })).toBe(fresh);
  });

  test('a replacement keeps unchanged objects as they are in memory', () => {
    const store = createObjectStore<Node>();
    const kept = node('kept', 'u1', '1');
    store.replace([kept, node('gone', 'u2', '2')]);
    const differences = store.replace([node('kept', 'u1', '1'), node('new', 'u3', '3')]);
    expect(differences.map((difference) => [difference.type, difference.object.metadata.name])).toEqual([
      ['added', 'new'],
      ['deleted', 'gone'],
    ]);
    expect(store.get({ name: 'kept' })).toBe(kept);
  });

  test('an index added later contains what is there', () => {
    const store = createObjectStore<Node>();
    store.set(node('n', 'u', '1', 'z'));
    store.addIndex('zone', byZone);
    expect(store.byIndex('zone', 'z')).toHaveLength(1);
    store.addIndex('zone', byZone);
    expect(() => store.addIndex('zone', () => [])).toThrow('exists with another function');
    expect(() => store.byIndex('rack', 'x')).toThrow('there is no index "rack"; there are: zone');
  });

  test('after any events, indexes agree with the content, and the differences rebuild it', () => {
    const object = fc.record({
      name: fc.constantFrom('a', 'b', 'c'),
      uid: fc.constantFrom('1', '2'),
      version: fc.nat(3),
      zone: fc.constantFrom('x', 'y'),
    });
    const step = fc.oneof(
      fc.record({ do: fc.constant('set' as const), object }),
      fc.record({ do: fc.constant('remove' as const), object }),
      fc.record({ do: fc.constant('replace' as const), objects: fc.uniqueArray(object, { selector: (item) => item.name }) }),
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 20 }), (steps) => {
        const store = createObjectStore<Node>();
        store.addIndex('zone', byZone);
        const reported = new Map<string, Stored<Node>>();
        for (const taken of steps) {
          const of = (item: { name: string; uid: string; version: number; zone: string }): Stored<Node> =>
            node(item.name, item.uid, `${item.version}`, item.zone);
          const differences =
            taken.do === 'replace'
              ? store.replace(taken.objects.map(of))
              : taken.do === 'set'
                ? store.set(of(taken.object))
                : store.remove(of(taken.object));
          for (const { type, object } of differences) {
            const known = reported.get(object.metadata.name);
            expect(known === undefined).toBe(type === 'added');
            if (type === 'deleted') reported.delete(object.metadata.name);
            else reported.set(object.metadata.name, object);
          }
          expect(texts([...reported.values()])).toEqual(texts(store.list()));
          expect(texts([...store.byIndex('zone', 'x'), ...store.byIndex('zone', 'y')])).toEqual(texts(store.list()));
        }
      }),
    );
  });
});
