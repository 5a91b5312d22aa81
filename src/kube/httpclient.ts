import type { Transport } from '../api/transport.ts';
import type { Client } from './client.ts';

export interface ClientOptions {
  /** Of writes that name none. */
  fieldManager?: string;
  userAgent?: string;
}

export declare function createClient(transport: Transport, options?: ClientOptions): Client;
