/** Compacts an etcd to its newest revision, by its gRPC API. Its two messages are a few bytes: no library is needed. */
import { connect, type ClientHttp2Session } from 'node:http2';

interface Etcd {
  url: string;
  /** PEM. */
  ca: string;
  cert: string;
  key: string;
}

function varint(value: bigint): Buffer {
  const bytes: number[] = [];
  let left = value;
  for (; left > 0x7fn; left >>= 7n) bytes.push(Number(left & 0x7fn) | 0x80);
  bytes.push(Number(left));
  return Buffer.from(bytes);
}

function readVarint(from: Buffer, at: number): { value: bigint; next: number } {
  let value = 0n;
  for (let shift = 0n, next = at; ; shift += 7n) {
    const byte = from[next++];
    if (byte === undefined) throw new Error('an answer of etcd ends inside a number');
    value |= BigInt(byte & 0x7f) << shift;
    if (byte < 0x80) return { value, next };
  }
}

/** The field of a message that has this number; both kinds of field that occur in these answers. */
function field(message: Buffer, wanted: number): bigint | Buffer | undefined {
  for (let at = 0; at < message.length;) {
    const tag = readVarint(message, at);
    const content = readVarint(message, tag.next);
    const isBytes = (tag.value & 7n) === 2n;
    const end = isBytes ? content.next + Number(content.value) : content.next;
    if (Number(tag.value >> 3n) === wanted) return isBytes ? message.subarray(content.next, end) : content.value;
    at = end;
  }
  return undefined;
}

async function call(session: ClientHttp2Session, path: string, message: Buffer): Promise<Buffer> {
  const frame = Buffer.alloc(5 + message.length);
  frame.writeUInt32BE(message.length, 1);
  message.copy(frame, 5);
  const stream = session.request({ ':method': 'POST', ':path': path, 'content-type': 'application/grpc', te: 'trailers' });
  let status: unknown;
  stream.on('response', (headers) => (status ??= headers['grpc-status']));
  stream.on('trailers', (headers) => (status ??= headers['grpc-status']));
  stream.end(frame);
  const chunks: Buffer[] = [];
  for await (const chunk of stream as AsyncIterable<Buffer>) chunks.push(chunk);
  if (status !== '0') throw new Error(`etcd answered ${path} with status ${String(status)}`);
  return Buffer.concat(chunks).subarray(5);
}

export async function compactEtcd({ url, ca, cert, key }: Etcd): Promise<void> {
  const session = connect(url, { ca, cert, key });
  const failed = new Promise<never>((_, reject) => session.once('error', reject));
  failed.catch(() => undefined);
  const work = async (): Promise<void> => {
    // RangeRequest{key: "/"}; its answer's header (1) has the revision (3).
    const range = await call(session, '/etcdserverpb.KV/Range', Buffer.from([0x0a, 1, 0x2f]));
    const header = field(range, 1);
    const revision = header instanceof Buffer ? field(header, 3) : undefined;
    if (typeof revision !== 'bigint') throw new Error('etcd does not report its revision');
    // CompactionRequest{revision, physical: true}.
    await call(session, '/etcdserverpb.KV/Compact', Buffer.concat([Buffer.from([0x08]), varint(revision), Buffer.from([0x10, 1])]));
  };
  try {
    await Promise.race([work(), failed]);
  } finally {
    session.close();
  }
}
