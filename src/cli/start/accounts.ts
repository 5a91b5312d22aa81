import { mkdirSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { ServiceAccounts } from '../../api/builtin.ts';
import { messageOf } from '../../api/errors.ts';
import { MANAGERS, SYSTEM_NAMESPACE } from '../../api/names.ts';
import type { Clock } from '../../api/ports.ts';
import { pathOf } from '../../api/resource.ts';
import type { Client } from '../../kube/client.ts';
import { sleep } from '../../kube/clock.ts';
import { contextOf, inlineConnection } from '../remote.ts';

/** Asked for; a server may give less, or more. */
const TOKEN_SECONDS = 3600;
const AGAIN_MS = 10_000;

export interface AccountsOptions {
  /** As administrator. */
  clients: ReadonlyMap<string, Client>;
  /** The administrator's, with everything in it. */
  kubeconfig: string;
  cells: readonly string[];
  /** Made here; contains tokens. */
  dir: string;
  /** The hub's access to a cell, whenever it changes. */
  putCluster: (cell: string, kubeconfig: string) => Promise<void>;
  clock: Clock;
  warn: (message: string) => void;
  signal: AbortSignal;
}

/**
 * Each process acts on servers of others as what `kubenode install` made there for it, and so does the hub in its cells: by tokens of their
 * ServiceAccounts, which are renewed here until the signal. Returns the kubeconfig of each process by context: a file that names another with the
 * token, as a pod has it.
 */
export async function openAccounts(options: AccountsOptions): Promise<ReadonlyMap<string, string>> {
  const { clients, cells, dir, clock, warn, signal } = options;
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  const write = (name: string, text: string): string => {
    const path = join(dir, name);
    writeFileSync(`${path}.new`, text, { mode: 0o600, flush: true });
    renameSync(`${path}.new`, path);
    return path;
  };
  const kubeconfigOf = (name: string, user: { token: string } | { tokenFile: string }): string => {
    const { server, ca = '', tlsServerName } = inlineConnection(contextOf(options.kubeconfig, name));
    const cluster = {
      server,
      'certificate-authority-data': Buffer.from(ca).toString('base64'),
      ...(tlsServerName === undefined ? {} : { 'tls-server-name': tlsServerName }),
    };
    return stringify({
      apiVersion: 'v1',
      kind: 'Config',
      'current-context': name,
      contexts: [{ name, context: { cluster: name, user: name } }],
      clusters: [{ name, cluster }],
      users: [{ name, user }],
    });
  };
  const keep = async (name: string, account: string, put: Keeping['put']): Promise<void> => {
    const client = clients.get(name);
    if (client === undefined) throw new Error(`no client of ${name}`);
    await keepToken({ client, account, put, clock, warn, signal });
  };

  const paths = await Promise.all(
    ['hub', ...cells].map(async (name) => {
      let tokenFile = '';
      await keep(name, name === 'hub' ? 'kubenode-hub' : 'kubenode-cell', (token) => {
        tokenFile = write(`${name}.token`, token);
      });
      if (name !== 'hub') await keep(name, MANAGERS.sync, async (token) => await options.putCluster(name, kubeconfigOf(name, { token })));
      return [name, write(`${name}.kubeconfig`, kubeconfigOf(name, { tokenFile }))] as const;
    }),
  );
  return new Map(paths);
}

interface Keeping {
  client: Client;
  account: string;
  put: (token: string) => Promise<void> | void;
  clock: Clock;
  warn: (message: string) => void;
  signal: AbortSignal;
}

/** Resolves when the first token is put; puts a new one at half of its life, until the signal. */
export async function keepToken({ client, account, put, clock, warn, signal }: Keeping): Promise<void> {
  async function renew(): Promise<number> {
    const { token, untilMs } = await tokenOf(client, account, signal);
    await put(token);
    return Math.max(AGAIN_MS, (untilMs - clock.now()) / 2);
  }

  let ms = await renew();
  const goOn = async (): Promise<void> => {
    while (!signal.aborted) {
      await sleep(clock, ms, signal);
      try {
        ms = await renew();
      } catch (error) {
        if (signal.aborted) return;
        warn(`the token of ServiceAccount ${account} was not renewed: ${messageOf(error)}; tried again`);
        ms = AGAIN_MS;
      }
    }
  };
  void goOn().catch(() => undefined);
}

async function tokenOf(client: Client, account: string, signal: AbortSignal): Promise<{ token: string; untilMs: number }> {
  const request = { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: { expirationSeconds: TOKEN_SECONDS } };
  const answer = await client.post(pathOf(ServiceAccounts, SYSTEM_NAMESPACE, account, 'token'), request, { signal });
  const { token, expirationTimestamp } = (answer as { status?: { token?: unknown; expirationTimestamp?: unknown } } | null)?.status ?? {};
  const untilMs = Date.parse(String(expirationTimestamp));
  if (typeof token !== 'string' || Number.isNaN(untilMs)) throw new Error(`the server gave no token for ServiceAccount ${account}`);
  return { token, untilMs };
}
