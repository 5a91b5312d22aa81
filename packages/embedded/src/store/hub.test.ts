import { describe, expect, it } from 'vitest';
import { entryOf, type EntryEvent } from './entry.ts';
import { Hub } from './hub.ts';

function event(resource: string, namespace: string, name: string): EntryEvent {
  const metadata = namespace === '' ? { name } : { namespace, name };
  return { type: 'ADDED', resource, rv: 1, entry: entryOf({ metadata }, 1, { labels: {}, fields: {}, owners: [] }), previous: undefined };
}

function listen(hub: Hub, resource: string, namespace: string, name: string): { seen: string[]; stop: () => void; ended: number } {
  const out = { seen: [] as string[], stop: () => undefined as void, ended: 0 };
  out.stop = hub.add({ resource, namespace, name, deliver: (it) => void out.seen.push(it.entry.key), end: () => void out.ended++ });
  return out;
}

describe('the hub', () => {
  it('brings an event to those who watch everything, its namespace, its name or it alone, once each', () => {
    const hub = new Hub();
    const all = listen(hub, 'r', '', '');
    const web = listen(hub, 'r', 'web', '');
    const anyA = listen(hub, 'r', '', 'a');
    const webA = listen(hub, 'r', 'web', 'a');
    const webB = listen(hub, 'r', 'web', 'b');
    const other = listen(hub, 'q', '', '');
    hub.dispatch(event('r', 'web', 'a'));
    expect([all, web, anyA, webA, webB, other].map((it) => it.seen.length)).toEqual([1, 1, 1, 1, 0, 0]);
  });

  it('brings an event of a cluster-scoped object once to who watches all', () => {
    const hub = new Hub();
    const all = listen(hub, 'r', '', '');
    const one = listen(hub, 'r', '', 'n1');
    hub.dispatch(event('r', '', 'n1'));
    expect([all.seen, one.seen]).toEqual([['n1'], ['n1']]);
  });

  it('touches only the watchers of the object, of however many', () => {
    const hub = new Hub();
    let touched = 0;
    for (let n = 0; n < 10_000; n++) {
      hub.add({ resource: 'r', namespace: 'web', name: `m${n}`, deliver: () => void touched++, end: () => undefined });
    }
    hub.dispatch(event('r', 'web', 'm17'));
    expect([touched, hub.size]).toEqual([1, 10_000]);
  });

  it('forgets who stops, also while it dispatches', () => {
    const hub = new Hub();
    const first = listen(hub, 'r', '', '');
    const stop = hub.add({ resource: 'r', namespace: '', name: '', deliver: () => stop(), end: () => undefined });
    hub.dispatch(event('r', 'web', 'a'));
    hub.dispatch(event('r', 'web', 'b'));
    first.stop();
    expect([first.seen.length, hub.size]).toEqual([2, 0]);
  });

  it('ends the watches of one resource, or all', () => {
    const hub = new Hub();
    const r = listen(hub, 'r', '', '');
    const q = listen(hub, 'q', 'web', '');
    hub.end('r');
    expect([r.ended, q.ended]).toEqual([1, 0]);
    hub.end();
    expect([r.ended, q.ended]).toEqual([2, 1]);
  });
});
