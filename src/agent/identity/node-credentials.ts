import { createPrivateKey, generateKeyPairSync, X509Certificate } from 'node:crypto';
import { dirname } from 'node:path';
import { sha256Hex } from '../../api/digest.ts';
import { isCoded, messageOf } from '../../api/errors.ts';
import { sleep } from '../../kube/clock.ts';
import type { NodeCredentials } from '../generation/spec.ts';
import { bestWallMs } from '../cell/memory.ts';
import type { AgentContext } from '../context.ts';
import { agentError, agentErrorCodes } from '../errors.ts';
import { makeRequest, pemOf } from './request.ts';
import type { PendingRequest } from './state.ts';
import type { SigningAnswer } from './wire.ts';
import type { Manifest } from '../generation/manifest.ts';
import { onNode } from '../disk/layout.ts';
import { writeNodeFile } from '../disk/node-files.ts';
import { inReached, reach } from '../disk/reach.ts';

/*
 * What a kubelet begins with: a kubeconfig for `system:node:NAME`, of a key that this agent has made and a certificate that it asked for as this machine
 * (docs/protocols.md#g4b). No token that others could use lies on a node for it. The kubelet takes it into its own store and renews there; this one is kept
 * good, for a kubelet whose own has run out while the node was off. A program that does not renew by itself gets its certificate as a file of its own, which it
 * reads again when it changes.
 */

/** How a certificate for the node is asked for, as this machine. */
export interface NodeCertificates {
  /** Where the API server is, and its authority (PEM), as nodes see them. */
  server: string;
  certificateAuthority: string;
  ask(pending: Pick<PendingRequest, 'name' | 'request'>, expirationSeconds: number, signal: AbortSignal): Promise<SigningAnswer>;
  readAnswer(pending: Pick<PendingRequest, 'name' | 'request'>, signal: AbortSignal): Promise<SigningAnswer>;
}

const SECONDS = 24 * 3600;
/** For approver and signer. */
const PATIENCE_MS = 30_000;
/** Between checks whether credentials need renewal. */
const RENEWAL_CHECK_MS = 300_000;
const MODE = 0o600;
const AUTHORITY_MODE = 0o644;

interface StoredCertificate {
  certificate: string;
  key: string;
}

/** Makes the files valid, unless they are. Errors: `CredentialsRefused`, `PathRefused`, `FileFailed`, those of the API server. */
export async function keepNodeCredentials(ctx: AgentContext, credentials: NodeCredentials): Promise<void> {
  const { ports, layout, durable, node } = ctx;
  const { kubeconfig, certificateAuthority, clientCertificate } = credentials;
  const certificates = ports.cell.nodeCertificates;
  if (certificates === undefined)
    throw agentError('CredentialsRefused', 'this agent has no API server to ask for the certificate of its node');
  await writeNodeFile(durable, layout.root, {
    path: certificateAuthority,
    content: certificates.certificateAuthority,
    mode: AUTHORITY_MODE,
  });
  const text = await readNodeFile(ctx, clientCertificate ?? kubeconfig);
  const readFrom = clientCertificate === undefined ? certificateIn : certificateInPem;
  const present = readFrom(text, node.name, bestWallMs(ctx.memory, ctx.ports.clock), 2 / 3);
  const stored =
    present ??
    (await asked(ctx, certificates).catch((error: unknown) =>
      orElse(ctx, readFrom(text, node.name, bestWallMs(ctx.memory, ctx.ports.clock), 1), error),
    ));
  // What the kubeconfig names is there before it.
  if (clientCertificate !== undefined)
    await writeNodeFile(durable, layout.root, {
      path: clientCertificate,
      content: `${stored.certificate.trimEnd()}\n${stored.key}`,
      mode: MODE,
    });
  const user = clientCertificate === undefined ? stored : { file: onNode(layout.root, clientCertificate) };
  await writeNodeFile(durable, layout.root, { path: kubeconfig, content: kubeconfigOf(certificates, node.name, user), mode: MODE });
}

/** A certificate that is still valid for some time is no reason to stop. */
function orElse(ctx: AgentContext, stored: StoredCertificate | undefined, error: unknown): StoredCertificate {
  if (stored === undefined || ctx.signal.aborted) throw error;
  ctx.ports.log.warn({ error: messageOf(error) }, 'the credentials of the node were not renewed; what is there is still good');
  return stored;
}

/** Until the signal. */
export async function keepNodeCredentialsGood(ctx: AgentContext): Promise<void> {
  const { memory, ports, layout, signal } = ctx;
  const { records } = memory;
  while (!signal.aborted) {
    await sleep(ports.clock, RENEWAL_CHECK_MS * (0.75 + ports.random() / 2), signal).catch(() => undefined);
    if (signal.aborted || records.trouble !== undefined || records.journal === undefined) continue;
    const onHold = (await ports.files.stat(layout.hold)) !== undefined;
    const manifests = [...records.installed.values()].flatMap(({ manifest }) => manifest ?? []);
    if (!onHold) await renewNodeCredentials(ctx, manifests).catch(() => undefined);
  }
}

/** Every installed component's; what fails is tried again later and does not stop the others. */
async function renewNodeCredentials(ctx: AgentContext, manifests: Iterable<Manifest>): Promise<void> {
  for (const { name, nodeCredentials } of manifests) {
    if (nodeCredentials === undefined) continue;
    try {
      await keepNodeCredentials(ctx, nodeCredentials);
    } catch (error) {
      ctx.signal.throwIfAborted();
      ctx.ports.log.warn({ component: name, error: messageOf(error) }, 'the credentials of the node were not renewed');
    }
  }
}

