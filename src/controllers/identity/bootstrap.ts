/** A node whose identity, or the token it never used, has run out gets a new bootstrap from its provider. */
import { Machines } from '../../api/machine.ts';
import { parseKey } from '../../api/resource.ts';
import type { ReconcileContext } from '../../kube/controller.ts';
import type { QueueResult } from '../../kube/queue.ts';
import type { IdentityDeps } from './context.ts';
import { AGAIN_MS } from './answer.ts';
import { ensureInstance, requestOf } from './provision.ts';
import { readmissionOf } from './readmission.ts';

export const RESYNC_MS = 300_000;

export async function reconcileMachine(deps: IdentityDeps, key: string, run: ReconcileContext): Promise<QueueResult | void> {
  const { cell, client, clock, machines, providers, recorder, signal } = deps;
  const machine = machines.get(parseKey(key));
  if (machine === undefined) return;
  const provider = providers.get(machine.spec.provider?.name ?? '');
  const due = readmissionOf(machine, clock.now());
  if (due === undefined || provider === undefined) return;
  if (due.inMs > 0) return { requeueAfterMs: due.inMs };
  // An agent that was admitted a moment ago must keep its identity, though a cache may not show it yet.
  const live = await client.find(Machines, machine.metadata, { signal });
  if (live?.metadata.uid !== machine.metadata.uid || (readmissionOf(live, clock.now())?.inMs ?? 1) > 0) return { requeueAfterMs: AGAIN_MS };
  // An instance that is not there is not made here: its machine is NodeLost, or the machine controller makes it.
  const instance = await provider.get(machine.status?.providerID ?? provider.providerIDOf(requestOf(machine)), signal);
  if (instance === undefined || instance.state === 'Deleting') return { requeueAfterMs: RESYNC_MS };
  run.log.info({ why: due.why, again: due.again }, 'the node gets a new bootstrap');
  await ensureInstance(run.client, machine, provider, cell, signal, { again: due.again });
  recorder.event(machine, { type: 'Normal', reason: 'BootstrapRenewed', message: `the node gets a new bootstrap: ${due.why}` });
}
