import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Taint } from '../../../api/builtin.ts';
import type { Machine, NodeKeys } from '../../../api/machine.ts';
import type { Json } from '../../../api/wire.ts';
import { isMet, nodePatch } from '../../../defender/guarded-patch.ts';
import { jsonPatch } from '@kubenode/embedded/testing';
import { DEGRADED } from '../cordon/cordon.ts';
import { isOutOfService, markedOutOfService, mayTakePods, notedOutOfService, planNode } from './node-sync.ts';
import { cordoned, machine, node, reservation } from '../testing/objects.ts';

/** Where an earlier version noted what it had put on a Node; a node can write it. */
const OWNED_KEYS = 'kubenode.io/owned-keys';

type Wants = Pick<Machine['spec'], 'labels' | 'taints'>;
type Server = { machine: ReturnType<typeof machine>; node: ReturnType<typeof node> };

const wants = (labels: Record<string, string>, taints: Taint[] = []): Wants => ({ labels, taints });
const fresh = (object = node()): Server => ({ machine: machine(), node: object });
let version = 1;
const written = (object: Server['node'], change: (copy: Server['node']) => void = () => undefined): Server['node'] => {
  const copy = structuredClone(object);
  change(copy);
  copy.metadata.resourceVersion = `${++version}`;
  return copy;
};
/** As the controller writes it. */
const patched = (read: Server['node'], wanted: Server['node']): Server['node'] => {
  const json = nodePatch(read, wanted, { known: false });
  return written(jsonPatch(structuredClone(read) as object as Json, json as object as Json) as object as Server['node']);
};
const recorded = (of: Server['machine'], nodeKeys: NodeKeys): Server['machine'] => ({ ...of, status: { ...of.status, nodeKeys } });

/** As the controller writes it, until nothing is to be written. `dies`: after the record, before the Node. */
function synced(server: Server, spec: Wants, { answers = true, dies = false, takes = true } = {}): Server {
  let now: Server = { ...server, machine: { ...server.machine, spec: { ...server.machine.spec, ...spec } } };
  for (let writes = 0; ; writes++) {
    expect(writes).toBeLessThan(4);
    const plan = planNode(now.machine, now.node, { kubeletAnswers: answers, mayTakePods: takes });
    if (plan.record === undefined && plan.node === undefined) return now;
    if (plan.record !== undefined) now = { ...now, machine: recorded(now.machine, plan.record) };
    if (dies) return now;
    if (plan.node !== undefined) now = { ...now, node: patched(now.node, plan.node) };
  }
}
const labelsOf = ({ node: { metadata } }: Server) => metadata.labels ?? {};
const taintsOf = ({ node: { spec } }: Server) => spec?.taints ?? [];
const foreignOf = (server: Server) => planNode(server.machine, server.node, FACTS).foreign;

const FACTS = { kubeletAnswers: true, mayTakePods: true };

const WEB: Taint = { key: 'only', value: 'web', effect: 'NoSchedule' };
const DB: Taint = { key: 'only', value: 'db', effect: 'NoSchedule' };

