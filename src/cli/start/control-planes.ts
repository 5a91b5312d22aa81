import { kubeErrorCodes } from '../../kube/errors.ts';
import { stringify } from 'yaml';
import { isCoded, messageOf } from '../../api/errors.ts';
import { CustomResourceDefinitions } from '../../api/builtin.ts';
import { systemClock } from '../../kube/clock.ts';
import { createClient } from '../../kube/http-client.ts';
import { httpTransport } from '../../kube/http-transport.ts';
import { loadKubeconfig, type LoadedConnection } from '../../kube/kubeconfig.ts';
import { CELLS } from './prepare.ts';
import { cliError } from '../errors.ts';

/** Control planes that others run, checked and found usable. */
export interface ControlPlanes {
  /** A kubeconfig of the contexts that are used and nothing else, everything in it. Secret. */
  readonly kubeconfig: string;
  /** Address by context. */
  readonly servers: Readonly<Record<string, string>>;
}

/** How long a server may take to answer. */
const ANSWER_MS = 15_000;
const NAMES = ['hub', ...CELLS];

/**
 * Reads the kubeconfig and asks each server something that only its administrator may. Changes nothing anywhere. Errors: those of reading a
 * kubeconfig where there is none; else `ControlPlanesUnusable`, which names every context that will not do, and why.
 */
export async function readControlPlanes(path: string): Promise<ControlPlanes> {
  const results = await Promise.allSettled(NAMES.map((name) => usable(path, name)));
  const absent = results.find((result) => result.status === 'rejected' && isCoded(result.reason, kubeErrorCodes, 'KubeconfigAbsent'));
  if (absent?.status === 'rejected') throw absent.reason;
  const problems = results.flatMap((result, i) => (result.status === 'rejected' ? [`${NAMES[i]}: ${messageOf(result.reason)}`] : []));
  const found = results.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []));
  // Machines of two cells would share names, nodes and ledger.
  const cells = found.filter(({ name }) => name !== 'hub');
  for (const [i, { name, connection }] of cells.entries()) {
    const other = cells.slice(0, i).find((each) => new URL(each.connection.server).href === new URL(connection.server).href);
    if (other !== undefined) problems.push(`${name}: it is ${connection.server}, as is ${other.name}; each cell needs a server of its own`);
  }
  if (problems.length > 0)
    throw cliError('ControlPlanesUnusable', `${path} cannot be used; nothing was started or changed\n  ${problems.join('\n  ')}`, {
      next: `it must have the contexts ${NAMES.join(', ')}, each with certificate authority, and an administrator's token or certificate`,
    });
  return {
    kubeconfig: kubeconfigOf(found),
    servers: Object.fromEntries(found.map(({ name, connection }) => [name, connection.server])),
  };
}

interface Found {
  name: string;
  connection: LoadedConnection;
}

async function usable(path: string, name: string): Promise<Found> {
  const connection = await loadKubeconfig({ path, context: name, env: {}, clock: systemClock() });
  if (connection.ca === undefined)
    throw new Error('its cluster has no certificate-authority-data; nodes and the hub verify the server with it');
  // The hub keeps a copy in a Secret, and takes there neither programs nor files.
  if (typeof connection.token === 'function')
    throw new Error('its user has a program or a token file; the hub needs a token or a certificate that stands in the file itself');
  const transport = httpTransport(connection);
  try {
    const client = createClient(transport, { userAgent: 'kubenode-start' });
    await client.list(CustomResourceDefinitions, { limit: 1, signal: AbortSignal.timeout(ANSWER_MS) });
  } catch (error) {
    const late = error instanceof Error && error.name === 'TimeoutError';
    throw late ? new Error(`${connection.server} did not answer within ${ANSWER_MS / 1000} s`) : error;
  } finally {
    await transport.close();
  }
  return { name, connection };
}

const base64 = (text: string): string => Buffer.from(text).toString('base64');

function kubeconfigOf(found: readonly Found[]): string {
  return stringify({
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': 'hub',
    contexts: found.map(({ name, connection: { namespace } }) => ({ name, context: { cluster: name, user: name, namespace } })),
    clusters: found.map(({ name, connection: { server, ca = '', tlsServerName } }) => ({
      name,
      cluster: {
        server,
        'certificate-authority-data': base64(ca),
        ...(tlsServerName === undefined ? {} : { 'tls-server-name': tlsServerName }),
      },
    })),
    users: found.map(({ name, connection: { token, clientCert, clientKey } }) => ({
      name,
      user: {
        ...(typeof token === 'string' ? { token } : {}),
        ...(clientCert === undefined ? {} : { 'client-certificate-data': base64(clientCert) }),
        ...(clientKey === undefined ? {} : { 'client-key-data': base64(clientKey) }),
      },
    })),
  });
}
