/** The epoch of a term of leadership, once the machine controller has raised it in the ledger. undefined: the term ended before it began. */
export async function termOf({ term, signal }: { term: Promise<number>; signal: AbortSignal }): Promise<number | undefined> {
  if (signal.aborted) return undefined;
  const ended = Promise.withResolvers<undefined>();
  const end = (): void => ended.resolve(undefined);
  signal.addEventListener('abort', end, { once: true });
  try {
    return await Promise.race([term, ended.promise]);
  } finally {
    signal.removeEventListener('abort', end);
  }
}
