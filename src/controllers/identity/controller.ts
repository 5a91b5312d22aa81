import { SIGNERS } from '../../api/admission.ts';
import { CertificateSigningRequests, Nodes } from '../../api/builtin.ts';
import { messageOf } from '../../api/errors.ts';
import { Machines, type Bootstrap, type Machine } from '../../api/machine.ts';
import { SYSTEM_NAMESPACE } from '../../api/names.ts';
import type { Clock, Log, Random } from '../../api/ports.ts';
import type { InfraProvider } from '../../api/provider.ts';
import { keyOf, parseKey } from '../../api/resource.ts';
import type { Stored } from '../../api/wire.ts';
import type { Cache } from '../../kube/cache.ts';
import type { Client } from '../../kube/client.ts';
import { createController, watch, type ReconcileContext } from '../../kube/controller.ts';
import type { QueueResult } from '../../kube/queue.ts';
import type { Recorder } from '../../kube/recorder.ts';
import { ensureInstance, requestOf as instanceRequestOf, type CellAddress } from './provision.ts';
import { makeTokenAccount } from './admission.ts';
import type { Known } from './asked.ts';
import { decide } from './decide.ts';
import { endOfCertificate, readHold, withIssued, withRequest, writeHold } from './holds.ts';
import { MOST_LEFT, nodeFor, nodeOf } from './kubelet.ts';
import { readmissionOf } from './readmission.ts';
import { recordBootstrap } from './record.ts';
import { serverNames, systemLookup, type Lookup } from './server-names.ts';
import { answer, askedOf, conditionOf, isLookedAt, keptOf, machineOf, requestOf, stateOf, type StoredRequest } from './requests.ts';

export interface IdentityControllerOptions {
  client: Client;
  cache: Cache;
  /** By name, as `spec.provider.name` says it. */
  providers: ReadonlyMap<string, InfraProvider>;
  cell: CellAddress;
  clock: Clock;
  random: Random;
  log: Log;
  recorder: Recorder;
  signal: AbortSignal;
  /** A request that was approved and is not signed by then is taken for one that never will be. Default 60,000. */
  signerDeadlineMs?: number;
  /** Names of Nodes that are no Machine's, whether or not they exist now; `*` stands for any characters. */
  reservedNodeNames?: readonly string[];
  /** Domains below which Nodes may have names that people chose (docs/protocols.md#g4c). */
  nodeDomains?: readonly string[];
  /** URLs and names, besides `cell.server`, by which clients reach this API server. */
  serverURLs?: readonly string[];
  /** Of KubeNode's own objects. Default: kubenode-system. */
  namespace?: string;
  /** Addresses of a host. Default: as the system resolves it. */
  lookup?: Lookup;
}

const RESYNC_MS = 300_000;
const AGAIN_MS = 5_000;

/**
 * Admits agents and renews their identity (docs/protocols.md#g1). One loop answers requests for certificates; the other gives a node a new bootstrap
 * when the identity it had, or the token it never used, has run out. Resolves when ended.
 */