/** What is there and good: of this node, of its key, and not past this part of its life. */
export function certificateIn(text: string | undefined, nodeName: string, nowMs: number, part: number): StoredCertificate | undefined {
  if (text === undefined) return undefined;
  try {
    const { users } = JSON.parse(text) as { users?: { user?: Record<string, unknown> }[] };
    const user = users?.[0]?.user ?? {};
    const [certificate = '', key = ''] = ['client-certificate-data', 'client-key-data'].map((field) => {
      const data = user[field];
      return typeof data === 'string' ? Buffer.from(data, 'base64').toString('utf8') : '';
    });
    return isGood(certificate, key, nodeName, nowMs, part) ? { certificate, key } : undefined;
  } catch {
    // In another form, or from another program.
    return undefined;
  }
}

/** The same of a file that has certificate and key. */
export function certificateInPem(text: string | undefined, nodeName: string, nowMs: number, part: number): StoredCertificate | undefined {
  const [certificate, key] = [/-----BEGIN CERTIFICATE-----[^]*-----END CERTIFICATE-----\n/, /-----BEGIN PRIVATE KEY-----[^]*$/].map(
    (pattern) => pattern.exec(text ?? '')?.[0],
  );
  if (certificate === undefined || key === undefined) return undefined;
  try {
    return isGood(certificate, key, nodeName, nowMs, part) ? { certificate, key } : undefined;
  } catch {
    // Cut off, or from another program.
    return undefined;
  }
}

function isGood(certificate: string, key: string, nodeName: string, nowMs: number, part: number): boolean {
  const parsed = new X509Certificate(certificate);
  const [from, until] = [Date.parse(parsed.validFrom), Date.parse(parsed.validTo)];
  const names = parsed.subject.split('\n');
  return (
    parsed.checkPrivateKey(createPrivateKey(key)) &&
    names.includes(`CN=system:node:${nodeName}`) &&
    names.includes('O=system:nodes') &&
    nowMs < from + (until - from) * part
  );
}

async function asked(ctx: AgentContext, certificates: NodeCertificates): Promise<StoredCertificate> {
  const { node, ports, signal } = ctx;
  const { clock } = ports;
  const key = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey;
  const der = makeRequest(key, `system:node:${node.name}`, 'system:nodes');
  const pending = {
    name: `kubenode-node-${node.name}`.slice(0, 200) + `-${sha256Hex(der).slice(0, 16)}`,
    request: Buffer.from(pemOf(der)).toString('base64'),
  };
  const deadline = clock.monotonic() + PATIENCE_MS;
  let answer = await certificates.ask(pending, SECONDS, signal);
  for (let waitMs = 50; ; waitMs = Math.min(2 * waitMs, 2_000)) {
    switch (answer.is) {
      case 'Issued': {
        const issued = { certificate: answer.certificate, key: key.export({ type: 'pkcs8', format: 'pem' }).toString() };
        if (isGood(issued.certificate, issued.key, node.name, bestWallMs(ctx.memory, ctx.ports.clock), 1)) return issued;
        throw agentError(
          'CredentialsRefused',
          `the certificate that was issued is not for system:node:${node.name} and its key, or is over`,
        );
      }
      case 'Denied':
      case 'Failed':
        throw agentError('CredentialsRefused', `the certificate for Node ${node.name} is refused: ${answer.why}`);
      case 'Gone':
        throw agentError('CredentialsRefused', `${pending.name} was removed before it was answered`);
      case 'Waiting':
        if (clock.monotonic() > deadline) {
          const who = answer.approved ? 'approved, and not signed' : 'not approved';
          throw agentError('CredentialsRefused', `the certificate for Node ${node.name} is ${who} after ${PATIENCE_MS / 1000} s`);
        }
        break;
      default:
        answer satisfies never;
    }
    await sleep(clock, waitMs);
    signal.throwIfAborted();
    answer = await certificates.readAnswer(pending, signal);
  }
}

/** JSON is YAML. `file`: absolute path on the node of a PEM of both. */
export function kubeconfigOf(
  { server, certificateAuthority }: Pick<NodeCertificates, 'server' | 'certificateAuthority'>,
  nodeName: string,
  user: StoredCertificate | { file: string },
): string {
  const encoded = (text: string): string => Buffer.from(text).toString('base64');
  const name = 'kubenode';
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name, cluster: { server, 'certificate-authority-data': encoded(certificateAuthority) } }],
    users: [
      {
        name: `system:node:${nodeName}`,
        user:
          'file' in user
            ? { 'client-certificate': user.file, 'client-key': user.file }
            : { 'client-certificate-data': encoded(user.certificate), 'client-key-data': encoded(user.key) },
      },
    ],
    contexts: [{ name, context: { cluster: name, user: `system:node:${nodeName}` } }],
    'current-context': name,
  };
  return `${JSON.stringify(config, null, 2)}\n`;
}

async function readNodeFile({ durable, layout }: AgentContext, path: string): Promise<string | undefined> {
  try {
    const reached = await reach(durable.files, layout.root, dirname(path));
    if (reached === undefined) return undefined;
    return await inReached(reached, path, async (at) => {
      if ((await durable.files.stat(at))?.kind !== 'file') return undefined;
      return (await durable.files.read(at))?.toString();
    });
  } catch (error) {
    if (isCoded(error, agentErrorCodes, 'PathRefused')) throw error;
    return undefined;
  }
}
