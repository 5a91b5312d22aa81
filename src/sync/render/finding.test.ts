import { expect, it } from 'vitest';
import { findingText, oncePerFleet, type Finding } from './finding.ts';

const at = (cluster: string | undefined, message = 'is wrong'): Finding => ({
  code: 'FieldInvalid',
  message,
  file: 'fleet/nodes.ts',
  line: 3,
  object: 'MachineSet/web/a',
  cluster,
});

it('names the clusters of one error of a loop, and prints it once', () => {
  expect(oncePerFleet([at('a'), at('b', 'is another'), at('b'), at('c'), at('d'), at('e')]).map(findingText)).toEqual([
    'fleet/nodes.ts:3: MachineSet/web/a in a, b, c and 2 more: is wrong',
    'fleet/nodes.ts:3: MachineSet/web/a in b: is another',
  ]);
});

it('leaves what is of no cluster as it is', () => {
  expect(oncePerFleet([at(undefined), at('a')]).map(({ cluster }) => cluster)).toEqual(['a']);
  expect(oncePerFleet([at(undefined)])).toEqual([{ ...at(undefined), cluster: undefined }]);
});
