import { expect, test } from 'vitest';
import { createDependents } from './dependents.ts';

test('a key that reads a group is called when it changes, once, until it reads others', () => {
  const dependents = createDependents();
  const of = (...groups: string[]): string[] => [...dependents.of(new Set(groups))].toSorted();
  expect(of('zone-a')).toEqual([]);
  dependents.set('web/a', ['zone-a', 'set-1']);
  dependents.set('web/b', ['zone-a']);
  expect(of('zone-a')).toEqual(['web/a', 'web/b']);
  expect(of('zone-a', 'set-1', 'unread')).toEqual(['web/a', 'web/b']);
  dependents.set('web/a', ['set-1', 'zone-b']);
  expect([of('zone-a'), of('set-1'), of('zone-b')]).toEqual([['web/b'], ['web/a'], ['web/a']]);
  dependents.set('web/b', []);
  expect(of('zone-a')).toEqual([]);
  dependents.set('web/b', ['zone-a']);
  dependents.set('web/b', ['zone-a']);
  expect(of('zone-a')).toEqual(['web/b']);
});
