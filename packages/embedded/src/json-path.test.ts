import { describe, expect, it } from 'vitest';
import { compilePath } from './json-path.ts';

const object = {
  spec: { replicas: 3, 'a.b': 'dotted' },
  status: {
    conditions: [
      { type: 'Ready', status: 'True' },
      { type: 'Disk', status: 'False' },
    ],
  },
};

describe('a column path', () => {
  it.each([
    ['.spec.replicas', [3]],
    ['.status.conditions[?(@.type=="Disk")].status', ['False']],
    [".status.conditions[?(@.type=='Ready')].status", ['True']],
    ['.status.conditions[1].type', ['Disk']],
    ['.status.conditions[*].type', ['Ready', 'Disk']],
    [String.raw`.spec.a\.b`, ['dotted']],
    [".spec['a.b']", ['dotted']],
    ['.spec.missing.deeper', []],
    ['.status.conditions[9].type', []],
  ])('%s finds %j', (path, expected) => {
    expect(compilePath(path)?.(object)).toEqual(expected);
  });

  it.each(['.spec[', '.a..b', '.a[?(@.x>1)]', '.a b'])('%s is not understood', (path) => {
    expect(compilePath(path)).toBeUndefined();
  });
});
