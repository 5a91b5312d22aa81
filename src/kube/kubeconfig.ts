import { kubeError } from './errors.ts';
import type { OutgoingHttpHeaders } from 'node:http';
import { readFile } from 'node:fs/promises';
import { delimiter, dirname, join, resolve } from 'node:path';
import { parseDocument } from 'yaml';
import { messageOf } from '../api/errors.ts';
import type { Clock } from '../api/ports.ts';
import type { Connection, TokenSource } from './connect.ts';
import { checkCredentials } from './credentials.ts';
import { homeFolder } from './home.ts';

export interface KubeconfigOptions {
  /** File to read; absent: `$KUBECONFIG` (several files are merged, the first wins), then `~/.kube/config`, then the pod's service account. */
  path?: string;
  /** One that was read already, and is the only one. */
  found?: { file: string; text: string };
  /** Context to use; absent: `current-context`. */
  context?: string;
  env: Record<string, string | undefined>;
  clock: Clock;
  /** Where a pod finds its service account. Default `/var/run/secrets/kubernetes.io/serviceaccount`. */
  serviceAccountFolder?: string;
}

export interface LoadedConnection extends Connection {
  /** The context's namespace, `default` where it names none. */
  namespace: string;
  /** Absent: the service account of a pod. */
  context?: string;
  /** For messages: context and file. Never a secret. */
  source: string;
}

type Fields = Record<string, unknown>;

interface Named {
  file: string;
  fields: Fields;
}

interface Kubeconfig {
  files: string[];
  currentContext: string | undefined;
  clusters: Map<string, Named>;
  contexts: Map<string, Named>;
  users: Map<string, Named>;
}

/** Bound tokens are renewed in their file well before they expire. */
const TOKEN_FILE_MS = 60_000;

/**
 * Errors (CodedError): `KubeconfigAbsent`, `KubeconfigInvalid`, `NoContext`, `CredentialsExpired`, `CredentialsFailed`,
 * `TlsNotVerified` (insecure-skip-tls-verify is refused).
 *
 * A kubeconfig with certificates or a token is read here. One that runs a program for its credentials is given to client-node, which
 * is loaded only then (300 ms, 90 MB). Caveat: a client certificate from such a program is read once.
 */
export async function loadKubeconfig(options: KubeconfigOptions): Promise<LoadedConnection> {
  const files = await kubeconfigFiles(options);
  if (files === undefined) return await serviceAccount(options);
  const config = merge(files);
  const { name, context, cluster, user } = choose(config, options.context);
  const source = `context "${name}" of ${config.files.join(', ')}`;
  const namespace = text(context, 'namespace') ?? 'default';
  const reached = await clusterConnection(cluster, source);
  const runsProgram = ['exec', 'auth-provider'].some((field) => user.fields[field] !== undefined);
  const credentials = runsProgram ? await programCredentials(user, source) : await plainCredentials(user, source, options.clock);
  checkCredentials({ ...reached, ...credentials }, source, options.clock);
  return { ...reached, ...credentials, namespace, context: name, source };
}

async function kubeconfigFiles(options: KubeconfigOptions): Promise<{ file: string; text: string }[] | undefined> {
  const { env } = options;
  if (options.found !== undefined) return [options.found];
  const listed = options.path === undefined ? (env['KUBECONFIG'] ?? '').split(delimiter).filter(Boolean) : [options.path];
  const home = join(homeFolder(env), '.kube', 'config');
  const paths = listed.length > 0 ? listed : [home];
  const found = [];
  for (const file of paths) {
    try {
      found.push({ file, text: await readFile(file, 'utf8') });
    } catch (cause) {
      // As kubectl: of several files some may be absent.
      if ((cause as NodeJS.ErrnoException).code !== 'ENOENT') {
        throw kubeError('KubeconfigInvalid', `${file} cannot be read: ${messageOf(cause)}`, { cause });
      }
    }
  }
  if (found.length > 0) return found;
  if (listed.length === 0 && env['KUBERNETES_SERVICE_HOST'] !== undefined) {
    if (options.context === undefined) return undefined;
    throw kubeError('NoContext', `there is no context "${options.context}": this is a pod, and there is no kubeconfig`, {
      next: 'leave --context out to use the service account of the pod',
    });
  }
  throw kubeError('KubeconfigAbsent', `there is no kubeconfig: ${paths.join(', ')} does not exist`, {
    next: 'name one with --kubeconfig or $KUBECONFIG',
  });
}

