import type { Machine } from '../../api/machine.ts';
import { SIGNERS } from '../../api/admission.ts';
import { AGENT_LEASE_SECONDS, MANAGERS, agentLeaseName } from '../../api/names.ts';
import { Leases } from '../../api/builtin.ts';
import type { Clock } from '../../api/ports.ts';
import { apiVersionOf } from '../../api/resource.ts';
import type { Transport } from '../../api/transport.ts';
import type { KubeObject, Stored } from '../../api/wire.ts';
import { hasReason } from '../../kube/api-error.ts';
import type { Client } from '../../kube/client.ts';
import { microTime } from '../../kube/clock.ts';
import { AGENT_LIMITS, createClient } from '../../kube/http-client.ts';
import { boundsOf } from '../../kube/server-time.ts';
import type { CellApi } from '../context.ts';
import { ask, readAnswer } from '../identity/wire.ts';
import type { AgentStatus } from '../report/status.ts';
import { MachineComponents, Machines, wantedOf } from './wanted.ts';

/** Everything that the agent asks of the API server. */
export interface AgentApi extends CellApi {
  readonly client: Client;
  /** Server-side apply of the agent's own fields. Returns the Machine as it is then. */
  apply(uid: string, status: AgentStatus, signal: AbortSignal): Promise<Stored<Machine>>;
  renewLease(signal: AbortSignal): Promise<void>;
}

export interface AgentApiOptions {
  transport: Transport;
  machine: { namespace: string; name: string; uid: string };
  /** As nodes reach it. */
  server: { server: string; certificateAuthority: string };
  clock: Clock;
  userAgent: string;
  /** Called for each answer with the latest time that the server's clock may show, wall ms. Deadlines of the cell are compared with it (docs/protocols.md#h5). */
  onServerTime: (serverMs: number) => void;
}

export function createAgentApi({ transport, machine, server, clock, userAgent, onServerTime }: AgentApiOptions): AgentApi {
  const { namespace, name, uid } = machine;
  const dated =
    (note: (serverMs: number) => void): Transport =>
    async (request) => {
      const sentMs = clock.monotonic();
      const response = await transport(request);
      const answeredMs = clock.monotonic();
      const bounds = response.status < 300 ? boundsOf({ headers: response.headers, sentMs, answeredMs }) : undefined;
      if (bounds !== undefined) note(bounds.high + answeredMs);
      return response;
    };
  const client = createClient(dated(onServerTime), { userAgent, fieldManager: MANAGERS.agent, limits: AGENT_LIMITS });
  const leaseName = agentLeaseName(name);

  return {
    client,

    nodeCertificates: {
      ...server,
      ask: (pending, seconds, signal) => ask(client, pending, seconds, signal, SIGNERS.kubeletClient),
      readAnswer: (pending, signal) => readAnswer(client, pending, signal),
    },

    async machine(signal) {
      // A client of its own, so that the clock is from exactly this answer.
      let serverMs: number | undefined;
      const live = createClient(
        dated((ms) => void (serverMs = ms)),
        { userAgent, limits: AGENT_LIMITS },
      );
      const wanted = wantedOf(await live.get(Machines, { namespace, name }, { signal }));
      if (serverMs !== undefined) onServerTime(serverMs);
      return { wanted, serverMs };
    },

    async component(componentName, signal) {
      return (await client.get(MachineComponents, { name: componentName }, { signal })).spec;
    },

    async apply(machineUID, status, signal) {
      // With its UID: a Machine that was made again under this name is another one.
      const object: KubeObject & { status: AgentStatus } = {
        apiVersion: apiVersionOf(Machines),
        kind: Machines.kind,
        metadata: { name, namespace, uid: machineUID },
        status,
      };
      return await client.apply(Machines, object, { fieldManager: MANAGERS.agent, subresource: 'status', force: true, signal });
    },

    async renewLease(signal) {
      const spec = { holderIdentity: name, leaseDurationSeconds: AGENT_LEASE_SECONDS, renewTime: microTime(clock.now()) };
      try {
        await client.patch(Leases, { namespace, name: leaseName }, { merge: { spec } }, { signal });
      } catch (error) {
        if (!hasReason(error, 'NotFound')) throw error;
        const ownerReferences = [{ apiVersion: apiVersionOf(Machines), kind: Machines.kind, name, uid }];
        const metadata = { name: leaseName, namespace, ownerReferences };
        await client.create(Leases, { apiVersion: apiVersionOf(Leases), kind: Leases.kind, metadata, spec }, { signal });
      }
    },
  };
}
