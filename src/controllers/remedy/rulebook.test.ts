import { expect, test } from 'vitest';
import type { NodeRemedier, NodeRemedierSpec } from '../../api/node-remedier.ts';
import type { Stored } from '../../api/wire.ts';
import { bad, good, rule } from '../../rules/testing.ts';
import { changedRules, openRulebook } from './rulebook.ts';

const stored = (
  name: string,
  spec: Partial<NodeRemedierSpec> = {},
  rest: { uid?: string; isAccepted?: boolean; deleted?: boolean } = {},
) => {
  const made = rule(name, spec);
  const accepted = {
    type: 'Accepted',
    status: 'True',
    reason: 'Accepted',
    message: '',
    lastTransitionTime: '2026-01-01T00:00:00Z',
    observedGeneration: 1,
  };
  return {
    ...made,
    metadata: {
      ...made.metadata,
      uid: rest.uid ?? `uid-${name}`,
      generation: 1,
      ...(rest.deleted === true ? { deletionTimestamp: '2026-01-01T00:00:00Z' } : {}),
    },
    ...(rest.isAccepted === true ? { status: { conditions: [accepted] } } : {}),
  } as Stored<NodeRemedier>;
};
/** Each undoes what the other one does. */
const there = { when: { all: [bad('Ready')] }, healedWhen: { condition: 'KernelDeadlock', is: 'False', forSeconds: 10 } } as const;
const back = { when: { all: [good('KernelDeadlock')] }, healedWhen: { condition: 'Ready', is: 'True', forSeconds: 10 } } as const;

const running = (book: ReturnType<typeof openRulebook>): string[] => [...book.index.rules.keys()].toSorted();

test('of rules that undo each other neither runs, in the same words however they are listed', () => {
  const pair = [stored('there', there), stored('back', back), stored('other')];
  const book = openRulebook(pair);
  expect(running(book)).toEqual(['other']);
  expect([...book.errors]).toEqual([...openRulebook(pair.toReversed()).errors]);
  expect([...book.sources.keys()]).toEqual(['back', 'other', 'there']);
});

test('one that stands is not stopped by a newcomer, whether this process or another one accepted it', () => {
  const first = openRulebook([stored('there', there)]);
  expect(running(openRulebook([stored('there', there), stored('back', back)], first))).toEqual(['there']);
  expect(running(openRulebook([stored('there', there, { isAccepted: true }), stored('back', back)]))).toEqual(['there']);
  // Written again it is a newcomer, too.
  const again = stored('there', { ...there, holdsForSeconds: 31 }, { isAccepted: true });
  const both = openRulebook([stored('there', there)], first);
  expect(running(openRulebook([again, stored('back', back, { isAccepted: true })], both))).toEqual(['back']);
});

test('what has not changed stays what it was, and what has is named', () => {
  const first = openRulebook([stored('a'), stored('b'), stored('c')]);
  expect(openRulebook([stored('c'), stored('b'), stored('a')], first)).toBe(first);
  const next = openRulebook([stored('a'), stored('b', { holdsForSeconds: 31 }), stored('d')], first);
  expect(next.index.rules.get('a')).toBe(first.index.rules.get('a'));
  expect([...changedRules(first, next)].toSorted()).toEqual(['b', 'c', 'd']);
  expect([...changedRules(first, first)]).toEqual([]);
  // Of the same name and words, and another rule all the same.
  const other = openRulebook([stored('a', {}, { uid: 'another' }), stored('b'), stored('c')], first);
  expect([...changedRules(first, other)]).toEqual(['a']);
  // One fewer, and one that is going.
  expect(running(openRulebook([stored('a'), stored('b')], first))).toEqual(['a', 'b']);
  expect(running(openRulebook([stored('a'), stored('b'), stored('c', {}, { deleted: true })], first))).toEqual(['a', 'b']);
});
