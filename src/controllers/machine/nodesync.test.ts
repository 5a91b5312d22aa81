import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Taint } from '../../api/builtin.ts';
import type { Machine } from '../../api/machine.ts';
import { ANNOTATIONS } from '../../api/names.ts';
import { isOutOfService, markedOutOfService, syncedNode } from './nodesync.ts';
import { node } from './testing/objects.ts';

const wants = (labels: Record<string, string>, taints: Taint[] = []): Pick<Machine, 'spec'> => ({ spec: { labels, taints } });
const after = (object: ReturnType<typeof node>, machine: Pick<Machine, 'spec'>) => syncedNode(machine, object, true) ?? object;

describe('labels and taints of a Machine on its Node', () => {
  test('are put there once', () => {
    const synced = after(node(), wants({ tier: 'web' }, [{ key: 'only', value: 'web', effect: 'NoSchedule' }]));
    expect(synced.metadata.labels).toEqual({ tier: 'web' });
    expect(synced.spec?.taints).toEqual([{ key: 'only', value: 'web', effect: 'NoSchedule' }]);
    expect(syncedNode(wants({ tier: 'web' }, [{ key: 'only', value: 'web', effect: 'NoSchedule' }]), synced, true)).toBeUndefined();
    expect(syncedNode(wants({}), node(), true)).toBeUndefined();
  });

  test('go when the Machine drops them; what was there before stays', () => {
    const theirs = node('a', { labels: { tier: 'web', foreign: 'yes' }, spec: { taints: [{ key: 'theirs', effect: 'NoExecute' }] } });
    const synced = after(
      theirs,
      wants({ tier: 'web', mine: 'yes' }, [
        { key: 'theirs', effect: 'NoExecute' },
        { key: 'mine', effect: 'NoSchedule' },
      ]),
    );
    const dropped = after(synced, wants({}));
    expect(dropped.metadata.labels).toEqual({ tier: 'web', foreign: 'yes' });
    expect(dropped.spec?.taints).toEqual([{ key: 'theirs', effect: 'NoExecute' }]);
  });

  test('a taint with another value is replaced, and keeps what others added', () => {
    const tainted = node('a', {
      spec: {
        taints: [
          { key: 'k', value: '1', effect: 'NoSchedule' },
          { key: 'node.kubernetes.io/not-ready', effect: 'NoExecute', timeAdded: 't' },
        ],
      },
    });
    expect(after(tainted, wants({}, [{ key: 'k', value: '2', effect: 'NoSchedule' }])).spec?.taints).toEqual([
      { key: 'node.kubernetes.io/not-ready', effect: 'NoExecute', timeAdded: 't' },
      { key: 'k', value: '2', effect: 'NoSchedule' },
    ]);
  });

  test('nothing is removed by a record that somebody else wrote', () => {
    for (const text of ['', 'no json', '[1]', '{"labels":"all"}', 'null']) {
      const odd = node('a', { labels: { theirs: 'yes' }, annotations: { [ANNOTATIONS.ownedKeys]: text } });
      expect(after(odd, wants({})).metadata.labels).toEqual({ theirs: 'yes' });
    }
  });

  test('whatever the Machine wanted in between, foreign labels end as they began', () => {
    const labels = fc.dictionary(fc.constantFrom('a', 'b', 'c'), fc.constantFrom('1', '2'));
    fc.assert(
      fc.property(fc.dictionary(fc.constantFrom('x', 'y'), fc.string()), fc.array(labels, { maxLength: 6 }), (foreign, wanted) => {
        let now = node('a', { labels: foreign });
        for (const each of wanted) {
          now = after(now, wants(each));
          expect(now.metadata.labels).toEqual({ ...foreign, ...each });
        }
        expect(after(now, wants({})).metadata.labels).toEqual(foreign);
      }),
    );
  });
});

describe('the taint of a node that is proven to be off', () => {
  const outOfService: Taint = { key: 'node.kubernetes.io/out-of-service', value: 'nodeshutdown', effect: 'NoExecute' };
  const wanted = wants({ tier: 'web' });
  test('stays until the kubelet answers again', () => {
    const synced = after(node(), wanted);
    const marked = markedOutOfService(wanted, synced) ?? synced;
    expect(marked.spec?.taints).toEqual([outOfService]);
    expect(syncedNode(wanted, marked, false)).toBeUndefined();
    const back = syncedNode(wanted, marked, true);
    expect(back?.spec?.taints).toEqual([]);
    expect(back?.metadata).toEqual(synced.metadata);
  });
  test('is left alone where somebody else put it', () => {
    const theirs = node('a', { spec: { taints: [outOfService] } });
    expect(markedOutOfService(wants({}), theirs)).toBeUndefined();
    expect(isOutOfService(after(theirs, wants({})))).toBe(true);
  });
});
