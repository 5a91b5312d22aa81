/** What `request-log.ts` wrote, by who asked. */
import { readFile } from 'node:fs/promises';

export type Asker = 'hub' | 'cell controllers' | 'agent' | 'others';

export interface LoggedRequest {
  /** Since the epoch, by the server's clock. */
  ms: number;
  cluster: string;
  method: string;
  path: string;
  query: URLSearchParams;
  by: Asker;
}

/** Every request that was logged from `fromMs` until `untilMs`. `clusters`: by the port of their server. */
export async function requestsBetween(
  file: string,
  clusters: ReadonlyMap<number, string>,
  fromMs: number,
  untilMs: number,
): Promise<LoggedRequest[]> {
  const lines = (await readFile(file, 'utf8')).split('\n').filter((line) => line !== '');
  return lines.map((line) => parse(line, clusters)).filter(({ ms }) => ms >= fromMs && ms <= untilMs);
}

function parse(line: string, clusters: ReadonlyMap<number, string>): LoggedRequest {
  const value: unknown = JSON.parse(line);
  if (!Array.isArray(value)) throw new Error(`the log of requests contains ${line}`);
  const [ms, port, method, target, agent] = value as unknown[];
  const url = new URL(String(target), 'https://server');
  const cluster = clusters.get(Number(port));
  if (cluster === undefined) throw new Error(`the log of requests names port ${String(port)}, and the kubeconfig does not`);
  return {
    ms: Number(ms),
    cluster,
    method: String(method),
    path: url.pathname,
    query: url.searchParams,
    by: askerOf(String(agent), cluster),
  };
}

/** Controllers of hub and cells are one program, and are distinguished by the server that they ask; the hub's own connections to cells have their own name. */
function askerOf(userAgent: string, cluster: string): Asker {
  if (userAgent.startsWith('kubenode-agent/')) return 'agent';
  if (userAgent === 'kubenode-hub') return 'hub';
  if (userAgent === 'kubenode-cli') return cluster === 'hub' ? 'hub' : 'cell controllers';
  return 'others';
}
