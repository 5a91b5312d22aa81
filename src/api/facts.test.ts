import { expect, it } from 'vitest';
import { FACTS } from './facts.ts';

it('names for each fact its type, its source and when it is missing', () => {
  for (const fact of FACTS) {
    expect(fact.source.length, fact.pattern).toBeGreaterThan(3);
    expect(fact.missingWhen.length, fact.pattern).toBeGreaterThan(3);
  }
  expect(new Set(FACTS.map(({ id }) => id)).size).toBe(FACTS.length);
});
