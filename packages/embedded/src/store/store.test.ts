import { describe, expect, it } from 'vitest';
import { factsOf, type EntryEvent } from './entry.ts';
import { memoryDisk, type StoreDisk } from './disk.ts';
import { EmbeddedStore } from './store.ts';

const object = (name: string, labels = {}) => ({ kind: 'K', metadata: { name, uid: name, labels } });
const put = (store: EmbeddedStore, resource: string, name: string) => store.put(resource, object(name), factsOf(object(name), undefined));

const full = (): never => {
  throw new Error('disk full');
};

describe('the store', () => {
  it('counts all resources with one counter', () => {
    const store = new EmbeddedStore(memoryDisk(), 10);
    expect([put(store, 'a', 'x').rv, put(store, 'b', 'y').rv, store.remove('a', '', 'x')?.rv, store.rv]).toEqual([1, 2, 3, 3]);
  });

  it('reports each write with the object before and after; a deletion with the last body at the new version', () => {
    const store = new EmbeddedStore(memoryDisk(), 10);
    const events: EntryEvent[] = [];
    store.onEvent((event) => void events.push(event));
    put(store, 'a', 'x');
    put(store, 'a', 'x');
    store.remove('a', '', 'x');
    expect(events.map(({ type, rv, previous }) => [type, rv, previous?.rv])).toEqual([
      ['ADDED', 1, undefined],
      ['MODIFIED', 2, 1],
      ['DELETED', 3, 2],
    ]);
    expect(JSON.parse(events[2]?.entry.json ?? '')).toMatchObject({ metadata: { resourceVersion: '3', name: 'x' } });
    expect(store.remove('a', '', 'x')).toBeUndefined();
  });

  it('shows no client a write that the disk refused', () => {
    const disk: StoreDisk = { ...memoryDisk(), put: full, remove: full };
    const store = new EmbeddedStore(disk, 10);
    const events: EntryEvent[] = [];
    store.onEvent((event) => void events.push(event));
    expect(() => put(store, 'a', 'x')).toThrow('disk full');
    expect([store.rv, store.table('a').get('x'), events]).toEqual([0, undefined, []]);
  });
});
