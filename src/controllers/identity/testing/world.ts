import { X509Certificate } from 'node:crypto';
import { setTimeout } from 'node:timers/promises';
import { createIdentity } from '../../../agent/identity/identity.ts';
import type { AgentIdentity } from '../../../agent/identity/identity.ts';
import type { ApiCredentials } from '../../../agent/identity/session.ts';
import { createDurable } from '../../../agent/disk/durable.ts';
import { identityState } from '../../../agent/identity/state.ts';
import { simulatedFiles, type DiskHooks } from '../../../agent/testing/disk.ts';
import { Disk } from '../../../agent/testing/inodes.ts';
import { SIGNERS } from '../../../api/admission.ts';
import { CertificateSigningRequests, CustomResourceDefinitions, Namespaces } from '../../../api/builtin.ts';
import { CELL_KINDS } from '../../../api/kinds.ts';
import { SYSTEM_NAMESPACE } from '../../../api/names.ts';
import { API_VERSION } from '../../../api/kind.ts';
import { Machines, type Machine } from '../../../api/machine.ts';
import type { ApiRequest, ApiResponse, Transport } from '../../../api/transport.ts';
import type { JsonObject, Stored } from '../../../api/wire.ts';
import { openCluster, type EmbeddedCluster, userOfCertificate } from '@kubenode/embedded';
import { createCache } from '../../../kube/cache.ts';
import type { Client } from '../../../kube/client.ts';
import { createClient } from '../../../kube/http-client.ts';
import type { RetirableTransport } from '../../../kube/https-transport.ts';
import type { RecordedEvent } from '../../../kube/recorder.ts';
import { fakeClock, seededRandom, type FakeClock } from '../../../kube/testing/clock.ts';
import { recordingLog } from '../../../kube/testing/log.ts';
import { settle } from '../../../kube/testing/wait-for.ts';
import { fakeInfra, fakeProvider, type FakeInfra } from '../../../providers/testing/fake.ts';
import { ensureInstance } from '../provision.ts';
import { runIdentityController } from '../controller.ts';
import { stateOf } from '../requests.ts';

const CELL = { server: 'https://cell', certificateAuthority: 'PEM', mirror: undefined };
const lookup = () => Promise.resolve(['192.0.2.1']);
export const KEY = { namespace: 'web', name: 'a' };

export interface Running {
  stop(): Promise<void>;
}

export interface Agent extends Running {
  identity: AgentIdentity;
  log: ReturnType<typeof recordingLog>;
  /** As whom the server authenticates it; the status where it authenticates no one; `waiting` while it answers nothing. */
  whoIs(): Promise<string | number>;
}

/** A cell, a cloud, and a node with a disk; time stands still until it is passed. */
export interface IdentityWorld {
  readonly clock: FakeClock;
  readonly cluster: EmbeddedCluster;
  readonly client: Client;
  readonly infra: FakeInfra;
  readonly events: RecordedEvent[];
  disk: Disk;
  /** Requests of agents, oldest first, as `METHOD path`. */
  readonly requests: string[];
  /** Before each request of an agent; may throw, or end the process. */
  onRequest: (request: ApiRequest, credentials: ApiCredentials) => void;
  /** Before each write of a controller. */
  onWrite: (request: ApiRequest) => void;
  /** The machine's instance is made, as by the machine controller, and known. */
  make(): Promise<void>;
  lead(): Running;
  start(hooks?: DiskHooks): Agent;
  machine(): Promise<Stored<Machine>>;
  editStatus(change: object): Promise<void>;
  /** Passes time until it is so. */
  until<T>(what: string, condition: () => T | Promise<T>, ms?: number): Promise<NonNullable<Exclude<T, false>>>;
  /** Passes time, in steps in which what is done in real time (certificates are made) comes to its end. */
  pass(ms: number): Promise<void>;
  close(): Promise<void>;
}