async function serviceAccount(options: KubeconfigOptions): Promise<LoadedConnection> {
  const folder = options.serviceAccountFolder ?? '/var/run/secrets/kubernetes.io/serviceaccount';
  const host = options.env['KUBERNETES_SERVICE_HOST'] ?? '';
  const port = options.env['KUBERNETES_SERVICE_PORT'] ?? '443';
  const read = (name: string): Promise<string> => fileText(join(folder, name), 'the service account of this pod');
  return {
    server: `https://${host.includes(':') ? `[${host}]` : host}:${port}`,
    ca: await read('ca.crt'),
    token: await tokenFrom(join(folder, 'token'), 'the service account of this pod', options.clock),
    namespace: (await read('namespace')).trim(),
    source: `the service account in ${folder}`,
  };
}

function merge(files: { file: string; text: string }[]): Kubeconfig {
  const config: Kubeconfig = { files: [], currentContext: undefined, clusters: new Map(), contexts: new Map(), users: new Map() };
  for (const { file, text: content } of files) {
    const fields = parse(file, content);
    config.files.push(file);
    config.currentContext ??= text({ file, fields }, 'current-context');
    collect(config.clusters, file, fields, 'clusters', 'cluster');
    collect(config.contexts, file, fields, 'contexts', 'context');
    collect(config.users, file, fields, 'users', 'user');
  }
  return config;
}

function parse(file: string, content: string): Fields {
  // The parser's own messages quote the text, which contains secrets.
  const document = parseDocument(content, { prettyErrors: true });
  const [error] = document.errors;
  if (error !== undefined) {
    const line = error.linePos?.[0].line;
    throw kubeError('KubeconfigInvalid', `${file}${line === undefined ? '' : `:${line}`} is no YAML (${error.code})`);
  }
  const fields: unknown = document.toJS();
  if (isFields(fields)) return fields;
  throw kubeError('KubeconfigInvalid', `${file} is no kubeconfig: a map with clusters, contexts and users is expected`);
}

function collect(into: Map<string, Named>, file: string, fields: Fields, list: string, member: string): void {
  const items = fields[list] ?? [];
  if (!Array.isArray(items)) throw kubeError('KubeconfigInvalid', `${file}: \`${list}\` must be a list`);
  for (const [i, item] of items.entries()) {
    const name: unknown = isFields(item) ? item['name'] : undefined;
    if (!isFields(item) || typeof name !== 'string') throw kubeError('KubeconfigInvalid', `${file}: \`${list}[${i}].name\` must be set`);
    const content = item[member] ?? {};
    if (!isFields(content)) throw kubeError('KubeconfigInvalid', `${file}: \`${list}[${i}].${member}\` must be a map`);
    if (!into.has(name)) into.set(name, { file, fields: { ...content, name } });
  }
}

function choose(config: Kubeconfig, wanted: string | undefined): { name: string; context: Named; cluster: Named; user: Named } {
  const files = config.files.join(', ');
  const name = wanted ?? config.currentContext;
  if (name === undefined) {
    throw kubeError('NoContext', `${files} names no current-context; ${known(config.contexts)}`, {
      next: 'kubectl config use-context NAME',
    });
  }
  const context = config.contexts.get(name);
  if (context === undefined) throw kubeError('NoContext', `there is no context "${name}" in ${files}; ${known(config.contexts)}`);
  const cluster = config.clusters.get(text(context, 'cluster') ?? '');
  if (cluster === undefined) {
    throw kubeError(
      'KubeconfigInvalid',
      `context "${name}" of ${files} names cluster "${text(context, 'cluster') ?? ''}", which does not exist; ${known(config.clusters)}`,
    );
  }
  const userName = text(context, 'user');
  const user = userName === undefined ? { file: context.file, fields: {} } : config.users.get(userName);
  if (user === undefined)
    throw kubeError(
      'KubeconfigInvalid',
      `context "${name}" of ${files} names user "${userName}", which does not exist; ${known(config.users)}`,
    );
  return { name, context, cluster, user };
}

const known = (named: Map<string, Named>): string => `known: ${[...named.keys()].join(', ') || 'none'}`;

async function clusterConnection(cluster: Named, source: string): Promise<Connection> {
  const server = text(cluster, 'server');
  if (server === undefined) throw kubeError('KubeconfigInvalid', `${source}: its cluster has no server`);
  if (cluster.fields['insecure-skip-tls-verify'] === true) {
    throw kubeError('TlsNotVerified', `${source}: insecure-skip-tls-verify is set; KubeNode verifies every server`, {
      next: 'put the authority of the server into certificate-authority-data',
    });
  }
  if (text(cluster, 'proxy-url') !== undefined) throw kubeError('KubeconfigInvalid', `${source}: proxy-url is not supported`);
  const ca = await inlineOrFile(cluster, 'certificate-authority', source);
  const tlsServerName = text(cluster, 'tls-server-name');
  return { server, ...(ca === undefined ? {} : { ca }), ...(tlsServerName === undefined ? {} : { tlsServerName }) };
}

