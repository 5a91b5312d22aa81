import { describe, expect, it } from 'vitest';
import type { Json } from '@kubenode/api-machinery/wire';
import { jsonPatch, MAX_OPERATIONS } from './json.ts';

const target = { a: { b: 1 }, list: ['x', 'y'], 'sl/ash': 1, 'til~de': 2, nothing: null };

describe('a JSON patch', () => {
  it.each([
    [[{ op: 'add', path: '/a/c', value: 2 }], { ...target, a: { b: 1, c: 2 } }],
    [[{ op: 'add', path: '/list/1', value: 'z' }], { ...target, list: ['x', 'z', 'y'] }],
    [[{ op: 'add', path: '/list/-', value: 'z' }], { ...target, list: ['x', 'y', 'z'] }],
    [[{ op: 'add', path: '/list/2', value: 'z' }], { ...target, list: ['x', 'y', 'z'] }],
    [[{ op: 'replace', path: '/a/b', value: 9 }], { ...target, a: { b: 9 } }],
    [[{ op: 'remove', path: '/list/0' }], { ...target, list: ['y'] }],
    [
      [
        { op: 'remove', path: '/sl~1ash' },
        { op: 'remove', path: '/til~0de' },
      ],
      { a: { b: 1 }, list: ['x', 'y'], nothing: null },
    ],
    [[{ op: 'move', from: '/a/b', path: '/b' }], { ...target, a: {}, b: 1 }],
    [[{ op: 'copy', from: '/list', path: '/a/l' }], { ...target, a: { b: 1, l: ['x', 'y'] } }],
    [[{ op: 'test', path: '/a', value: { b: 1 } }], target],
    [[{ op: 'test', path: '/nothing', value: null }], target],
    [[{ op: 'test', path: '/absent', value: null }], target],
    [[{ op: 'replace', path: '', value: { new: true } }], { new: true }],
    [[], target],
  ] as [Json[], Json][])('%j applies', (patch, expected) => {
    const before = structuredClone(target);
    expect(jsonPatch(target, patch)).toEqual(expected);
    expect(target).toEqual(before);
  });

  it.each([
    [{ op: 'test', path: '/a/b', value: 2 }],
    [{ op: 'test', path: '/absent', value: 1 }],
    [{ op: 'remove', path: '/absent' }],
    [{ op: 'add', path: '/absent/deep', value: 1 }],
    [{ op: 'add', path: '/list/9', value: 1 }],
    [{ op: 'add', path: '/list/01', value: 1 }],
    [{ op: 'replace', path: '/list/-', value: 1 }],
    [{ op: 'remove', path: '/list/2' }],
    [{ op: 'add', path: '/a/b/c', value: 1 }],
    [{ op: 'add', path: 'a', value: 1 }],
    [{ op: 'add', path: '/x' }],
    [{ op: 'move', path: '/x' }],
    [{ op: 'boil', path: '/x' }],
    [{ path: '/x' }],
  ] as Json[])('%j is refused with 422', (operation) => {
    expect(() => jsonPatch(target, [operation])).toThrow(expect.objectContaining({ code: 422 }));
  });

  it('that is no list, or contains what is no operation, is refused with 400', () => {
    expect(() => jsonPatch(target, { op: 'add' })).toThrow(expect.objectContaining({ code: 400 }));
    expect(() => jsonPatch(target, ['add'])).toThrow(expect.objectContaining({ code: 400 }));
  });

  it('of too many operations is refused unread', () => {
    const many = Array.from({ length: MAX_OPERATIONS + 1 }, () => ({ op: 'boil' }));
    expect(() => jsonPatch(target, many)).toThrow(expect.objectContaining({ code: 413 }));
  });

  it('changes nothing when its last operation fails', () => {
    const before = structuredClone(target);
    expect(() =>
      jsonPatch(target, [
        { op: 'remove', path: '/a' },
        { op: 'test', path: '/list', value: [] },
      ]),
    ).toThrow(/rejected/);
    expect(target).toEqual(before);
  });
});
