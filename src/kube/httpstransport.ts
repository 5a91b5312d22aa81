import type { ClosableTransport, Connection, TransportOptions } from './connect.ts';

/** Over node:https with keep-alive; for the agent, which must stay small. */
export declare function nodeHttpsTransport(connection: Connection, options?: TransportOptions): ClosableTransport;
