import { expect, test } from 'vitest';
import { operatorRelease } from './operator-release.ts';
import { machine, operation } from '../testing/objects.ts';

test("D5: an operator's release is one write that replaces the order by Cancelled, with a reason, under the same id and epoch", () => {
  const ordered = machine({ spec: { operation: operation({ epoch: 7 }) } });
  expect(operatorRelease(ordered, 'lost').spec.operation).toEqual({
    id: 'r1',
    epoch: 7,
    kind: 'Cancelled',
    cause: 'Released',
    components: operation().components,
    notAfter: operation().notAfter,
    reason: 'lost',
  });
  expect(operatorRelease(ordered, 'lost').metadata.resourceVersion).toBe(ordered.metadata.resourceVersion);
});

test.each([
  ['nothing was ordered', machine()],
  ['it is cancelled', machine({ spec: { operation: operation({ kind: 'Cancelled' }) } })],
  ['it has ended', machine({ spec: { operation: operation() }, status: { operation: { id: 'r1', state: 'Done' } } })],
  ['it is a deletion, which the provider proves', machine({ spec: { operation: operation({ kind: 'Delete' }) } })],
])('there is nothing to release when %s', (_, object) => {
  expect(() => operatorRelease(object, 'x')).toThrow(expect.objectContaining({ code: 'NothingToRelease' }));
});
