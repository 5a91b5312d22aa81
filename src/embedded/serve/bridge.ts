import type { IncomingMessage, ServerResponse } from 'node:http';
import { once } from 'node:events';
import type { ApiRequest, ApiResponse } from '../../api/transport.ts';
import { MAX_BODY } from '../call.ts';

const METHODS: readonly ApiRequest['method'][] = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'];

export function methodOf(message: IncomingMessage): ApiRequest['method'] | undefined {
  return METHODS.find((method) => method === message.method);
}

function headersOf(message: IncomingMessage): Record<string, string> {
  const out: Record<string, string> = {};
  for (const [name, value] of Object.entries(message.headers)) {
    if (value !== undefined) out[name] = Array.isArray(value) ? value.join(', ') : value;
  }
  return out;
}

/** The body, or just more of it than is allowed: what is refused need not be read to its end. */
async function bodyOf(message: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of message) {
    const bytes = Buffer.from(chunk as Uint8Array);
    chunks.push(bytes);
    size += bytes.byteLength;
    if (size > MAX_BODY) break;
  }
  return Buffer.concat(chunks);
}

/** An HTTP request as the API server's transport takes it; `path` is the path under the cluster's prefix. */
export async function apiRequest(
  message: IncomingMessage,
  method: ApiRequest['method'],
  path: string,
  query: URLSearchParams,
  signal: AbortSignal,
): Promise<ApiRequest> {
  const body = method === 'GET' ? undefined : await bodyOf(message);
  return {
    method,
    path,
    query: Object.fromEntries(query),
    headers: headersOf(message),
    ...(body === undefined || body.byteLength === 0 ? {} : { body }),
    signal,
  };
}

/** Sends an answer at the pace of its reader. Watches show their headers at once. */
export async function send(response: ApiResponse, out: ServerResponse): Promise<void> {
  out.writeHead(response.status, response.headers);
  if (response.headers['content-length'] === undefined && response.status === 200) out.flushHeaders();
  for await (const chunk of response.body) {
    if (out.destroyed) return;
    if (!out.write(chunk)) await Promise.race([once(out, 'drain'), once(out, 'close')]);
  }
  out.end();
}
