import { CertificateSigningRequests } from '../../api/builtin.ts';
import { messageOf } from '../../api/errors.ts';
import { Machines, type Machine } from '../../api/machine.ts';
import { SYSTEM_NAMESPACE } from '../../api/names.ts';
import type { Clock, Log, Random } from '../../api/ports.ts';
import type { InfraProvider } from '../../api/provider.ts';
import { keyOf } from '../../api/resource.ts';
import type { Stored } from '../../api/wire.ts';
import type { Cache } from '../../kube/cache.ts';
import type { Client } from '../../kube/client.ts';
import { createController, watch, type ReconcileContext } from '../../kube/controller.ts';
import type { QueueResult } from '../../kube/queue.ts';
import type { Recorder } from '../../kube/recorder.ts';
import { reconcileMachine, RESYNC_MS } from './bootstrap.ts';
import { beside, BY_NODE, BY_REQUESTER, BY_UID, nodesOf, openRequesterOf, uidOf, type IdentityDeps } from './context.ts';
import { afterApproval, afterDenial, afterIssue } from './outcome.ts';
import { judge } from './answer.ts';
import { MOST_LEFT } from './kubelet.ts';
import type { CellAddress } from './provision.ts';
import { serverNames, systemLookup, type Lookup } from './server-names.ts';
import { isJudged, keptOf, stateOf, type StoredRequest } from './requests.ts';

export interface IdentityControllerOptions {
  client: Client;
  cache: Cache;
  /** By name, as in `spec.provider.name`. */
  providers: ReadonlyMap<string, InfraProvider>;
  cell: CellAddress;
  clock: Clock;
  random: Random;
  log: Log;
  recorder: Recorder;
  signal: AbortSignal;
  /** A request that is not signed so long after its approval counts as one that never will be. Default 60,000. */
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

/**
 * Admits agents and renews their identity (docs/protocols.md#g1). One loop answers requests for certificates; the other gives a node a new bootstrap
 * when the identity it had, or the token it never used, has run out. Resolves when ended.
 */
export async function runIdentityController(options: IdentityControllerOptions): Promise<void> {
  const { client, clock, random, log, signal } = options;
  const deps = depsOf(options);
  const { requests, machines } = deps;
  machines.addIndex(BY_NODE, nodesOf);
  requests.addIndex(BY_UID, uidOf);
  requests.addIndex(BY_REQUESTER, openRequesterOf);
  const shared = { client, clock, random, log, signal, resyncMs: RESYNC_MS };
  await Promise.all([
    createController({
      ...shared,
      name: 'identity-requests',
      watches: [watch(requests, (request, old) => concerned(requests, request, old)), watch(machines, () => [])],
      reconcile: (name, run) => reconcileRequest(deps, name, run),
      concurrency: 8,
    }).run(),
    createController({
      ...shared,
      name: 'identity-machines',
      watches: [watch(machines, (machine, old) => (isNews(machine, old) ? [keyOf(machine.metadata)] : []))],
      reconcile: async (key, run) => {
        try {
          return await reconcileMachine(deps, key, run);
        } catch (error) {
          run.log.warn({ error: messageOf(error) }, 'the node did not get its bootstrap');
          throw error;
        }
      },
      concurrency: 4,
    }).run(),
  ]);
}

function depsOf(options: IdentityControllerOptions): IdentityDeps {
  const { client, cache, providers, cell, clock, log, recorder, signal } = options;
  const server = serverNames([cell.server, ...(options.serverURLs ?? [])], options.lookup ?? systemLookup, clock, (error) =>
    log.warn(
      { error: messageOf(error) },
      'the name service gives no answer about the API server: serving certificates with addresses wait',
    ),
  );
  return {
    client,
    clock,
    recorder,
    signal,
    providers,
    cell,
    namespace: options.namespace ?? SYSTEM_NAMESPACE,
    signerDeadlineMs: options.signerDeadlineMs ?? 60_000,
    nodeDomains: options.nodeDomains ?? [],
    requests: cache.store(CertificateSigningRequests, { project: keptOf }),
    machines: cache.store(Machines),
    reserved: namePatterns(options.reservedNodeNames ?? []),
    server,
    denied: new Set(),
  };
}

async function reconcileRequest(deps: IdentityDeps, name: string, run: ReconcileContext): Promise<QueueResult | void> {
  const request = deps.requests.get({ name });
  if (request === undefined || !isJudged(request)) return;
  const state = stateOf(request);
  switch (state) {
    case 'Open':
      return await judge(deps, request, run);
    case 'Approved':
    case 'Failed':
      return await afterApproval(deps, request, state, run);
    case 'Denied':
      return await afterDenial(deps, request, run);
    case 'Issued':
      return await afterIssue(deps, request, run);
    default:
      return state satisfies never;
  }
}

/** A new request may be one too many: some of those before it are judged again. */
function concerned(requests: IdentityDeps['requests'], request: StoredRequest, old?: StoredRequest): string[] {
  if (!isJudged(request)) return [];
  return [request, ...(old === undefined ? beside(requests, request).slice(0, 2 * MOST_LEFT) : [])].map(({ metadata }) => metadata.name);
}

/** Whether a name is one of these; `*` stands for any characters. */
function namePatterns(patterns: readonly string[]): (name: string) => boolean {
  const all = patterns.map((each) => new RegExp(`^${each.replaceAll('.', String.raw`\.`).replaceAll('*', '.*')}$`, 's'));
  return (name) => all.some((each) => each.test(name));
}

/** Most writes of a Machine change nothing about its admission. */
function isNews(machine: Stored<Machine>, old: Stored<Machine> | undefined): boolean {
  if (old === undefined) return true;
  const [now, before] = [machine, old].map(({ status }) => JSON.stringify([status?.bootstrap, status?.providerID, status?.agent?.version]));
  return now !== before;
}
