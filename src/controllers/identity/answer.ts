/** The answer to an open request: what is known of it, what is recorded before it, and the answer itself. */
import { SIGNERS } from '../../api/admission.ts';
import { CertificateSigningRequests, Nodes } from '../../api/builtin.ts';
import type { Machine } from '../../api/machine.ts';
import type { Stored } from '../../api/wire.ts';
import type { ReconcileContext } from '../../kube/controller.ts';
import type { QueueResult } from '../../kube/queue.ts';
import type { Asked, RequesterFacts, SigningVerdict } from './asked.ts';
import { decide } from './decide.ts';
import { beside, BY_NODE, BY_UID, isAfter, machineNow, type IdentityDeps } from './context.ts';
import { readHold, withRequest, writeHold, type NameHold } from './holds.ts';
import { nodeFor } from './kubelet.ts';
import { conditionFor, recordBootstrap } from './record.ts';
import { answer, askedOf, machineOf, type StoredRequest } from './requests.ts';

export const AGAIN_MS = 5_000;

type Answer = Extract<SigningVerdict, { do: 'Approve' | 'Deny' }>;

/** What a decision sees, and whose the name of the Node is as it was read. */
interface Observed {
  known: RequesterFacts;
  node: string | undefined;
  hold: NameHold | undefined;
}

export async function judge(deps: IdentityDeps, request: StoredRequest, run: ReconcileContext): Promise<QueueResult | void> {
  const asked = askedOf(request);
  const observed = await observe(deps, request, asked, run);
  const { known } = observed;
  const verdict = decide(asked, known);
  if (verdict.do === 'Leave') return;
  if (verdict.do === 'Wait') {
    run.log.info({ requester: asked.username }, verdict.why);
    return { requeueAfterMs: AGAIN_MS };
  }
  await record(deps, asked, observed, verdict, run);
  // Whole, since an update writes all of it; conditioned on what was judged.
  const { uid, resourceVersion } = request.metadata;
  const live = await run.client.find(CertificateSigningRequests, { name: request.metadata.name }, { signal: deps.signal });
  if (live === undefined) return;
  const whole = { ...live, metadata: { ...live.metadata, uid, resourceVersion } };
  await answer(run.client, whole, verdict, known.nowMs, deps.signal);
  const { reason, message } = verdict;
  run.log.info({ requester: asked.username, verdict: verdict.do, reason }, message);
  if (known.machine !== undefined) announce(deps, request, known.machine, verdict);
}

async function observe(deps: IdentityDeps, request: StoredRequest, asked: Asked, run: ReconcileContext): Promise<Observed> {
  const { client, clock, machines, namespace, requests, signal } = deps;
  const node = nodeFor(asked);
  const hold = node === undefined ? undefined : await readHold(run.client, namespace, node, signal);
  const unsigned = Object.keys(hold?.ends ?? {}).filter((uid) => requests.byIndex(BY_UID, uid).length > 0);
  const known: RequesterFacts = {
    nowMs: clock.now(),
    machine: await machineNow(deps, request),
    ofNode: node === undefined ? [] : machines.byIndex(BY_NODE, node),
    // A cache that lags would give away the name of a Node that has just joined.
    node: node === undefined ? undefined : await client.find(Nodes, { name: node }, { signal }),
    reserved: node !== undefined && deps.reserved(node),
    hold: hold && { ...hold, unsigned },
    newer: beside(requests, request).filter((each) => isAfter(each, request)).length,
    server: asked.signerName === SIGNERS.client ? { hosts: [], addresses: [] } : await deps.server(),
    nodeDomains: deps.nodeDomains,
  };
  return { known, node, hold };
}

/** What has to be on record before the approval: the machine's bootstrap, and whose the name of the Node is. */
async function record(
  deps: IdentityDeps,
  asked: Asked,
  { known, node, hold }: Observed,
  verdict: Answer,
  run: ReconcileContext,
): Promise<void> {
  const { namespace, signal } = deps;
  const { machine } = known;
  if (verdict.do === 'Approve' && verdict.record !== undefined && machine !== undefined) {
    const bootstrap = verdict.record;
    const condition = conditionFor(bootstrap, machine);
    await recordBootstrap(run.client, machine, bootstrap, { condition, nowMs: known.nowMs }, signal);
  }
  if (verdict.do === 'Approve' && verdict.holder !== undefined && node !== undefined) {
    const own = hold?.pool === verdict.holder ? hold : { ends: {}, since: asked.createdAt };
    const ends = withRequest(own.ends, asked.uid, asked.expirationSeconds, known.nowMs, known.hold?.unsigned ?? []);
    await writeHold(run.client, { namespace, node }, hold, { pool: verdict.holder, ends, since: own.since }, signal);
  }
}

function announce({ denied, recorder }: IdentityDeps, request: StoredRequest, machine: Stored<Machine>, verdict: Answer): void {
  const { reason, message } = verdict;
  if (verdict.do === 'Deny') {
    // Of others nothing is written on their Machine.
    if (machineOf(request)?.kind === 'Bootstrap') denied.add(request.metadata.uid);
    recorder.event(machine, { type: 'Warning', reason: 'CertificateDenied', message: `${reason}: ${message}` });
  } else if (reason === 'Admitted') recorder.event(machine, { type: 'Normal', reason, message: `the agent was ${message}` });
}
