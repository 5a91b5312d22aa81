import type { Client } from '../../kube/client.ts';
import type { Term } from '../../kube/lease.ts';
import { termClient } from '../../kube/term-client.ts';

/** What the work of one term needs of it; absent where no Lease is used. */
export type Leading = Pick<Term, 'isOurs' | 'require'>;

/** Begins no write after its term. */
export const within = (term: Leading | undefined, client: Client): Client => (term === undefined ? client : termClient(client, term));
