import { parseDocument, stringify } from 'yaml';
import type { CodedError } from '../api/errors.ts';
import type { Transport } from '../api/transport.ts';
import type { Client } from '../kube/client.ts';
import { systemClock } from '../kube/clock.ts';
import type { Connection } from '../kube/connect.ts';
import { checkCredentials } from '../kube/credentials.ts';
import { CELL_LIMITS, createClient } from '../kube/http-client.ts';
import { httpTransport } from '../kube/http-transport.ts';
import { createServerTime, timedTransport, type ServerTime } from '../kube/server-time.ts';
import { kubeError } from '../kube/errors.ts';

type Fields = Record<string, unknown>;

/** A client from the text of a kubeconfig, as the hub keeps one for each cluster, and the time of the server that it reaches. */
export async function clientFromKubeconfig(
  text: string,
  through: (transport: Transport) => Transport = (transport) => transport,
): Promise<{ client: Client; time: ServerTime; close: () => Promise<void> }> {
  const transport = httpTransport(inlineConnection(text));
  const clock = systemClock();
  const time = createServerTime(clock);
  const timed = timedTransport(through(transport), time, clock);
  return { client: createClient(timed, { userAgent: 'kubenode-hub', limits: CELL_LIMITS }), time, close: () => transport.close() };
}

/**
 * How to reach a cluster, from its Secret. The Secret must contain everything: a Secret that could name programs or files would let
 * its author run code in the hub. Messages never quote values. Errors: `KubeconfigInvalid`, `CredentialsExpired`.
 */
export function inlineConnection(text: string): Connection {
  const config = read(text);
  const { cluster, user } = chosen(config);
  for (const field of ['exec', 'auth-provider', 'tokenFile', 'client-certificate', 'client-key', 'username', 'password']) {
    if (user[field] !== undefined)
      throw invalid(`its user must not have \`${field}\`: the hub takes only a token or certificate data from a Secret`);
  }
  if (cluster['certificate-authority'] !== undefined) throw invalid('its cluster must have certificate-authority-data, not a file');
  if (cluster['insecure-skip-tls-verify'] === true) throw invalid('insecure-skip-tls-verify is set; KubeNode verifies every server');
  const { server, 'certificate-authority-data': ca, 'tls-server-name': tlsServerName } = cluster;
  const { token, 'client-certificate-data': cert, 'client-key-data': key } = user;
  if (typeof server !== 'string') throw invalid('its cluster has no server');
  if (token !== undefined && typeof token !== 'string') throw invalid('`token` of its user must be a string');
  if (token === undefined && cert === undefined) throw invalid('its user has neither a token nor client-certificate-data');
  const decode = (value: unknown): string => Buffer.from(String(value), 'base64').toString('utf8');
  const connection: Connection = {
    server,
    ...(ca === undefined ? {} : { ca: decode(ca) }),
    ...(typeof tlsServerName === 'string' ? { tlsServerName } : {}),
    ...(token === undefined ? {} : { token }),
    ...(cert === undefined ? {} : { clientCert: decode(cert) }),
    ...(key === undefined ? {} : { clientKey: decode(key) }),
  };
  checkCredentials(connection, THIS, systemClock());
  return connection;
}

function chosen(config: Fields): { cluster: Fields; user: Fields } {
  const name = config['current-context'];
  if (typeof name !== 'string' || name === '') throw invalid('it names no current-context');
  const context = member(config, 'contexts', 'context', name);
  if (context === undefined) throw invalid(`its current-context "${name}" is not among its contexts`);
  const named = (list: string, field: string): Fields => {
    const found = member(config, list, field, context[field]);
    if (found !== undefined) return found;
    throw invalid(`its context "${name}" names ${field} ${JSON.stringify(context[field] ?? '')}, which is not among its ${list}`);
  };
  return { cluster: named('clusters', 'cluster'), user: named('users', 'user') };
}

/** The part of a kubeconfig that one context needs. */
export function contextOf(text: string, name: string): string {
  const config = read(text);
  const context = member(config, 'contexts', 'context', name);
  if (context === undefined) throw kubeError('NoContext', `the kubeconfig has no context "${name}"`);
  const pick = (list: string, wanted: unknown): unknown[] => items(config, list).filter((item) => item['name'] === wanted);
  return stringify({
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': name,
    contexts: pick('contexts', name),
    clusters: pick('clusters', context['cluster']),
    users: pick('users', context['user']),
  });
}

const THIS = 'the kubeconfig';

function invalid(why: string): CodedError {
  return kubeError('KubeconfigInvalid', `${THIS} cannot be used: ${why}`);
}

function read(text: string): Fields {
  const document = parseDocument(text);
  // The parser's own messages quote the text, which contains secrets.
  const [error] = document.errors;
  if (error !== undefined) throw invalid(`line ${error.linePos?.[0].line ?? '?'} of it is no YAML (${error.code})`);
  const value: unknown = document.toJS();
  if (!isFields(value)) throw invalid('it is no map with clusters, contexts and users');
  return value;
}

function isFields(value: unknown): value is Fields {
  return value !== null && typeof value === 'object' && !Array.isArray(value);
}

function items(config: Fields, list: string): Fields[] {
  const value = config[list];
  return Array.isArray(value) ? value.filter(isFields) : [];
}

function member(config: Fields, list: string, field: string, name: unknown): Fields | undefined {
  const value = items(config, list).find((item) => item['name'] === name)?.[field];
  return isFields(value) ? value : undefined;
}