export async function openWorld(options: { signs?: boolean; server?: string } = {}): Promise<IdentityWorld> {
  const clock = fakeClock();
  const cluster = await openCluster({
    name: 'cell',
    state: 'memory',
    clock,
    random: seededRandom(7),
    ...(options.signs === false ? { signsCertificates: false } : {}),
  });
  const client = createClient(cluster.asUser(), { fieldManager: 'kubenode-test' });
  const infra = fakeInfra();
  const provider = fakeProvider(infra);
  const events: RecordedEvent[] = [];
  const running: Running[] = [];
  await Promise.all(CELL_KINDS.map((kind) => client.create(CustomResourceDefinitions, kind.crd())));
  await client.create(Namespaces, { apiVersion: 'v1', kind: 'Namespace', metadata: { name: KEY.namespace } });
  await client.create(Namespaces, { apiVersion: 'v1', kind: 'Namespace', metadata: { name: SYSTEM_NAMESPACE } });
  const spec = { provider: { name: 'fake' } };
  const made = await client.create(Machines, { apiVersion: API_VERSION, kind: 'Machine', metadata: KEY, spec });
  const { uid } = made.metadata;
  const providerID = `fake://${uid}`;

  function connect(credentials: ApiCredentials): RetirableTransport {
    let closed = false;
    const send: Transport = async (request): Promise<ApiResponse> => {
      if (closed) throw new Error('this transport is closed');
      world.requests.push(`${request.method} ${request.path}`);
      world.onRequest(request, credentials);
      if ('token' in credentials)
        return await cluster.handle({ ...request, headers: { ...request.headers, authorization: `Bearer ${credentials.token}` } });
      const user = userOfCertificate(new X509Certificate(credentials.clientCert), await cluster.clientAuthority(), clock.now());
      return await cluster.handleAs(user, request);
    };
    const close = () => void (closed = true);
    return Object.assign(send, { close: () => Promise.resolve(close()), retire: close });
  }

  /** Certificates are made in real time, which the clock must not outrun. */
  async function signed(): Promise<void> {
    if (options.signs === false) return;
    for (;;) {
      const open = (await client.list(CertificateSigningRequests)).items.some(
        // Kubelets' serving certificates the server signs none of.
        (request) => stateOf(request) === 'Approved' && request.spec.signerName !== SIGNERS.kubeletServing,
      );
      if (!open) return;
      await setTimeout(1);
    }
  }

  const started = (one: Running): void => void running.push(one);
  const world: IdentityWorld = {
    clock,
    cluster,
    client,
    infra,
    events,
    disk: new Disk(),
    requests: [],
    onRequest: () => undefined,
    onWrite: () => undefined,

    async make() {
      await ensureInstance(client, await world.machine(), provider, CELL, new AbortController().signal);
      infra.progress();
      await world.editStatus({ providerID });
    },

    lead() {
      const ended = new AbortController();
      const direct = cluster.asUser();
      const through: Transport = async (request) => {
        if (request.method !== 'GET') world.onWrite(request);
        return await direct(request);
      };
      const shared = { client: createClient(through), clock, random: seededRandom(3), log: recordingLog(), signal: ended.signal };
      const cache = createCache(shared);
      const recorder = { event: (_: object, event: RecordedEvent) => void events.push(event), flush: () => Promise.resolve() };
      // Within one advance of the clock a certificate is never made.
      const patience = options.signs === false ? {} : { signerDeadlineMs: 10_000_000 };
      const providers = new Map([['fake', provider]]);
      const done = runIdentityController({
        ...shared,
        ...patience,
        cache,
        recorder,
        cell: { ...CELL, ...(options.server === undefined ? {} : { server: options.server }) },
        lookup,
        providers,
      });
      const leader = {
        async stop() {
          ended.abort(new Error('the term is over'));
          await done.catch(() => undefined);
          await cache.done();
        },
      };
      started(leader);
      return leader;
    },

    start(hooks = {}) {
      const ended = new AbortController();
      const log = recordingLog();
      const identity = createIdentity({
        machine: { ...KEY, uid },
        readToken: () => Promise.resolve(infra.instances.get(providerID)?.bootstrap?.token ?? ''),
        state: identityState(createDurable(simulatedFiles(world.disk, hooks), ''), '/state', uid),
        connect,
        userAgent: 'agent',
        clock,
        random: seededRandom(5),
        log,
        signal: ended.signal,
      });
      const done = identity.run();
      const review = async (): Promise<string | number> => {
        try {
          const answer = (await createClient(identity.transport).post('/apis/authentication.k8s.io/v1/selfsubjectreviews', {
            apiVersion: 'authentication.k8s.io/v1',
            kind: 'SelfSubjectReview',
          })) as { status: { userInfo: { username: string } } };
          return answer.status.userInfo.username;
        } catch (error) {
          return error instanceof Error && 'status' in error ? Number(error.status) : String(error);
        }
      };
      const agent: Agent = {
        identity,
        log,
        async whoIs() {
          const waiting = async (): Promise<string> => {
            for (let turn = 0; turn < 10; turn++) await settle();
            return 'waiting';
          };
          return await Promise.race([review(), waiting()]);
        },
        async stop() {
          ended.abort(new Error('the agent ends'));
          await done;
          await identity.close();
        },
      };
      started(agent);
      return agent;
    },

    machine: () => client.get(Machines, KEY),

    async editStatus(change) {
      await client.patch(Machines, KEY, { merge: { status: change } as JsonObject }, { subresource: 'status' });
    },

    async until(what, condition, ms = 120_000) {
      const end = clock.now() + ms;
      for (;;) {
        const found = await condition();
        // oxlint-disable-next-line typescript/no-unnecessary-condition
        if (found) return found as NonNullable<Exclude<typeof found, false>>;
        if (clock.now() > end) throw new Error(`within ${ms / 1000} s it did not come true that ${what}`);
        await clock.advance(Math.max(20, ms / 1000));
        await signed();
      }
    },

    async pass(ms) {
      const end = clock.now() + ms;
      while (clock.now() < end) {
        await clock.advance(600_000);
        await signed();
      }
    },

    async close() {
      await Promise.all(running.map((one) => one.stop()));
      await cluster.close();
    },
  };
  return world;
}

export const requestsOf = async (world: IdentityWorld) => (await world.client.list(CertificateSigningRequests)).items;
