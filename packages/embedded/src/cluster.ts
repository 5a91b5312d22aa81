import { randomBytes } from 'node:crypto';
import type { Clock, Log, Random } from '@kubenode/api-machinery/ports';
import { CodedError, messageOf } from '@kubenode/api-machinery/errors';
import type { ApiRequest, ApiResponse, Transport } from '@kubenode/api-machinery/transport';
import { Policies } from './admission/policies.ts';
import { authenticate } from './authenticate.ts';
import { Authorizer } from './rbac/authorizer.ts';
import { makeDefaults } from './rbac/defaults.ts';
import { impersonate } from './rbac/impersonate.ts';
import { authorize } from './rbac/request.ts';
import { Bookmarks } from './bookmarks.ts';
import { clusterRolesController } from './controllers/cluster-roles.ts';
import { budgetsController } from './controllers/budgets.ts';
import type { Context, EmbeddedController } from './controllers/controller.ts';
import { define, DEFINITIONS, definitionsController, serve } from './controllers/definitions.ts';
import { expiryController } from './controllers/expiry.ts';
import { garbageController } from './controllers/garbage.ts';
import { gracesController } from './controllers/graces.ts';
import { namespacesController } from './controllers/namespaces.ts';
import { nodeLifecycleController } from './controllers/node-lifecycle.ts';
import { requestCleaner } from './controllers/request-cleaner.ts';
import { clientAuthority, signerController } from './controllers/signer.ts';
import { Tasks } from './controllers/tasks.ts';
import { established } from './crd/definition.ts';
import { handle, refused } from './handle.ts';
import { builtinKinds } from './kinds/all.ts';
import type { User } from './kinds/served.ts';
import { checkLabelName } from './names.ts';
import { Refusal } from './refusal.ts';
import { Registry } from './registry.ts';
import { damaged, memoryDisk, openDisk } from './store/disk.ts';
import { parsed } from './store/entry.ts';
import { EmbeddedStore } from './store/store.ts';
import { adminToken } from './token.ts';
import { factsFor, type World } from './world.ts';
import { embeddedError } from './errors.ts';

export interface ClusterOptions {
  /** Name of the cluster: a lower-case DNS label. */
  readonly name: string;
  /** `memory` keeps nothing; `dir` is the cluster's own state folder. */
  readonly state: 'memory' | { readonly dir: string };
  readonly clock: Clock;
  /** Of UIDs, generated names and watch timeouts. Default: a cryptographic one. Tokens and keys never come from it. */
  readonly random?: Random;
  /** Events kept a resource, for watches that resume and lists that page. Default 5,000. */
  readonly history?: number;
  /**
   * Who ends a pod that was deleted with a grace period: `server` when the period is over (default: no kubelet need run),
   * `kubelet`: it stays until it is deleted with grace 0, as on a real cluster.
   */
  readonly podsEndedBy?: 'server' | 'kubelet';
  /** A Node whose kubelet does not respond for longer becomes Ready=Unknown. Absent: Nodes keep their conditions, as on a bare API server. */
  readonly nodeGraceMs?: number;
  /** As kube-apiserver's flag: who may do what follows from roles and bindings, or everybody who is known may do everything (default). */
  readonly authorization?: 'RBAC' | 'AlwaysAllow';
  /** False: no controller signs client certificates, as on clusters whose provider runs no such signer. Default true. */
  readonly signsCertificates?: boolean;
  /** Faults inside the server; never secrets. */
  readonly log?: Pick<Log, 'error'>;
}

/** One API server's world. */
export interface EmbeddedCluster {
  readonly name: string;
  /** Bearer token of the user `kubernetes-admin`, group `system:masters`. */
  readonly adminToken: string;
  /** The newest resourceVersion. */
  readonly resourceVersion: string;
  /** Watches that are open. */
  readonly watches: number;
  /** As over HTTP: authenticated by the `authorization` header. */
  handle(request: ApiRequest): Promise<ApiResponse>;
  /** In-process, trusted: every request is this user's. Default user: the admin. */
  asUser(user?: { name: string; groups?: readonly string[]; uid?: string }): Transport;
  /**
   * Who sends a request with this head, or the answer that refuses it. It has not read any of the body then, so strangers cannot make the server
   * keep any.
   */
  admit(certificate: User | undefined, head: ApiRequest): { readonly user: User } | { readonly refused: ApiResponse };
  /** Answers a request of a user that `admit` gave. */
  answer(user: User, request: ApiRequest): Promise<ApiResponse>;
  /** As `handle`, for a connection whose client certificate was verified. */
  handleAs(certificate: User | undefined, request: ApiRequest): Promise<ApiResponse>;
  /** PEM certificate of the authority that signs client certificates of this cluster. */
  clientAuthority(): Promise<string>;
  /** Ends watches and timers and closes the state. Requests after it are answered 503. */
  close(): Promise<void>;
}

/** Cryptographic randomness, drawn from the system in pieces: a UID takes 32 numbers. */
function cryptoRandom(): () => number {
  let pool = Buffer.alloc(0);
  let at = 0;
  return () => {
    if (at + 6 > pool.length) {
      pool = randomBytes(6 * 1024);
      at = 0;
    }
    const value = pool.readUIntBE(at, 6) / 2 ** 48;
    at += 6;
    return value;
  };
}

