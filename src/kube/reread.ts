import type { Clock } from '../api/ports.ts';
import type { ApiRequest, ApiResponse } from '../api/transport.ts';
import type { ClosableTransport, Connection } from './connect.ts';

export interface RereadOptions<C extends Connection> {
  first: C;
  /** Reads it again, from where the first came. */
  load: () => Promise<C>;
  make: (connection: C) => ClosableTransport;
  clock: Clock;
  /** It continues with another connection. */
  onRenewed?: (connection: C) => void;
}

export interface RereadTransport<C extends Connection> extends ClosableTransport {
  /** The one in use. */
  readonly connection: C;
}

/** Between two reads of the kubeconfig while requests fail. */
const REREAD_MS = 5000;

/**
 * A transport whose kubeconfig is read again while the server does not take its credentials or is not reached, so that a new one beside a running
 * program is enough. What was once reached stays the same server: another address is taken up only as long as that server never answered, since
 * a kubeconfig that people switch to another cluster must not take a controller along. What cannot be read changes nothing.
 */
export function rereadTransport<C extends Connection>({ first, load, make, clock, onRenewed }: RereadOptions<C>): RereadTransport<C> {
  let connection = first;
  let transport = make(first);
  let reached = false;
  let closed = false;
  let readAt = clock.monotonic();

  async function reread(): Promise<void> {
    if (closed || clock.monotonic() - readAt < REREAD_MS) return;
    readAt = clock.monotonic();
    const found = await load().catch(() => undefined);
    if (found === undefined || closed || same(found, connection) || (reached && found.server !== connection.server)) return;
    const former = transport;
    connection = found;
    transport = make(found);
    onRenewed?.(found);
    await former.close();
  }

  async function send(request: ApiRequest): Promise<ApiResponse> {
    try {
      const response = await transport(request);
      if (response.status === 401) await reread();
      else reached = true;
      return response;
    } catch (error) {
      if (request.signal?.aborted !== true) await reread();
      throw error;
    }
  }
  return Object.defineProperty(
    Object.assign(send, {
      close(): Promise<void> {
        closed = true;
        return transport.close();
      },
    }),
    'connection',
    { get: () => connection },
  ) as RereadTransport<C>;
}

/** Functions renew what they give by themselves. */
function same(a: Connection, b: Connection): boolean {
  const text = ({ server, ca, clientCert, clientKey, tlsServerName, token }: Connection): string =>
    JSON.stringify([server, ca, clientCert, clientKey, tlsServerName, typeof token === 'function' ? 'renews itself' : token]);
  return text(a) === text(b);
}
