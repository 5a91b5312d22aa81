import { expect, test } from 'vitest';
import { createOnlookers } from './onlookers.ts';

test('who looks at a group is called when it moves, once, until it looks elsewhere', () => {
  const onlookers = createOnlookers();
  const of = (...groups: string[]): string[] => [...onlookers.of(new Set(groups))].toSorted();
  expect(of('zone-a')).toEqual([]);
  onlookers.set('web/a', ['zone-a', 'set-1']);
  onlookers.set('web/b', ['zone-a']);
  expect(of('zone-a')).toEqual(['web/a', 'web/b']);
  expect(of('zone-a', 'set-1', 'nobody')).toEqual(['web/a', 'web/b']);
  onlookers.set('web/a', ['set-1', 'zone-b']);
  expect([of('zone-a'), of('set-1'), of('zone-b')]).toEqual([['web/b'], ['web/a'], ['web/a']]);
  onlookers.set('web/b', []);
  expect(of('zone-a')).toEqual([]);
  onlookers.set('web/b', ['zone-a']);
  onlookers.set('web/b', ['zone-a']);
  expect(of('zone-a')).toEqual(['web/b']);
});
