import type { Command } from 'commander';
import type { Transport } from '../api/transport.ts';
import type { Client } from '../kube/client.ts';
import { createClient } from '../kube/http-client.ts';
import { systemClock } from '../kube/clock.ts';
import { httpTransport } from '../kube/http-transport.ts';
import { loadKubeconfig, type LoadedConnection } from '../kube/kubeconfig.ts';
import { rereadTransport } from '../kube/reread.ts';
import { foundKubeconfig, LOCAL } from './found-kubeconfig.ts';

export interface ConnectionFlags {
  kubeconfig?: string;
  context?: string;
}

/** These flags once more, at the end of a command that is printed: it must mean the same API server. */
export function sameConnection({ kubeconfig, context }: ConnectionFlags): string {
  const quoted = (text: string): string => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", String.raw`'\''`)}'`);
  return [
    ...(kubeconfig === undefined ? [] : [` --kubeconfig ${quoted(kubeconfig)}`]),
    ...(context === undefined ? [] : [` --context ${quoted(context)}`]),
  ].join('');
}

export function connectionFlags(command: Command): Command {
  return command
    .option(
      '--kubeconfig <file>',
      `kubeconfig of the API servers (default: $KUBECONFIG, else ${LOCAL} here, else ~/.kube/config, else the service account of the pod)`,
    )
    .option('--context <name>', 'context of the kubeconfig (default: its current one)');
}

export interface Connected {
  client: Client;
  /** As another user, which the API server must allow this one (verb `impersonate`). */
  as: (user: string) => Client;
  source: string;
  readonly server: string;
  /** URLs by which clients know the server: its own, and the one of the name in its certificate where the kubeconfig gives another. */
  readonly urls: readonly string[];
  readonly ca: string | undefined;
  close: () => Promise<void>;
}

export interface ConnectOptions {
  /** The kubeconfig was read again and has other credentials. */
  onRenewed?: () => void;
  /** What every request goes through. */
  through?: (transport: Transport) => Transport;
}

export async function connect(flags: ConnectionFlags, { onRenewed, through }: ConnectOptions = {}): Promise<Connected> {
  const path = flags.kubeconfig;
  const folder = process.cwd();
  const isFound = path === undefined && process.env['KUBECONFIG'] === undefined && foundKubeconfig(folder) !== undefined;
  const clock = systemClock();
  const load = async (context: string | undefined): Promise<LoadedConnection> => {
    // Read again it is judged again.
    const found = isFound ? foundKubeconfig(folder) : undefined;
    return await loadKubeconfig({
      ...(path === undefined ? {} : { path }),
      ...(found === undefined ? {} : { found }),
      ...(context === undefined ? {} : { context }),
      env: process.env,
      clock,
    });
  };
  const first = await load(flags.context);
  const reread = rereadTransport({
    first,
    // A person who chooses another context later does not mean this process.
    load: () => load(first.context),
    make: httpTransport,
    clock,
    ...(onRenewed === undefined ? {} : { onRenewed }),
  });
  const transport = through?.(reread) ?? reread;
  const impersonating =
    (user: string): Transport =>
    (request) =>
      transport({ ...request, headers: { ...request.headers, 'impersonate-user': user } });
  return {
    client: createClient(transport, { userAgent: 'kubenode-cli' }),
    as: (user) => createClient(impersonating(user), { userAgent: 'kubenode-cli' }),
    source: first.source,
    get server() {
      return reread.connection.server;
    },
    get urls() {
      const { server, tlsServerName } = reread.connection;
      return tlsServerName === undefined ? [server] : [server, `https://${tlsServerName}`];
    },
    get ca() {
      return reread.connection.ca;
    },
    close: () => reread.close(),
  };
}