describe('C11: labels and taints of a Machine on its Node', () => {
  test('are put there once, recorded before on the Machine', () => {
    const server = synced(fresh(), wants({ tier: 'web' }, [WEB]), { dies: true });
    expect(labelsOf(server)).toEqual({});
    expect(server.machine.status?.nodeKeys).toEqual({
      nodeUID: 'node-a',
      nodeVersion: 'none',
      labels: ['tier=web'],
      taints: ['only=web:NoSchedule'],
    });
    const after = synced(server, wants({ tier: 'web' }, [WEB]));
    expect([labelsOf(after), taintsOf(after)]).toEqual([{ tier: 'web' }, [WEB]]);
    expect(synced(fresh(), wants({}))).toEqual({ ...fresh(), machine: { ...machine(), spec: { ...machine().spec, ...wants({}) } } });
  });

  test('change with the Machine and go when it drops them; what others put there stays', () => {
    const theirs: Taint = { key: 'theirs', effect: 'NoExecute' };
    const begun = fresh(node('a', { labels: { foreign: 'yes' }, spec: { taints: [theirs] } }));
    const changed = synced(synced(begun, wants({ tier: 'web' }, [WEB])), wants({ tier: 'db' }, [DB]));
    expect([labelsOf(changed), taintsOf(changed)]).toEqual([{ foreign: 'yes', tier: 'db' }, [theirs, DB]]);
    const dropped = synced(changed, wants({}));
    expect([labelsOf(dropped), taintsOf(dropped)]).toEqual([{ foreign: 'yes' }, [theirs]]);
    expect(dropped.machine.status?.nodeKeys).toMatchObject({ labels: [], taints: [] });
  });

  test('have keys that every object has', () => {
    const given = synced(fresh(), wants({ constructor: 'x', toString: 'y' }));
    expect(labelsOf(given)).toEqual({ constructor: 'x', toString: 'y' });
    expect(labelsOf(synced(given, wants({})))).toEqual({});
  });

  test('what is there as it is wanted, and is not ours, stays when the Machine drops it', () => {
    const begun = fresh(node('a', { labels: { tier: 'web' }, spec: { taints: [WEB] } }));
    const dropped = synced(synced(begun, wants({ tier: 'web', mine: 'yes' }, [WEB])), wants({}));
    expect([labelsOf(dropped), taintsOf(dropped)]).toEqual([{ tier: 'web' }, [WEB]]);
  });

  test('what is not ours is not overwritten, and is named; so what others have changed since', () => {
    const begun = fresh(node('a', { labels: { tier: 'theirs' }, spec: { taints: [{ ...WEB, value: 'incident' }] } }));
    const after = synced(begun, wants({ tier: 'web' }, [WEB]));
    expect([labelsOf(after), taintsOf(after)]).toEqual([labelsOf(begun), taintsOf(begun)]);
    expect(foreignOf(after)).toEqual([
      'label tier=web (the Node has "theirs")',
      'taint only=web:NoSchedule (the Node has value "incident")',
    ]);
    expect(labelsOf(synced(after, wants({})))).toEqual({ tier: 'theirs' });

    const ours = synced(fresh(), wants({ tier: 'web' }, [WEB]));
    const edited = { ...ours, node: written(ours.node, (copy) => void (copy.spec = { ...copy.spec, taints: [{ ...WEB, value: 'x' }] })) };
    const dropped = synced(synced(edited, wants({}, [DB])), wants({}));
    expect(taintsOf(dropped)).toEqual([{ ...WEB, value: 'x' }]);
  });

  test('have one taint of a key and effect, the first, and are not written again and again', () => {
    const both = wants({}, [WEB, DB]);
    for (const begun of [fresh(), synced(fresh(), wants({}, [WEB])), synced(fresh(), wants({}, [DB]))])
      expect(taintsOf(synced(begun, both))).toEqual([WEB]);
  });

  test('are those of this Node alone, not what was put on one before', () => {
    const ours = synced(fresh(), wants({ tier: 'web' }));
    const again = written(node('a', { labels: { tier: 'web' } }), (copy) => void (copy.metadata.uid = 'another'));
    expect(labelsOf(synced({ ...ours, node: again }, wants({})))).toEqual({ tier: 'web' });
  });

  test('C13: also where that Node registers again with labels and taints in the same words', () => {
    const ours = synced(fresh(), wants({ tier: 'web' }, [WEB]));
    const former = node('a', { labels: { tier: 'web' }, spec: { taints: [WEB] }, annotations: { [OWNED_KEYS]: '{}' } });
    const again = written(former, (copy) => void (copy.metadata.uid = 'another'));
    const taken = synced({ ...ours, node: again }, wants({ tier: 'web' }, [WEB]));
    const after = synced(taken, wants({}));
    expect([labelsOf(after), taintsOf(after)]).toEqual([{ tier: 'web' }, [WEB]]);
  });

  test('what a node writes proves nothing about what is ours', () => {
    for (const text of ['', 'no json', '[1]', 'null', '{"labels":["theirs"],"taints":["q:NoExecute"]}']) {
      const odd = node('a', {
        labels: { theirs: 'yes' },
        spec: { taints: [{ key: 'q', effect: 'NoExecute' }] },
        annotations: { [OWNED_KEYS]: text, other: 'a' },
      });
      for (const begun of [fresh(odd), { ...synced(fresh(), wants({ tier: 'web' })), node: odd }]) {
        const after = synced(begun, wants({}));
        expect([labelsOf(after), taintsOf(after)]).toEqual([{ theirs: 'yes' }, [{ key: 'q', effect: 'NoExecute' }]]);
      }
    }
  });

  test('security: are not those that another client put there in the same words, with any record of the node about earlier versions', () => {
    const theirs = node('a', { labels: { tier: 'web' }, spec: { taints: [WEB] }, annotations: { [OWNED_KEYS]: '{}' } });
    const taken = synced(fresh(theirs), wants({ tier: 'web' }, [WEB]));
    expect(taken.machine.status?.nodeKeys).toBeUndefined();
    const after = synced(taken, wants({}));
    expect([labelsOf(after), taintsOf(after)]).toEqual([{ tier: 'web' }, [WEB]]);
  });

  test('a record of what was not put there, or is there no more, is kept only while the write may still arrive', () => {
    const begun = synced(fresh(), wants({ tier: 'web' }), { dies: true });
    const unwanted = { ...begun.machine, spec: {} };
    // What others write makes no write of ours lose.
    for (const object of [begun.node, written(begun.node)]) {
      const { record, node: fenced } = planNode(unwanted, object, FACTS);
      expect([record, fenced?.metadata.uid]).toEqual([undefined, 'node-a']);
    }
    const late = nodePatch(
      begun.node,
      written(begun.node, ({ metadata }) => void (metadata.labels = { tier: 'web' })),
      { known: false },
    );
    expect(isMet(late, written(begun.node))).toBe(true);
    const later = patched(begun.node, begun.node);
    expect(isMet(late, later)).toBe(false);
    expect(planNode(unwanted, later, FACTS)).toMatchObject({ record: { labels: [] }, node: undefined });
    // Before each write that puts something there the Machine names the mark that it is conditioned on.
    expect(planNode(begun.machine, later, FACTS).record).toMatchObject({
      labels: ['tier=web'],
      nodeVersion: begun.node.metadata.resourceVersion,
    });
  });

  test('after any wishes of the Machine in between, and the death of a leader anywhere, foreign labels end as they began', () => {
    const labels = fc.dictionary(fc.constantFrom('a', 'b', 'c'), fc.constantFrom('1', '2'));
    const steps = fc.array(fc.record({ labels, dies: fc.boolean() }), { maxLength: 6 });
    const theirs = fc.dictionary(fc.constantFrom('a', 'x', 'y'), fc.constantFrom('0', '1'));
    fc.assert(
      fc.property(theirs, steps, (foreign, wanted) => {
        let now = fresh(node('a', { labels: foreign }));
        for (const each of wanted) {
          now = synced(now, wants(each.labels), { dies: each.dies });
          if (!each.dies) expect(labelsOf(now)).toEqual({ ...each.labels, ...foreign });
        }
        expect(labelsOf(synced(now, wants({})))).toEqual(foreign);
      }),
    );
  });
});

