import { expect, it } from 'vitest';
import type { Client } from '../../kube/client.ts';
import { openAdmission } from './admission.ts';
import { machineWith, OPEN } from './testing/requests.ts';

const { signal } = new AbortController();
const of = { namespace: 'web', name: 'a', uid: 'machine-a' };
const machine = machineWith(OPEN);

it.each([
  ['gone', undefined],
  ['another one under the name', { ...machine, metadata: { ...machine.metadata, uid: 'its-successor' } }],
  ['being deleted', { ...machine, metadata: { ...machine.metadata, deletionTimestamp: '2026-11-20T12:00:00Z' } }],
])('nothing is admitted for a Machine that is %s, and nothing is made for it', async (_, found) => {
  // Whatever else is asked of this server is an error of another kind.
  const client = { find: () => Promise.resolve(found) } as unknown as Client;
  await expect(openAdmission(client, of, { signal })).rejects.toMatchObject({ code: 'MachineGone' });
});
