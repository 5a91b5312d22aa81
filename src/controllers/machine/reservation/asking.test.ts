import { afterEach, expect, test } from 'vitest';
import { Machines } from '../../../api/machine.ts';
import { RemedyOperationJobs, type JobPhase } from '../../../api/remedy-operation-job.ts';
import { createCache } from '../../../kube/cache.ts';
import { createClient } from '../../../kube/http-client.ts';
import { fakeApiServer } from '../../../kube/testing/api-server.ts';
import { fakeClock } from '../../../kube/testing/clock.ts';
import { recordingLog } from '../../../kube/testing/log.ts';
import { settle } from '../../../kube/testing/wait-for.ts';
import { findAsking } from './asking.ts';
import { mayAsk } from '../order/components.ts';
import { idle, job, machine, operation, waiting } from '../testing/objects.ts';

let ended = new AbortController();
afterEach(() => ended.abort(new Error('over')));

async function opened() {
  ended = new AbortController();
  const api = fakeApiServer();
  const ports = { clock: fakeClock(), random: () => 0, log: recordingLog(), signal: ended.signal };
  const cache = createCache({ ...ports, client: createClient(api.transport) });
  const stores = { machines: cache.store(Machines), jobs: cache.store(RemedyOperationJobs) };
  await cache.whenSynced();
  return { api, stores, asking: findAsking(stores) };
}

const PHASES: (JobPhase | undefined)[] = [undefined, 'Pending', 'Granted', 'Running', 'Verifying', 'Succeeded', 'Cancelled', 'NeedsHuman'];

test('finds the machines that may ask, by what a Machine or a job shows, and forgets those that do not any more', async () => {
  const { api, stores, asking } = await opened();
  const jobsOf = (uid: string) => stores.jobs.list().filter((each) => each.spec.machine.uid === uid);
  const put = (name: string, of: ReturnType<typeof machine>): string =>
    api.put(Machines, { ...of, metadata: { ...of.metadata, name } }).metadata.uid;
  put('idle', idle());
  put('waits', machine());
  put('going', idle({ metadata: { deletionTimestamp: '2026-11-20T00:00:00Z' } }));
  put('healthy', machine({ components: [waiting({ state: 'Healthy' })] }));
  for (const [at, phase] of PHASES.entries()) {
    const name = `job-${at}`;
    const uid = put(name, idle({ spec: { operation: operation({ id: 'r0' }) } }));
    const made = job({ name, status: phase === undefined ? {} : { phase, ...(phase === 'Granted' ? { operationID: 'r1' } : {}) } });
    api.put(RemedyOperationJobs, { ...made, spec: { ...made.spec, machine: { name, uid } } });
  }
  await settle();
  const found = (): string[] =>
    asking
      .machines()
      .filter((each) => mayAsk(each, jobsOf))
      .map(({ metadata }) => metadata.name)
      .toSorted();
  const all = (): string[] =>
    stores.machines
      .list()
      .filter((each) => mayAsk(each, jobsOf))
      .map(({ metadata }) => metadata.name)
      .toSorted();
  expect(found()).toEqual(['going', 'job-0', 'job-1', 'job-2', 'waits']);
  expect(found()).toEqual(all());
  expect(asking.machines().map(({ metadata }) => metadata.name)).not.toContain('idle');

  put('waits', machine({ components: [waiting({ state: 'Healthy' })] }));
  put('idle', machine());
  api.remove(RemedyOperationJobs, { namespace: 'web', name: 'job-1' });
  await settle();
  expect(found()).toEqual(['going', 'idle', 'job-0', 'job-2']);
  expect(found()).toEqual(all());
});