describe('C12: a taint that takes pods off the node', () => {
  const out: Taint = { key: 'maintenance', value: '1', effect: 'NoExecute' };
  const withheldOf = (server: Server) => planNode(server.machine, server.node, { ...FACTS, mayTakePods: false }).withheld;

  test('is withheld, and named, where it may not; what else is wanted is put there', () => {
    const after = synced(fresh(), wants({ tier: 'web' }, [out, WEB]), { takes: false });
    expect([labelsOf(after), taintsOf(after), withheldOf(after)]).toEqual([{ tier: 'web' }, [WEB], ['maintenance=1:NoExecute']]);
    expect(after.machine.status?.nodeKeys?.taints).toEqual(['only=web:NoSchedule']);
    const drained = synced(after, wants({ tier: 'web' }, [out, WEB]));
    expect([taintsOf(drained), withheldOf(drained)]).toEqual([[WEB, out], []]);
    // What is there may go at any time.
    expect(taintsOf(synced(drained, wants({}), { takes: false }))).toEqual([]);
  });

  test('is not exchanged for one of another value, which other pods tolerate', () => {
    const begun = synced(fresh(), wants({}, [out]));
    const after = synced(begun, wants({}, [{ ...out, value: '2' }]), { takes: false });
    expect([taintsOf(after), withheldOf(after)]).toEqual([[out], ['maintenance=2:NoExecute']]);
  });

  test("is never one of Kubernetes' own, also where an earlier version let a Machine ask for it", () => {
    const own: Taint = { key: 'node.kubernetes.io/out-of-service', value: 'y', effect: 'NoExecute' };
    expect(taintsOf(synced(fresh(), wants({}, [own])))).toEqual([]);
    const former = node('a', { spec: { taints: [own] }, annotations: { [OWNED_KEYS]: '{}' } });
    expect(taintsOf(synced(fresh(former), wants({}, [own])))).toEqual([own]);
  });

  test('is not put back where another client removed it', () => {
    const begun = synced(fresh(), wants({}, [out]));
    const removed = { ...begun, node: written(begun.node, (copy) => void (copy.spec = { ...copy.spec, taints: [] })) };
    const after = synced(removed, wants({}, [out]), { takes: false });
    expect([taintsOf(after), after.machine.status?.nodeKeys?.taints]).toEqual([[], []]);
  });

  test('may come to a node where nothing ever ran', () => {
    const made = { status: { phase: 'Installing' as const } };
    expect(mayTakePods(machine(made), node(), undefined, undefined)).toBe(true);
    for (const status of [{ phase: 'Running' as const }, { phase: 'Installing' as const, firstReadyAt: 'then' }])
      expect(mayTakePods(machine({ status }), node(), undefined, undefined)).toBe(false);
    // Of an imported machine, and one that another client made, the Node may have run for years.
    for (const provider of [{ name: 'ssh' }, undefined]) {
      const { provider: _, ...spec } = machine().spec;
      const imported = { ...machine(made), spec: provider === undefined ? spec : { ...spec, provider } };
      const may = (ready: 'True' | 'False' | 'Unknown') =>
        mayTakePods(imported, { ...node(), status: { conditions: [{ type: 'Ready', status: ready }] } }, undefined, undefined);
      expect([may('True'), may('Unknown'), may('False')]).toEqual([false, false, true]);
      expect(mayTakePods(imported, { ...node(), status: {} }, undefined, undefined)).toBe(true);
    }
  });

  test('may come to a node that is drained under the cordon of its reservation, and to no other', () => {
    const may = (
      object: ReturnType<typeof node>,
      of = reservation() as ReturnType<typeof reservation> | undefined,
      pods: unknown[] | undefined = [],
    ) => mayTakePods(machine(), object, of, pods);
    expect(may(cordoned('a', 'r1'))).toBe(true);
    expect(may(cordoned('a', 'r1'), reservation(), [{}])).toBe(false);
    expect(mayTakePods(machine(), cordoned('a', 'r1'), reservation(), undefined)).toBe(false);
    expect(mayTakePods(machine(), cordoned('a', 'r1'), undefined, [])).toBe(false);
    expect(may(cordoned('a', 'r2'))).toBe(false);
    expect(may(node())).toBe(false);
  });
});

