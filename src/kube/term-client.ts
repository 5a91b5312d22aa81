/** Writes of one term of leadership, and of no moment after it (docs/protocols.md#d3). */
import type { Client } from './client.ts';
import type { Term } from './lease.ts';

/**
 * The same client, but it begins no write once the term cannot be relied on any more: a process that was stopped meets the answers it waited for
 * before its own timers, and would go on from them. Such a write is rejected with why the term ended; it was not sent. Reads pass.
 *
 * What was sent before is not called back: what must never happen twice is conditioned on what was read as well.
 */
export function termClient(client: Client, term: Pick<Term, 'require'>): Client {
  const during = async <T>(write: () => Promise<T>): Promise<T> => {
    term.require();
    return await write();
  };
  return {
    ...client,
    create: (...call) => during(() => client.create(...call)),
    update: (...call) => during(() => client.update(...call)),
    patch: (...call) => during(() => client.patch(...call)),
    apply: (...call) => during(() => client.apply(...call)),
    delete: (...call) => during(() => client.delete(...call)),
    post: (...call) => during(() => client.post(...call)),
    request: (request) => (request.method === 'GET' ? client.request(request) : during(() => client.request(request))),
  };
}
