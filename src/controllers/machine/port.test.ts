import { expect, test } from 'vitest';
import { createReleaseMarks } from '../../defender/evidence.ts';
import { ApiError } from '../../kube/apierror.ts';
import { carryOutEffect } from './effects.ts';
import { apiPort, type PortOptions } from './port.ts';
import { machine, node } from './testing/objects.ts';

const signal = new AbortController().signal;

test('D4: a release whose Node was gone is not passed while a store still shows that Node', () => {
  const marks = createReleaseMarks();
  let shown: ReturnType<typeof node> | undefined = node('a');
  const stores = {
    machines: { mark: () => 0, hasPassed: () => true, get: () => undefined },
    nodes: { mark: () => 0, hasPassed: () => true, get: () => shown },
  } as unknown as PortOptions['stores'];
  const options = { client: {}, stores, ledger: {}, marks, provider: undefined, cycled: new Set(), signal } as unknown as PortOptions;
  apiPort(options).releasing({
    machine: { key: { namespace: 'web', name: 'a' }, uid: 'uid-a', resourceVersion: '1' },
    node: { name: 'a', goneUID: 'node-a' },
  });
  expect(marks.allPassed()).toBe(false);
  shown = { ...node('a'), metadata: { ...node('a').metadata, uid: 'another' } };
  expect(marks.allPassed()).toBe(true);
});

test('C8a: a Machine is deleted in the very version that was read; one that changed since lives', async () => {
  const asked: unknown[] = [];
  const client = {
    delete: (_kind: unknown, key: unknown, options: object) => {
      asked.push([key, options]);
      throw new ApiError(409, { reason: 'Conflict', message: 'it is newer' });
    },
  } as unknown as PortOptions['client'];
  const done = await carryOutEffect(
    { do: 'DeleteMachine', machine: machine() },
    { client, provider: undefined, cycled: new Set(), signal },
  );
  expect(asked).toEqual([
    [
      { namespace: 'web', name: 'a' },
      { uid: 'uid-a', resourceVersion: '1', signal },
    ],
  ]);
  expect(done.refused).toBe(true);
});
