import type { FakeApiServer } from './api-server.ts';

/** What may happen to watches at any moment. */
export const DISTURBANCES = ['reset', 'end', 'compact', 'stall', 'resume', 'bookmark', 'garbage'] as const;

export function disturb(server: FakeApiServer, how: (typeof DISTURBANCES)[number]): void {
  if (how === 'compact') server.compact();
  else if (how === 'bookmark') server.bookmark();
  else if (how === 'garbage') server.watches.inject('{"type":');
  else server.watches[how]();
}