function openWorld(options: ClusterOptions): World {
  if (checkLabelName(options.name).length > 0) {
    throw embeddedError(
      'BadClusterName',
      `${JSON.stringify(options.name)} cannot be the name of a cluster: use lower-case letters, digits and -, at most 63`,
    );
  }
  const disk = options.state === 'memory' ? memoryDisk() : openDisk(options.state.dir);
  const store = new EmbeddedStore(disk, options.history ?? 5000);
  return {
    name: options.name,
    disk,
    store,
    policies: new Policies(store),
    authorizer: options.authorization === 'RBAC' ? new Authorizer(store) : undefined,
    registry: new Registry(builtinKinds()),
    clock: options.clock,
    random: options.random ?? cryptoRandom(),
    bookmarks: new Bookmarks(options.clock),
  };
}

function load(context: Context): void {
  const { store, registry } = context.world;
  const definitions = () => [...store.table(DEFINITIONS).entries()].map(parsed).filter(established);
  store.load(
    DEFINITIONS,
    () => {
      for (const crd of definitions()) define(context, crd);
    },
    (resource, object) => factsFor(registry.byStorage(resource), object),
  );
  // Objects may have been stored under an older form of their definition.
  for (const crd of definitions()) serve(context, crd);
}

function loadFrom(state: ClusterOptions['state'], context: Context): void {
  try {
    load(context);
  } catch (error) {
    if (state === 'memory' || error instanceof CodedError) throw error;
    throw damaged(state.dir, error);
  }
}

const unavailable = () => new Refusal(503, 'ServiceUnavailable', 'the cluster is closed');

function controllersOf(context: Context, options: ClusterOptions): EmbeddedController[] {
  return [
    definitionsController(context),
    namespacesController(context),
    clusterRolesController(context),
    garbageController(context),
    budgetsController(context),
    ...(options.signsCertificates === false ? [] : [signerController(context)]),
    expiryController(context),
    requestCleaner(context),
    ...(options.podsEndedBy === 'kubelet' ? [] : [gracesController(context)]),
    ...(options.nodeGraceMs === undefined ? [] : [nodeLifecycleController(context, options.nodeGraceMs)]),
  ];
}

type Fault = (error: unknown, where: string) => void;

/** Loads what is stored, and starts the controllers. */
function startUp(context: Context, options: ClusterOptions, fault: Fault): { controllers: readonly EmbeddedController[]; token: string } {
  const { world } = context;
  try {
    loadFrom(options.state, context);
    const controllers = controllersOf(context, options);
    world.store.onEvent((event) => {
      for (const controller of controllers) {
        try {
          controller.onEvent(event);
        } catch (error) {
          // The write is done and answered as done, even if a controller fails on it.
          fault(error, `${event.type} ${event.resource} ${event.entry.key}`);
        }
      }
    });
    for (const controller of controllers) controller.start?.();
    if (world.authorizer !== undefined) makeDefaults(world);
    return { controllers, token: adminToken(world.disk) };
  } catch (error) {
    world.disk.close();
    throw error;
  }
}

/**
 * Opens a cluster: its state is loaded, its first namespaces are there, its controllers run.
 * Errors (CodedError): BadClusterName, StateUnwritable, StateInUse, StateTooNew, StateDamaged, each with one clear message.
 */
export async function openCluster(options: ClusterOptions): Promise<EmbeddedCluster> {
  const world = openWorld(options);
  const fault: Fault = (error, where) =>
    options.log?.error({ cluster: world.name, where, error: messageOf(error) }, 'a fault inside the embedded API server');
  const context: Context = { world, tasks: new Tasks((error, key) => fault(error, key)) };
  const { controllers, token } = startUp(context, options, fault);
  let closed = false;

  async function as(user: User, request: ApiRequest): Promise<ApiResponse> {
    if (closed) return refused(unavailable());
    request.signal?.throwIfAborted();
    return handle(world, user, request, (error) => fault(error, `${request.method} ${request.path}`));
  }

  function admit(certificate: User | undefined, head: ApiRequest): { user: User } | { refused: ApiResponse } {
    const { headers = {} } = head;
    if (closed) return { refused: refused(unavailable()) };
    try {
      const user = impersonate(world, authenticate(world, headers, certificate), headers);
      authorize(world, user, head);
      return { user };
    } catch (error) {
      if (error instanceof Refusal) return { refused: refused(error) };
      throw error;
    }
  }

  async function handleAs(certificate: User | undefined, request: ApiRequest): Promise<ApiResponse> {
    const admitted = admit(certificate, request);
    return 'refused' in admitted ? admitted.refused : await as(admitted.user, request);
  }

  return {
    name: world.name,
    adminToken: token,
    get resourceVersion() {
      return String(world.store.rv);
    },
    get watches() {
      return world.store.hub.size;
    },
    handle: (request) => handleAs(undefined, request),
    admit,
    answer: as,
    handleAs,
    asUser(user = { name: 'kubernetes-admin', groups: ['system:masters'] }) {
      const groups = [...new Set([...(user.groups ?? []), 'system:authenticated'])];
      const whole: User = { name: user.name, groups, ...(user.uid === undefined ? {} : { uid: user.uid }) };
      return (request) => as(whole, request);
    },
    clientAuthority: async () => (await clientAuthority(world)).certificate,
    async close() {
      if (closed) return;
      closed = true;
      context.tasks.close();
      for (const controller of controllers) controller.stop?.();
      world.store.hub.end();
      world.bookmarks.stop();
      world.disk.close();
    },
  };
}
