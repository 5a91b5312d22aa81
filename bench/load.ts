/** Ways to ask. */
import type { ApiRequest, Transport } from '../src/api/transport.ts';

export interface Rate {
  perSecond: number;
  /** Of one core, by this process. */
  askerPercent: number;
}

export interface Load extends Rate {
  /** Of each request of an open loop. */
  ms: number[];
}

/** `count` requests, so many at a time, as fast as they are answered. */
export async function closedLoop(count: number, atOnce: number, ask: (index: number) => Promise<void>): Promise<Rate> {
  let next = 0;
  const cpu = process.cpuUsage();
  const began = performance.now();
  await Promise.all(
    Array.from({ length: atOnce }, async () => {
      while (next < count) await ask(next++);
    }),
  );
  const ms = performance.now() - began;
  const { user, system } = process.cpuUsage(cpu);
  return { perSecond: count / (ms / 1000), askerPercent: (user + system) / 10 / ms };
}

/** `count` requests, each begun when it is due and timed from then on. Returns how long each took, in ms. */
export async function openLoop(count: number, perSecond: number, ask: (index: number, dueMs: number) => Promise<void>): Promise<number[]> {
  const began = performance.now();
  const asked: Promise<number>[] = [];
  for (let index = 0; index < count; index++) {
    const due = began + (index * 1000) / perSecond;
    const wait = due - performance.now();
    if (wait > 0) await new Promise((resolve) => void setTimeout(resolve, wait));
    asked.push(ask(index, due).then(() => performance.now() - due));
  }
  return await Promise.all(asked);
}

/** The whole answer; throws for one that is not 2xx. */
export async function bytesOf(transport: Transport, request: ApiRequest): Promise<Buffer> {
  const response = await transport(request);
  const chunks: Uint8Array[] = [];
  for await (const chunk of response.body) chunks.push(chunk);
  const bytes = Buffer.concat(chunks);
  if (response.status < 200 || response.status > 299)
    throw new Error(`${request.method} ${request.path}: ${response.status} ${bytes.toString().slice(0, 500)}`);
  return bytes;
}