type Credentials = Pick<Connection, 'token' | 'clientCert' | 'clientKey'>;

async function plainCredentials(user: Named, source: string, clock: Clock): Promise<Credentials> {
  for (const field of ['username', 'password', 'as', 'as-groups']) {
    if (user.fields[field] !== undefined) throw kubeError('KubeconfigInvalid', `${source}: \`${field}\` of a user is not supported`);
  }
  const clientCert = await inlineOrFile(user, 'client-certificate', source);
  const clientKey = await inlineOrFile(user, 'client-key', source);
  const tokenFile = text(user, 'tokenFile');
  const token = tokenFile === undefined ? text(user, 'token') : await tokenFrom(pathFrom(user, tokenFile), source, clock);
  return {
    ...(clientCert === undefined ? {} : { clientCert }),
    ...(clientKey === undefined ? {} : { clientKey }),
    ...(token === undefined ? {} : { token }),
  };
}

async function programCredentials(user: Named, source: string): Promise<Credentials> {
  const { KubeConfig } = await import('@kubernetes/client-node');
  const config = new KubeConfig();
  const { name: _name, ...fields } = user.fields;
  config.loadFromString(
    JSON.stringify({
      clusters: [{ name: 'c', cluster: { server: 'https://unused' } }],
      contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
      users: [{ name: 'u', user: fields }],
      'current-context': 'x',
    }),
  );
  // It runs the program again when its credential has expired.
  const ask = async (): Promise<{ token: string | undefined; cert: string | undefined; key: string | undefined }> => {
    // `applyToHTTPSOptions` fills it.
    const headers: OutgoingHttpHeaders = {};
    const given: Parameters<typeof config.applyToHTTPSOptions>[0] = { headers };
    try {
      await config.applyToHTTPSOptions(given);
    } catch (cause) {
      const reason = messageOf(cause).replaceAll(/\s+/g, ' ').trim().slice(0, 200);
      throw kubeError('CredentialsFailed', `${source}: the program that gives its credentials failed: ${reason}`, { cause });
    }
    const authorization = Object.entries(headers).find(([header]) => header.toLowerCase() === 'authorization')?.[1];
    return {
      token: typeof authorization === 'string' ? authorization.replace(/^Bearer /, '') : undefined,
      cert: given.cert?.toString(),
      key: given.key?.toString(),
    };
  };
  const first = await ask();
  return {
    ...(first.token === undefined ? {} : { token: async () => (await ask()).token ?? '' }),
    ...(first.cert === undefined ? {} : { clientCert: first.cert }),
    ...(first.key === undefined ? {} : { clientKey: first.key }),
  };
}

/** `field-data` in base64, or `field` as a path. */
async function inlineOrFile(named: Named, field: string, source: string): Promise<string | undefined> {
  const data = text(named, `${field}-data`);
  if (data !== undefined) return Buffer.from(data, 'base64').toString();
  const path = text(named, field);
  return path === undefined ? undefined : await fileText(pathFrom(named, path), source);
}

function pathFrom(named: Named, path: string): string {
  return resolve(dirname(named.file), path);
}

async function fileText(path: string, source: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch (cause) {
    throw kubeError('KubeconfigInvalid', `${source}: ${path} cannot be read: ${messageOf(cause)}`, { cause });
  }
}

async function tokenFrom(path: string, source: string, clock: Clock): Promise<TokenSource> {
  let token = (await fileText(path, source)).trim();
  let readAt = clock.monotonic();
  const give = async (): Promise<string> => {
    if (clock.monotonic() - readAt >= TOKEN_FILE_MS) {
      // One that cannot be read now is read at the next request; the present one is valid for some time.
      const read = await readFile(path, 'utf8').catch(() => '');
      if (read.trim() !== '') [token, readAt] = [read.trim(), clock.monotonic()];
    }
    return token;
  };
  // As client-go: a token that expired early, or was revoked, is not given for the rest of its minute.
  return Object.assign(give, { refused: () => void (readAt = -Infinity) });
}

function text(named: Named, field: string): string | undefined {
  const value = named.fields[field];
  if (value === undefined || value === null || value === '') return undefined;
  if (typeof value === 'string') return value;
  throw kubeError('KubeconfigInvalid', `${named.file}: \`${field}\` must be a string`);
}

function isFields(value: unknown): value is Fields {
  return value !== null && typeof value === 'object' && !Array.isArray(value);
}