export async function runIdentityController(options: IdentityControllerOptions): Promise<void> {
  const { client, cache, providers, cell, clock, random, log, recorder, signal } = options;
  const namespace = options.namespace ?? SYSTEM_NAMESPACE;
  const signerDeadlineMs = options.signerDeadlineMs ?? 60_000;
  const requests = cache.store(CertificateSigningRequests, { project: keptOf });
  const machines = cache.store(Machines);
  const reserved = namePatterns(options.reservedNodeNames ?? []);
  const server = serverNames([cell.server, ...(options.serverURLs ?? [])], options.lookup ?? systemLookup, clock, (error) =>
    log.warn(
      { error: messageOf(error) },
      'the name service gives no answer about the API server: serving certificates with addresses wait',
    ),
  );
  machines.addIndex(BY_NODE, nodesOf);
  requests.addIndex(BY_UID, uidOf);
  requests.addIndex(BY_REQUESTER, openRequesterOf);
  /** UIDs of requests that were denied here, and told of. */
  const denied = new Set<string>();

  async function reconcileRequest(name: string, run: ReconcileContext): Promise<QueueResult | void> {
    const request = requests.get({ name });
    if (request === undefined || !isLookedAt(request)) return;
    const state = stateOf(request);
    if (state === 'Open') return await judge(request, run);
    if (state === 'Approved' || state === 'Failed') return await afterApproval(request, state, run);
    if (state === 'Denied') await afterDenial(request, run);
    if (state === 'Issued') await afterIssue(request, run);
  }

  /** Open requests of the same requester to the same signer. */
  const beside = (request: StoredRequest): StoredRequest[] =>
    openRequesterOf(request).flatMap((requester) => requests.byIndex(BY_REQUESTER, requester));

  /** A new one may be one too many: of those before it some are judged again. */
  const ledTo = (request: StoredRequest, old?: StoredRequest): string[] =>
    !isLookedAt(request)
      ? []
      : [request, ...(old === undefined ? beside(request).slice(0, 2 * MOST_LEFT) : [])].map(({ metadata }) => metadata.name);

  /** Of the requester, as it is now and not as a cache has it. */
  async function machineNow(request: StoredRequest): Promise<Stored<Machine> | undefined> {
    const key = machineOf(request);
    return key === undefined ? undefined : await client.find(Machines, { namespace: key.namespace, name: key.name }, { signal });
  }

  async function judge(request: StoredRequest, run: ReconcileContext): Promise<QueueResult | void> {
    const asked = askedOf(request);
    const node = nodeFor(asked);
    const hold = node === undefined ? undefined : await readHold(run.client, namespace, node, signal);
    const unsigned = Object.keys(hold?.ends ?? {}).filter((uid) => requests.byIndex(BY_UID, uid).length > 0);
    const known: Known = {
      nowMs: clock.now(),
      machine: await machineNow(request),
      ofNode: node === undefined ? [] : machines.byIndex(BY_NODE, node),
      // A cache that lags would give away the name of a Node that has just joined.
      node: node === undefined ? undefined : await client.find(Nodes, { name: node }, { signal }),
      reserved: node !== undefined && reserved(node),
      hold: hold && { ...hold, unsigned },
      newer: beside(request).filter((each) => isAfter(each, request)).length,
      server: asked.signerName === SIGNERS.client ? { hosts: [], addresses: [] } : await server(),
      nodeDomains: options.nodeDomains ?? [],
    };
    const verdict = decide(asked, known);
    if (verdict.do === 'Leave') return;
    if (verdict.do === 'Wait') {
      run.log.info({ requester: asked.username }, verdict.why);
      return { requeueAfterMs: AGAIN_MS };
    }
    const { machine } = known;
    if (verdict.do === 'Approve' && verdict.record !== undefined && machine !== undefined) {
      const { record } = verdict;
      const condition = conditionFor(record, machine);
      await recordBootstrap(run.client, machine, record, { condition, nowMs: known.nowMs }, signal);
    }
    if (verdict.do === 'Approve' && verdict.holder !== undefined && node !== undefined) {
      const own = hold?.pool === verdict.holder ? hold : { ends: {}, since: asked.createdAt };
      const ends = withRequest(own.ends, asked.uid, asked.expirationSeconds, known.nowMs, unsigned);
      await writeHold(run.client, { namespace, node }, hold, { pool: verdict.holder, ends, since: own.since }, signal);
    }
    // Whole, since an update writes all of it; conditioned on what was judged.
    const { uid, resourceVersion } = request.metadata;
    const live = await run.client.find(CertificateSigningRequests, { name: request.metadata.name }, { signal });
    if (live === undefined) return;
    const whole = { ...live, metadata: { ...live.metadata, uid, resourceVersion } };
    await answer(run.client, whole, verdict, known.nowMs, signal);
    const { reason, message } = verdict;
    run.log.info({ requester: asked.username, verdict: verdict.do, reason }, message);
    if (machine === undefined) return;
    if (verdict.do === 'Deny') {
      // Of others nothing is written on their Machine.
      if (machineOf(request)?.kind === 'Bootstrap') denied.add(uid);
      recorder.event(machine, { type: 'Warning', reason: 'CertificateDenied', message: `${reason}: ${message}` });
    } else if (reason === 'Admitted') recorder.event(machine, { type: 'Normal', reason, message: `the agent was ${message}` });
  }

  /** By whichever approver: the name of that Node is the pool's until the certificate ends, which only its signer decides. */
  async function afterIssue(request: StoredRequest, run: ReconcileContext): Promise<void> {
    if (request.spec.signerName === SIGNERS.client) return;
    const node = nodeOf(askedOf(request));
    const endMs = endOfCertificate(request.status?.certificate ?? '');
    if (node === undefined || endMs === undefined) return;
    const hold = await readHold(run.client, namespace, node, signal);
    if (hold === undefined) return;
    const ends = withIssued(hold.ends, request.metadata.uid, endMs, clock.now());
    await writeHold(run.client, { namespace, node }, hold, { ...hold, ends }, signal);
  }

  /** Whoever denied it, also a person or another approver: the agent waits for another token then, and its Machine says why. */
  async function afterDenial(request: StoredRequest, run: ReconcileContext): Promise<void> {
    if (machineOf(request)?.kind !== 'Bootstrap') return;
    const machine = await machineNow(request);
    const bootstrap = machine?.status?.bootstrap;
    // What a token of before asked for, or one that was used already, says nothing of now.
    if (
      machine === undefined ||
      bootstrap === undefined ||
      bootstrap.accountUID !== askedOf(request).userUID ||
      bootstrap.csrUID !== undefined
    )
      return;
    if (bootstrap.deniedUID === request.metadata.uid) return;
    const { reason = '', message = '' } = conditionOf(request, 'Denied') ?? {};
    const said = `request ${request.metadata.name} was denied: ${[reason, message].filter((each) => each !== '').join(': ')}`;
    const condition = { status: 'False', reason: 'Denied', message: said } as const;
    await recordBootstrap(
      run.client,
      machine,
      { ...bootstrap, deniedUID: request.metadata.uid },
      { condition, nowMs: clock.now() },
      signal,
    );
    run.log.warn({ machine: machine.metadata.name }, said);
    if (!denied.delete(request.metadata.uid)) recorder.event(machine, { type: 'Warning', reason: 'CertificateDenied', message: said });
  }

  /** Where the cluster's signer refuses or is silent, the agent gets the token of a ServiceAccount, and the Machine says so (docs/protocols.md#g2). */
  async function afterApproval(request: StoredRequest, state: 'Approved' | 'Failed', run: ReconcileContext): Promise<QueueResult | void> {
    const asked = requestOf(request.spec.request);
    if (machineOf(request) === undefined || 'unreadable' in asked) return;
    const machine = await machineNow(request);
    const bootstrap = machine?.status?.bootstrap;
    // Only what is the machine's own newest request: an old one that was never signed says nothing of now.
    if (machine === undefined || bootstrap?.by !== 'Certificate' || bootstrap.keySHA256 !== asked.keySHA256) return;
    const approved = conditionOf(request, 'Approved');
    const sinceMs = Date.parse(approved?.lastUpdateTime ?? request.metadata.creationTimestamp);
    const waitMs = sinceMs + signerDeadlineMs - clock.now();
    if (state === 'Approved' && waitMs > 0) return { requeueAfterMs: waitMs };
    // A cache that lags would take a signer for silent that has signed.
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

  async function reconcileMachine(key: string, run: ReconcileContext): Promise<QueueResult | void> {
    const machine = machines.get(parseKey(key));
    if (machine === undefined) return;
    const provider = providers.get(machine.spec.provider?.name ?? '');
    const due = readmissionOf(machine, clock.now());
    if (due === undefined || provider === undefined) return;
    if (due.inMs > 0) return { requeueAfterMs: due.inMs };
    // An agent that was admitted a moment ago must not be put out by what a cache has not seen.
    const live = await client.find(Machines, machine.metadata, { signal });
    if (live?.metadata.uid !== machine.metadata.uid || (readmissionOf(live, clock.now())?.inMs ?? 1) > 0)
      return { requeueAfterMs: AGAIN_MS };
    // What is not there is not made here: its machine is NodeLost, or the machine controller makes it.
    const instance = await provider.get(machine.status?.providerID ?? provider.providerIDOf(instanceRequestOf(machine)), signal);
    if (instance === undefined || instance.state === 'Deleting') return { requeueAfterMs: RESYNC_MS };
    run.log.info({ why: due.why, again: due.again }, 'the node gets a new bootstrap');
    await ensureInstance(run.client, machine, provider, cell, signal, { again: due.again });
    recorder.event(machine, { type: 'Normal', reason: 'BootstrapRenewed', message: `the node gets a new bootstrap: ${due.why}` });
  }

  const shared = { client, clock, random, log, signal, resyncMs: RESYNC_MS };
  await Promise.all([
    createController({
      ...shared,
      name: 'identity-requests',
      watches: [watch(requests, ledTo), watch(machines, () => [])],
      reconcile: reconcileRequest,
      concurrency: 8,
    }).run(),
    createController({
      ...shared,
      name: 'identity-machines',
      watches: [watch(machines, (machine, old) => (isNews(machine, old) ? [keyOf(machine.metadata)] : []))],
      reconcile: async (key, run) => {
        try {
          return await reconcileMachine(key, run);
        } catch (error) {
          run.log.warn({ error: messageOf(error) }, 'the node did not get its bootstrap');
          throw error;
        }
      },
      concurrency: 4,
    }).run(),
  ]);
}

/** Whether a name is one of these; `*` stands for any characters. */
function namePatterns(patterns: readonly string[]): (name: string) => boolean {
  const all = patterns.map((each) => new RegExp(`^${each.replaceAll('.', String.raw`\.`).replaceAll('*', '.*')}$`, 's'));
  return (name) => all.some((each) => each.test(name));
}

const TOKEN = 'ServiceAccountToken';
const BY_NODE = 'identity/node';
const BY_UID = 'identity/uid';
const BY_REQUESTER = 'identity/requester';
/** Of an open request: who asks whom. */
const openRequesterOf = (request: StoredRequest): string[] =>
  isLookedAt(request) && stateOf(request) === 'Open' ? [`${request.spec.signerName} ${request.spec.username ?? ''}`] : [];
const isAfter = ({ metadata: a }: StoredRequest, { metadata: b }: StoredRequest): boolean =>
  a.creationTimestamp === b.creationTimestamp ? a.uid > b.uid : a.creationTimestamp > b.creationTimestamp;
const uidOf = ({ metadata }: StoredRequest): string[] => [metadata.uid];
const nodesOf = ({ metadata, status }: Stored<Machine>): string[] => [
  ...new Set([metadata.name, ...(status?.nodeRef === undefined ? [] : [status.nodeRef.name])]),
];

/** Most writes of a Machine say nothing about its admission. */
function isNews(machine: Stored<Machine>, old: Stored<Machine> | undefined): boolean {
  if (old === undefined) return true;
  const [now, before] = [machine, old].map(({ status }) => JSON.stringify([status?.bootstrap, status?.providerID, status?.agent?.version]));
  return now !== before;
}

function conditionFor(record: Bootstrap, machine: Stored<Machine>) {
  const before = machine.status?.conditions?.find(({ type }) => type === 'Admitted');
  if (record.by === 'Token') return { status: 'True', reason: TOKEN, message: before?.message ?? 'the agent is a ServiceAccount' } as const;
  const message = `the agent was admitted in epoch ${record.epoch}; its newest certificate ends by ${record.until ?? ''}`;
  return { status: 'True', reason: 'ClientCertificate', message } as const;
}
