import type { IncomingMessage, ServerResponse } from 'node:http';
import { once } from 'node:events';
import type { ApiRequest, ApiResponse } from '@kubenode/api-machinery/transport';

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

/** An HTTP request as the API server's transport takes it, without its body; `path` is the path under the cluster's prefix. */
export function requestHead(
  message: IncomingMessage,
  method: ApiRequest['method'],
  path: string,
  query: URLSearchParams,
  signal: AbortSignal,
): ApiRequest {
  return { method, path, query: Object.fromEntries(query), headers: headersOf(message), signal };
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
