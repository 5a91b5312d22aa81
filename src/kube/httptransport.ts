import type { ClosableTransport, Connection, TransportOptions } from './connect.ts';

/** Over undici, through one Agent (connection pool) a TLS identity, shared by all transports that use it. */
export declare function httpTransport(connection: Connection, options?: TransportOptions): ClosableTransport;
