/** Thousands of watches that cost their client little: over few HTTP/2 connections, their bytes scanned and not parsed. */
import { once } from 'node:events';
import { connect, type ClientHttp2Session, type ClientHttp2Stream } from 'node:http2';
import { authorization, targetOf, type Connection } from '../src/kube/connect.ts';
import type { ApiRequest } from '../src/api/transport.ts';

export interface ManyWatches {
  readonly size: number;
  /** Connections they are spread over. */
  readonly connections: number;
  /** Opens more; resolves when the server has answered all of them. */
  grow(to: number): Promise<void>;
  /** Called at the end of each line. */
  onLine: (watch: number) => void;
  close(): Promise<void>;
}

const AT_ONCE = 50;

export function manyWatches(connection: Connection, requestOf: (watch: number) => ApiRequest): ManyWatches {
  const endpoint = new URL(connection.server);
  const { ca, clientCert: cert, clientKey: key } = connection;
  const sessions: { session: ClientHttp2Session; streams: number; most: number }[] = [];
  const streams: ClientHttp2Stream[] = [];
  let closing = false;
  let failure: Error | undefined;
  const fail = (error: Error): void => {
    if (!closing) failure ??= error;
  };

  /** One with a stream left: the server reports how many a connection may have. */
  async function sessionWithRoom(): Promise<(typeof sessions)[number]> {
    const last = sessions.at(-1);
    if (last !== undefined && last.streams < last.most) return last;
    const session = connect(endpoint, {
      ...(ca === undefined ? {} : { ca }),
      ...(cert === undefined ? {} : { cert }),
      ...(key === undefined ? {} : { key }),
    });
    session.on('error', fail);
    const [settings] = (await once(session, 'remoteSettings')) as [{ maxConcurrentStreams?: number }];
    const made = { session, streams: 0, most: settings.maxConcurrentStreams ?? 100 };
    sessions.push(made);
    return made;
  }

  async function open(watch: number, session: ClientHttp2Session): Promise<void> {
    const request = requestOf(watch);
    const stream = session.request({
      ':method': request.method,
      ':path': targetOf(endpoint, request),
      ...request.headers,
      ...(await authorization(connection)),
    });
    streams.push(stream);
    stream.on('error', fail);
    const [head] = (await once(stream, 'response')) as [{ ':status'?: number }];
    if (head[':status'] !== 200) throw new Error(`watch ${watch} was answered ${head[':status']}`);
    stream.on('data', (chunk: Buffer) => {
      for (let end = chunk.indexOf(10); end >= 0; end = chunk.indexOf(10, end + 1)) all.onLine(watch);
    });
    stream.on('end', () => fail(new Error(`watch ${watch} ended`)));
  }

  const all: ManyWatches = {
    get size() {
      return streams.length;
    },
    get connections() {
      return sessions.length;
    },
    async grow(to) {
      while (streams.length < to) {
        const from = streams.length;
        const opening: Promise<void>[] = [];
        for (let watch = from; watch < Math.min(to, from + AT_ONCE); watch++) {
          const chosen = await sessionWithRoom();
          chosen.streams++;
          opening.push(open(watch, chosen.session));
        }
        await Promise.all(opening);
      }
    },
    onLine: () => undefined,
    async close() {
      closing = true;
      await Promise.all(
        sessions.splice(0).map(async ({ session }) => {
          const closed = once(session, 'close');
          session.destroy();
          await closed;
        }),
      );
      if (failure !== undefined) throw failure;
    },
  };
  return all;
}
