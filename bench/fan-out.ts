/** One event to one of N watchers, and to all of them. */
import { Agent } from 'undici';
import type { Transport } from '../src/api/transport.ts';
import { nodeHttpsTransport } from '../src/kube/https-transport.ts';
import { httpTransport } from '../src/kube/http-transport.ts';
import { connectionOf, serveProcess } from './api-server.ts';
import { bareProcess } from './bare-process.ts';
import { createMachine, nudge, prepare, watchMachine } from './bodies.ts';
import { percentile, type Sample } from './harness.ts';
import { bytesOf, openLoop } from './load.ts';
import { memoryOf } from './memory.ts';
import { pause } from './system.ts';

const WATCHERS = [10, 100, 1000, 2000];
const MOST = 2000;
const PER_SECOND = 100;
const WRITES = 300;
const EVENTS = 10;

type Report = (sample: Sample) => void;

/** Bytes are not parsed: only ends of lines are counted. */
interface Watchers {
  readonly size: number;
  grow(to: number): Promise<void>;
  /** Called at each line. */
  onLine: (watcher: number) => void;
  close(): Promise<void>;
}

export async function fanOut(report: Report): Promise<void> {
  const bare = await bareProcess();
  const server = await serveProcess(['bench'], 'memory');
  const transport = httpTransport(connectionOf(server, 'bench'));
  // What writes has connections of its own: a pool in which thousands are taken by watches is slow to find one that is free.
  const writer = nodeHttpsTransport(connectionOf(server, 'bench'));
  const [agent, sender] = [new Agent({ connect: { ca: bare.authority } }), new Agent({ connect: { ca: bare.authority } })];
  const bareTransport: Transport = async ({ signal }) => {
    const response = await agent.request({ origin: bare.secure, path: '/watch', method: 'GET', bodyTimeout: 0, signal: signal ?? null });
    return { status: response.statusCode, headers: {}, body: response.body };
  };
  try {
    await prepare(writer);
    for (let index = 0; index < MOST; index++) await bytesOf(writer, createMachine(index));

    const [value, reference] = [
      await growth(
        server.pid,
        watchers(transport, (watcher) => watcher),
      ),
      await growth(
        bare.pid,
        watchers(bareTransport, () => 0),
      ),
    ];
    report({ name: `embedded/watch/memory-${MOST}`, tier: 'W', unit: 'kB a watch', value, reference });
    await toOne({ transport, writer, report });

    let line: Buffer = Buffer.alloc(0);
    const write = async (): Promise<void> => void (line = eventOf(await bytesOf(writer, nudge(0))));
    const send = async (): Promise<void> => {
      const { body } = await sender.request({ origin: bare.secure, path: '/send', method: 'POST', body: line });
      await body.dump();
    };
    const [mine, theirs] = [watchers(transport, () => 0), watchers(bareTransport, () => 0)];
    for (const size of WATCHERS) {
      await mine.grow(size);
      await theirs.grow(size);
      for (let event = 0; event < EVENTS; event++) {
        const value = await untilAll(mine, write);
        report({ name: `embedded/watch/same-${size}`, tier: 'W', unit: 'ms', value, reference: await untilAll(theirs, send) });
      }
    }
    await mine.close();
    await theirs.close();
  } finally {
    await transport.close();
    await writer.close();
    await agent.destroy();
    await sender.destroy();
    await server.close();
    bare.close();
  }
}

/** What a server's memory grows for one watch, in kB. */
async function growth(pid: number, all: Watchers): Promise<number> {
  const { resident } = await memoryOf(pid);
  await all.grow(MOST);
  const grown = (await memoryOf(pid)).resident - resident;
  await all.close();
  return grown / MOST / 1000;
}

/** Each watcher has a Machine of its own. */
async function toOne({ transport, writer, report }: { transport: Transport; writer: Transport; report: Report }): Promise<void> {
  const own = watchers(transport, (watcher) => watcher);
  /** Each line ends the wait for the oldest write to that Machine. */
  const waiting: (() => void)[][] = Array.from({ length: MOST }, () => []);
  own.onLine = (watcher) => waiting[watcher]?.shift()?.();
  let reference: number | undefined;
  for (const size of WATCHERS) {
    await own.grow(size);
    const ms = await openLoop(WRITES, PER_SECOND, async (count) => {
      const watcher = (count * 7) % size;
      const arrived = new Promise<void>((resolve) => void waiting[watcher]?.push(resolve));
      await Promise.all([bytesOf(writer, nudge(watcher)), arrived]);
    });
    const value = percentile(ms, 99);
    reference ??= value;
    report({ name: `embedded/watch/own-${size}`, tier: 'W', unit: 'ms', value, reference });
  }
  await own.close();
}

function watchers(transport: Transport, machineOf: (watcher: number) => number): Watchers {
  const ended = new AbortController();
  const reading: Promise<void>[] = [];
  async function open(watcher: number): Promise<void> {
    const response = await transport({ ...watchMachine(machineOf(watcher)), signal: ended.signal });
    const read = async (): Promise<void> => {
      for await (const chunk of response.body)
        for (let end = chunk.indexOf(10); end >= 0; end = chunk.indexOf(10, end + 1)) all.onLine(watcher);
    };
    reading.push(
      read().catch((error: unknown) => {
        if (!ended.signal.aborted) throw error;
      }),
    );
  }
  const all: Watchers = {
    get size() {
      return reading.length;
    },
    async grow(to) {
      while (reading.length < to) {
        const from = reading.length;
        await Promise.all(Array.from({ length: Math.min(50, to - from) }, (_, index) => open(from + index)));
      }
      // The first events of a watch have arrived within this time.
      await pause(1000);
    },
    onLine: () => undefined,
    async close() {
      ended.abort(new Error('measured'));
      await Promise.all(reading);
      await pause(500);
    },
  };
  return all;
}

/** From the write until each watcher had one line more, in ms. */
async function untilAll(all: Watchers, write: () => Promise<void>): Promise<number> {
  let left = all.size;
  const arrived = new Promise<void>((resolve) => {
    all.onLine = () => {
      left--;
      if (left === 0) resolve();
    };
  });
  const began = performance.now();
  await Promise.all([write(), arrived]);
  return performance.now() - began;
}

/** The line of a watch that reports this object. */
function eventOf(object: Buffer): Buffer {
  return Buffer.concat([Buffer.from('{"type":"MODIFIED","object":'), object, Buffer.from('}\n')]);
}
