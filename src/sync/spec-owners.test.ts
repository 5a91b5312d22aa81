import { expect, test } from 'vitest';
import { CELL_OWNERS } from '../../deploy/owners.ts';
import { kindNamed } from '../api/kinds.ts';
import { GIVEN_KINDS, othersFields } from './spec-owners.ts';

test('what people may write beside the hub is left to them, and nothing else but the ceiling of rollouts', () => {
  for (const kind of GIVEN_KINDS) {
    const { fields = {} } = CELL_OWNERS[kindNamed(kind)?.plural ?? ''] ?? {};
    const byPeople = Object.keys(fields).filter((field) => fields[field]?.includes('human'));
    const left = [...othersFields(kind).keys()].filter((field) => field !== 'ceiling');
    expect(left.toSorted(), kind).toEqual(byPeople.toSorted());
  }
});

test('each kind that the hub applies in cells is in the table', () => {
  const applied = Object.entries(CELL_OWNERS).flatMap(([plural, { create }]) => (create.includes('sync') ? [plural] : []));
  expect(GIVEN_KINDS.map((kind) => kindNamed(kind)?.plural ?? '').toSorted()).toEqual(applied.toSorted());
});
