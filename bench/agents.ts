/** Agents' connections to one API server, and what goes over them: the agent's own code, many times in this process. */
import { createAgentApi } from '../src/agent/cell/api.ts';
import { AGENT_VERSION } from '../src/agent/agent.ts';
import { keepLease } from '../src/agent/report/lease.ts';
import { watchMachine } from '../src/agent/cell/watch.ts';
import { Machines } from '../src/api/machine.ts';
import type { Log } from '../src/api/ports.ts';
import type { ApiRequest, ApiResponse, Transport } from '../src/api/transport.ts';
import { isExpired } from '../src/kube/api-error.ts';
import type { Client } from '../src/kube/client.ts';
import { sleep, systemClock } from '../src/kube/clock.ts';
import { isWatch, type Connection } from '../src/kube/connect.ts';
import { createClient } from '../src/kube/http-client.ts';
import { nodeHttpsTransport } from '../src/kube/https-transport.ts';

/** A Machine and how its agent connects. */
export interface Member {
  machine: { namespace: string; name: string; uid: string };
  connection: Connection;
}

export interface Asked {
  /** By `performance.now()`. */
  at: number;
  watch: boolean;
  /** Undefined until it is answered, or when it never is. */
  status: number | undefined;
}

export interface Crowd {
  /** Every request since it was opened. */
  readonly asked: readonly Asked[];
  /** When each watch that is open now was answered, by `performance.now()`. */
  readonly open: ReadonlyMap<number, number>;
  close(): Promise<void>;
}

type Live = (member: Member, transport: Transport, signal: AbortSignal) => Promise<unknown>;

const noLog: Log = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined };
const clock = systemClock({ ref: true });

/** The watch and the Lease of each agent. Of the rest of the agent nothing asks the server while nothing happens. */
export const asAgents: Live = async ({ machine }, transport, signal) => {
  const common = { clock, random: Math.random, log: noLog, signal };
  const api = createAgentApi({
    server: { server: '', certificateAuthority: '' },
    transport,
    machine,
    clock,
    userAgent: `kubenode-agent/${AGENT_VERSION}`,
    onServerTime: () => undefined,
  });
  await Promise.all([
    watchMachine({ ...common, client: api.client, machine, onMachine: () => undefined }),
    keepLease({ ...common, renew: (each) => api.renewLease(each) }),
  ]);
};

export const AT_ONCE_MS = 100;

/** Watches that are opened again at once, or as soon as the server lets them. */
export const atOnce: Live = async ({ machine: { namespace, name } }, transport, signal) => {
  const client: Client = createClient(transport, { userAgent: 'kubenode-bench' });
  let from: string | undefined;
  while (!signal.aborted) {
    try {
      const start = from === undefined ? {} : { resourceVersion: from };
      for await (const { object } of client.watch(Machines, { namespace, fieldSelector: `metadata.name=${name}`, signal, ...start }))
        from = object.metadata.resourceVersion;
    } catch (error) {
      if (isExpired(error)) from = undefined;
      else await new Promise((resolve) => void setTimeout(resolve, AT_ONCE_MS));
    }
  }
};

/** They begin one after the other, evenly over this time. */
export function openCrowd(members: readonly Member[], live: Live, overMs: number): Crowd {
  const ended = new AbortController();
  const asked: Asked[] = [];
  const open = new Map<number, number>();
  const transports = members.map(({ connection }) => nodeHttpsTransport(connection));
  const lives = members.map(async (member, index) => {
    const noted: Transport = async (request: ApiRequest): Promise<ApiResponse> => {
      const watch = isWatch(request);
      const note: Asked = { at: performance.now(), watch, status: undefined };
      asked.push(note);
      const response = await (transports[index] as Transport)(request);
      note.status = response.status;
      if (!watch || response.status !== 200) return response;
      open.set(index, performance.now());
      return { ...response, body: withEnd(response.body, () => open.delete(index)) };
    };
    await sleep(clock, (index / members.length) * overMs, ended.signal);
    await live(member, noted, ended.signal);
  });
  return {
    asked,
    open,
    async close() {
      ended.abort(new Error('measured'));
      await Promise.allSettled(lives);
      await Promise.all(transports.map((transport) => transport.close()));
    },
  };
}

async function* withEnd(body: ApiResponse['body'], onEnd: () => void): AsyncGenerator<Uint8Array, void> {
  try {
    yield* body;
  } finally {
    onEnd();
  }
}
