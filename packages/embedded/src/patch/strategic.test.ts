import { describe, expect, it } from 'vitest';
import type { Json, JsonObject } from '@kubenode/api-machinery/wire';
import { node } from '../kinds/node.ts';
import { pod } from '../kinds/pod.ts';
import { disruptionBudget } from '../kinds/disruption-budget.ts';
import { strategicPatch } from './strategic.ts';

const onPod = (target: JsonObject, patch: Json) => strategicPatch(target, patch, pod.schema);
const onNode = (target: JsonObject, patch: Json) => strategicPatch(target, patch, node.schema);
const conditions = (...types: string[]) => ({ status: { conditions: types.map((type) => ({ type, status: 'True' })) } });
const types = (object: JsonObject) => ((object['status'] as JsonObject)['conditions'] as JsonObject[]).map((item) => item['type']);

const taints = (...keys: string[]) => ({ spec: { taints: keys.map((key) => ({ key, effect: 'NoSchedule' })) } });

describe('a strategic merge patch', () => {
  it('merges list items by the merge key of the kind', () => {
    const containers = [
      { name: 'a', image: 'a:1', env: [{ name: 'X', value: '1' }] },
      { name: 'b', image: 'b:1' },
    ];
    const patch = { spec: { containers: [{ name: 'a', image: 'a:2', env: [{ name: 'Y', value: '2' }] }] } };
    expect(onPod({ spec: { containers } }, patch)).toEqual({
      spec: {
        containers: [
          {
            name: 'a',
            image: 'a:2',
            env: [
              { name: 'Y', value: '2' },
              { name: 'X', value: '1' },
            ],
          },
          { name: 'b', image: 'b:1' },
        ],
      },
    });
  });

  it('puts new items first and leaves the order of the others', () => {
    expect(types(onNode(conditions('Ready', 'Disk'), conditions('New')))).toEqual(['New', 'Ready', 'Disk']);
    expect(types(onNode(conditions('A', 'B', 'C'), conditions('C', 'A')))).toEqual(['B', 'C', 'A']);
  });

  it('puts items in the order of $setElementOrder', () => {
    const order = ['Ready', 'Disk', 'Z'].map((type) => ({ type }));
    const patch = { status: { '$setElementOrder/conditions': order, conditions: [{ type: 'Z', status: 'True' }] } };
    expect(types(onNode(conditions('Disk', 'Ready'), patch))).toEqual(['Ready', 'Disk', 'Z']);
  });

  it('orders by $setElementOrder without a change', () => {
    const patch = { status: { '$setElementOrder/conditions': [{ type: 'B' }, { type: 'A' }] } };
    expect(types(onNode(conditions('A', 'B', 'C'), patch))).toEqual(['B', 'A', 'C']);
  });

  it('refuses a $setElementOrder that its list does not follow', () => {
    const patch = { status: { '$setElementOrder/conditions': [{ type: 'A' }], conditions: [{ type: 'B' }] } };
    expect(() => onNode(conditions('A'), patch)).toThrow(expect.objectContaining({ code: 400 }));
  });

  it('deletes an item by $patch: delete, and replaces a list by $patch: replace', () => {
    expect(types(onNode(conditions('A', 'B'), { status: { conditions: [{ $patch: 'delete', type: 'A' }] } }))).toEqual(['B']);
    expect(types(onNode(conditions('A', 'B'), { status: { conditions: [{ $patch: 'replace' }, { type: 'N', status: 'True' }] } }))).toEqual(
      ['N'],
    );
  });

  it('replaces or empties a map by $patch', () => {
    const target = { metadata: { labels: { a: '1', b: '2' } } };
    expect(onPod(target, { metadata: { labels: { $patch: 'replace', c: '3' } } })).toEqual({ metadata: { labels: { c: '3' } } });
    expect(onPod(target, { metadata: { labels: { $patch: 'delete' } } })).toEqual({ metadata: { labels: {} } });
  });

  it('replaces lists that have no merge key: taints and tolerations', () => {
    expect(onNode(taints('a', 'b'), taints('c'))).toEqual(taints('c'));
    expect(onPod({ spec: { tolerations: [{ key: 'a' }] } }, { spec: { tolerations: [] } })).toEqual({ spec: { tolerations: [] } });
  });

  it('merges finalizers as a set, and takes some away by $deleteFromPrimitiveList', () => {
    const target = { metadata: { finalizers: ['a', 'b'] } };
    expect(onPod(target, { metadata: { finalizers: ['b', 'c'] } })).toEqual({ metadata: { finalizers: ['a', 'b', 'c'] } });
    expect(onPod(target, { metadata: { '$deleteFromPrimitiveList/finalizers': ['a'] } })).toEqual({ metadata: { finalizers: ['b'] } });
  });

  it('keeps only the keys that $retainKeys names', () => {
    const target = { spec: { volumes: [{ name: 'v', hostPath: { path: '/x' } }] } };
    const patch = { spec: { volumes: [{ name: 'v', $retainKeys: ['name', 'emptyDir'], emptyDir: {} }] } };
    expect(onPod(target, patch)).toEqual({ spec: { volumes: [{ name: 'v', emptyDir: {} }] } });
    const wrong = { spec: { volumes: [{ name: 'v', $retainKeys: ['name'], emptyDir: {} }] } };
    expect(() => onPod(target, wrong)).toThrow(expect.objectContaining({ code: 400 }));
  });

  it('replaces a field whose strategy is replace', () => {
    const target = { spec: { selector: { matchLabels: { a: '1' } } } };
    const patch = { spec: { selector: { matchLabels: { b: '2' } } } };
    expect(strategicPatch(target, patch, disruptionBudget.schema)).toEqual(patch);
  });

  it('removes by null, and stores no directive from the patch', () => {
    expect(onPod({ spec: { nodeName: 'n', hostname: 'h' } }, { spec: { nodeName: null } })).toEqual({ spec: { hostname: 'h' } });
    expect(
      onPod(
        {},
        {
          spec: {
            containers: [
              { name: 'a', $retainKeys: ['name'], image: null },
              { name: 'b', $patch: 'delete' },
            ],
          },
        },
      ),
    ).toEqual({
      spec: { containers: [{ name: 'a' }] },
    });
  });

  it.each([
    [[], 400],
    ['x', 400],
    [{ status: { conditions: [{ status: 'True' }] } }, 500],
    [{ metadata: { $patch: 'boil' } }, 400],
  ] as [Json, number][])('is refused when it is %j with %i', (patch, code) => {
    expect(() => onNode({ ...conditions('A'), metadata: {} }, patch)).toThrow(expect.objectContaining({ code }));
  });

  it('leaves its target as it was', () => {
    const target = conditions('A', 'B');
    const before = structuredClone(target);
    onNode(target, {
      status: {
        conditions: [
          { type: 'A', status: 'False' },
          { type: 'B', $patch: 'delete' },
        ],
      },
    });
    expect(target).toEqual(before);
  });
});
