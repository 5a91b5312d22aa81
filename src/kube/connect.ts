import type { Transport } from '../api/transport.ts';

/** How to reach one API server and as whom. Everything is text in memory: PEM, never a path. TLS is always verified. */
export interface Connection {
  /** `https://host:port`, with an optional path prefix that is put before every request path. */
  server: string;
  /** PEM of the authorities to trust; absent: those of Node. */
  ca?: string;
  /** Bearer token; a function is asked before every request and does its own caching. */
  token?: string | (() => Promise<string>);
  /** PEM; both or neither. */
  clientCert?: string;
  clientKey?: string;
  /** Name to verify the server certificate against, where it differs from the host of `server`. */
  tlsServerName?: string;
}

export interface TransportOptions {
  /** Longest silence before the head of an answer and between its pieces; watches are exempt after their head. Default 60,000. */
  idleTimeoutMs?: number;
}

export interface ClosableTransport extends Transport {
  /** Destroys the connections; requests under way are rejected. */
  close(): Promise<void>;
}
