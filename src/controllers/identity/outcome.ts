/** What follows from an answer, also from the answer of another approver, and from what the signer makes of an approval. */
import { SIGNERS } from '../../api/admission.ts';
import { CertificateSigningRequests } from '../../api/builtin.ts';
import type { Bootstrap } from '../../api/machine.ts';
import type { ReconcileContext } from '../../kube/controller.ts';
import type { QueueResult } from '../../kube/queue.ts';
import { makeTokenAccount } from './admission.ts';
import { machineNow, type IdentityDeps } from './context.ts';
import { endOfCertificate, readHold, withIssued, writeHold } from './holds.ts';
import { AGAIN_MS } from './answer.ts';
import { nodeOf } from './kubelet.ts';
import { recordBootstrap, TOKEN } from './record.ts';
import { askedOf, conditionOf, machineOf, requestOf, stateOf, type StoredRequest } from './requests.ts';

/** The pool has the name of that Node until the certificate ends, also where another approver approved it. Only the signer decides when it ends. */
export async function afterIssue({ clock, namespace, signal }: IdentityDeps, request: StoredRequest, run: ReconcileContext): Promise<void> {
  if (request.spec.signerName === SIGNERS.client) return;
  const node = nodeOf(askedOf(request));
  const endMs = endOfCertificate(request.status?.certificate ?? '');
  if (node === undefined || endMs === undefined) return;
  const hold = await readHold(run.client, namespace, node, signal);
  if (hold === undefined) return;
  const ends = withIssued(hold.ends, request.metadata.uid, endMs, clock.now());
  await writeHold(run.client, { namespace, node }, hold, { ...hold, ends }, signal);
}

/** A person, another approver or this controller denied it: the agent waits for another token then, and its Machine reports why. */
export async function afterDenial(deps: IdentityDeps, request: StoredRequest, run: ReconcileContext): Promise<void> {
  const { clock, denied, recorder, signal } = deps;
  if (machineOf(request)?.kind !== 'Bootstrap') return;
  const machine = await machineNow(deps, request);
  const bootstrap = machine?.status?.bootstrap;
  // What an earlier token asked for, or one that was used already, shows nothing about now.
  if (
    machine === undefined ||
    bootstrap === undefined ||
    bootstrap.accountUID !== askedOf(request).userUID ||
    bootstrap.csrUID !== undefined
  )
    return;
  if (bootstrap.deniedUID === request.metadata.uid) return;
  const { reason = '', message = '' } = conditionOf(request, 'Denied') ?? {};
  const denial = `request ${request.metadata.name} was denied: ${[reason, message].filter((each) => each !== '').join(': ')}`;
  const condition = { status: 'False', reason: 'Denied', message: denial } as const;
  await recordBootstrap(run.client, machine, { ...bootstrap, deniedUID: request.metadata.uid }, { condition, nowMs: clock.now() }, signal);
  run.log.warn({ machine: machine.metadata.name }, denial);
  if (!denied.delete(request.metadata.uid)) recorder.event(machine, { type: 'Warning', reason: 'CertificateDenied', message: denial });
}

/** Where the cluster's signer refuses or does not answer, the agent gets the token of a ServiceAccount, and the Machine reports that (docs/protocols.md#g2). */
export async function afterApproval(
  deps: IdentityDeps,
  request: StoredRequest,
  state: 'Approved' | 'Failed',
  run: ReconcileContext,
): Promise<QueueResult | void> {
  const { client, clock, recorder, signal, signerDeadlineMs } = deps;
  const asked = requestOf(request.spec.request);
  if (machineOf(request) === undefined || 'unreadable' in asked) return;
  const machine = await machineNow(deps, request);
  const bootstrap = machine?.status?.bootstrap;
  // Only the machine's own newest request counts: an old one that was never signed shows nothing about now.
  if (machine === undefined || bootstrap?.by !== 'Certificate' || bootstrap.keySHA256 !== asked.keySHA256) return;
  const approved = conditionOf(request, 'Approved');
  const sinceMs = Date.parse(approved?.lastUpdateTime ?? request.metadata.creationTimestamp);
  const waitMs = sinceMs + signerDeadlineMs - clock.now();
  if (state === 'Approved' && waitMs > 0) return { requeueAfterMs: waitMs };
  // A cache that lags may not have what the signer signed.
  const live = await client.find(CertificateSigningRequests, { name: request.metadata.name }, { signal });
  if (live?.metadata.uid !== request.metadata.uid || stateOf(live) !== state) return { requeueAfterMs: AGAIN_MS };
  const failed = conditionOf(request, 'Failed');
  const why =
    failed === undefined
      ? `it signed nothing within ${Math.round(signerDeadlineMs / 1000)} s`
      : `it refused: ${[failed.reason, failed.message].filter((each) => each !== undefined && each !== '').join(': ')}`;
  const message = `signer ${request.spec.signerName} gives no client certificates (${why}): the agent is a ServiceAccount instead`;
  await makeTokenAccount(run.client, machine, signal);
  const record: Bootstrap = { ...bootstrap, by: 'Token' };
  const condition = { status: 'True', reason: TOKEN, message } as const;
  await recordBootstrap(run.client, machine, record, { condition, nowMs: clock.now() }, signal);
  run.log.warn({ machine: machine.metadata.name }, message);
  recorder.event(machine, { type: 'Warning', reason: 'SignerRefused', message });
}
