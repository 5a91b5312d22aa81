// The identity of a kubelet: a key of its own and the certificate for system:node:NAME, which it asks for as the node's agent, which may. (A
// real kubelet asks with its bootstrap token, and later with its certificate.)
import { createHash, createPublicKey, generateKeyPairSync, sign, X509Certificate } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { cell } from './cell.js';

export const NODE_IDENTITY = 'var/lib/local-kubelet/identity.json';
const AGENT_IDENTITY = 'var/lib/kubenode/identity/current.json';
const REQUESTS = '/apis/certificates.k8s.io/v1/certificatesigningrequests';
const SECONDS = 24 * 3600;
// How long a request may go unanswered before another is made.
const PATIENCE_MS = 60_000;

// `keep` resolves when there is a certificate, and renews it at two thirds of its life; `drop` forgets one that the server did not take.
export function nodeIdentity(bootstrapPath, nodeName, log) {
  const asAgent = cell(bootstrapPath, AGENT_IDENTITY);

  async function ask() {
    const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    const request = makeRequest(privateKey, `system:node:${nodeName}`, 'system:nodes');
    const name = `node-csr-${nodeName}-${createHash('sha256').update(request).digest('hex').slice(0, 16)}`;
    const made = await asAgent('POST', REQUESTS, {
      apiVersion: 'certificates.k8s.io/v1',
      kind: 'CertificateSigningRequest',
      metadata: { name },
      spec: {
        request: Buffer.from(pem('CERTIFICATE REQUEST', request)).toString('base64'),
        signerName: 'kubernetes.io/kube-apiserver-client-kubelet',
        usages: ['client auth', 'digital signature'],
        expirationSeconds: SECONDS,
      },
    });
    if (made.status !== 201) throw new Error(`asking for a certificate: ${made.status} ${made.body?.message ?? ''}`);
    const key = privateKey.export({ type: 'pkcs8', format: 'pem' });
    for (let ms = 100, waited = 0; waited < PATIENCE_MS; waited += ms, ms = Math.min(2 * ms, 5000)) {
      await delay(ms);
      const { status, body } = await asAgent('GET', `${REQUESTS}/${name}`);
      if (status !== 200) throw new Error(`reading the request for a certificate: ${status} ${body?.message ?? ''}`);
      const no = body.status?.conditions?.find(({ type }) => type === 'Denied' || type === 'Failed');
      if (no !== undefined)
        throw new Error(`the request for a certificate was answered ${no.type}: ${no.reason ?? ''} ${no.message ?? ''}`);
      if (body.status?.certificate) return { key, certificate: Buffer.from(body.status.certificate, 'base64').toString('utf8') };
    }
    throw new Error(`nobody approved or signed ${name}`);
  }

  return {
    async keep() {
      const life = lifeOf();
      if (life !== undefined && Date.now() < life.from + ((life.until - life.from) * 2) / 3) return;
      let identity;
      try {
        identity = await ask();
      } catch (error) {
        if (life === undefined || Date.now() > life.until) throw error;
        log(`${error.message}; the certificate so far is good until ${new Date(life.until).toISOString()}`);
        return;
      }
      mkdirSync(dirname(NODE_IDENTITY), { recursive: true, mode: 0o700 });
      writeFileSync(`${NODE_IDENTITY}.new`, JSON.stringify(identity), { mode: 0o600, flush: true });
      renameSync(`${NODE_IDENTITY}.new`, NODE_IDENTITY);
      log(`has its certificate, as system:node:${nodeName}`);
    },
    drop: () => rmSync(NODE_IDENTITY, { force: true }),
  };
}

function lifeOf() {
  if (!existsSync(NODE_IDENTITY)) return undefined;
  const { validFrom, validTo } = new X509Certificate(JSON.parse(readFileSync(NODE_IDENTITY, 'utf8')).certificate);
  return { from: Date.parse(validFrom), until: Date.parse(validTo) };
}

function der(tag, ...parts) {
  const content = Buffer.concat(parts);
  const { length } = content;
  const head = length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from([tag, ...head]), content]);
}

const sequence = (...parts) => der(0x30, ...parts);
const attribute = (type, value) => der(0x31, sequence(Buffer.from(type, 'hex'), der(0x0c, Buffer.from(value, 'utf8'))));

// PKCS#10 in DER: the subject `O=organization, CN=commonName` and nothing else.
function makeRequest(key, commonName, organization) {
  const subject = sequence(attribute('060355040a', organization), attribute('0603550403', commonName));
  const spki = createPublicKey(key).export({ type: 'spki', format: 'der' });
  const info = sequence(Buffer.from('020100', 'hex'), subject, spki, der(0xa0));
  const ecdsaWithSHA256 = sequence(Buffer.from('06082a8648ce3d040302', 'hex'));
  return sequence(info, ecdsaWithSHA256, der(0x03, Buffer.from([0]), sign('sha256', info, key)));
}

function pem(type, bytes) {
  const lines = bytes.toString('base64').match(/.{1,64}/g);
  return `-----BEGIN ${type}-----\n${lines.join('\n')}\n-----END ${type}-----\n`;
}