describe('the taint of a node that is proven to be off', () => {
  const outOfService: Taint = { key: 'node.kubernetes.io/out-of-service', value: 'nodeshutdown', effect: 'NoExecute' };
  const spec = wants({ tier: 'web' });

  /** As a repair under reservation `r1` does it. */
  function marked(object = cordoned('a', 'r1')): Server {
    const begun = synced(fresh(object), spec, { answers: false });
    expect(markedOutOfService(begun.machine, begun.node)).toBeUndefined();
    const nodeKeys = notedOutOfService(begun.machine, begun.node);
    if (nodeKeys === undefined) throw new Error('not noted');
    const noted = { ...begun, machine: recorded(begun.machine, nodeKeys) };
    expect(notedOutOfService(noted.machine, noted.node)).toBeUndefined();
    // The note waits for its mark.
    const waiting = { ...noted, node: written(noted.node) };
    expect(planNode(waiting.machine, waiting.node, FACTS).record).toBeUndefined();
    return { ...waiting, node: written(markedOutOfService(waiting.machine, waiting.node) ?? waiting.node) };
  }

  test('is noted first, and stays until the kubelet answers again', () => {
    const server = marked();
    expect(taintsOf(server)).toEqual([outOfService]);
    expect(synced(server, spec, { answers: false })).toEqual(server);
    const back = synced(server, spec);
    expect(taintsOf(back)).toEqual([]);
    expect(labelsOf(back)).toEqual({ tier: 'web' });
  });

  test('is noted no more once no repair may put it there', () => {
    const server = synced(marked(), spec);
    for (const [owner, noted] of [
      ['r1', true],
      [DEGRADED, false],
      [undefined, false],
    ] as const) {
      const object = written(owner === undefined ? node() : cordoned('a', owner));
      const { machine: now } = synced({ ...server, node: object }, wants({}));
      expect([owner, now.status?.nodeKeys?.taints.length === 1]).toEqual([owner, noted]);
    }
  });

  test('is left alone where another client put it', () => {
    const theirs = node('a', { spec: { taints: [outOfService] } });
    expect(notedOutOfService(machine(), theirs)).toBeUndefined();
    expect(markedOutOfService(machine(), theirs)).toBeUndefined();
    expect(isOutOfService(synced(fresh(theirs), wants({})).node)).toBe(true);
  });
});
