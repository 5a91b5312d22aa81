import { execFileSync } from 'node:child_process';
import { generateKeyPairSync } from 'node:crypto';
import { expect, test } from 'vitest';
import { makeAuthority } from '@kubenode/embedded/pki';
import { makeRequest, pemOf } from './request.ts';

const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
const NAME = 'kubenode:machine:web:a';

function hasOpenssl(): boolean {
  try {
    execFileSync('openssl', ['version'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}

test.each([NAME, `kubenode:machine:${'p'.repeat(63)}:${'m'.repeat(253)}`, 'ä'])(
  'a request for %s is what @peculiar/x509 reads',
  async (name) => {
    // The library is set up by the module that owns it.
    await makeAuthority('warm-up', { now: 0, random: () => 0.5 });
    const { Pkcs10CertificateRequest } = await import('@peculiar/x509');
    const request = new Pkcs10CertificateRequest(makeRequest(privateKey, name, 'kubenode:machines'));
    expect(request.subjectName.toJSON()).toEqual([{ O: ['kubenode:machines'] }, { CN: [name] }]);
    expect([request.attributes, request.extensions]).toEqual([[], []]);
    expect(await request.verify()).toBe(true);
  },
);

test.runIf(hasOpenssl())('openssl verifies a request, and reads the same', () => {
  const input = pemOf(makeRequest(privateKey, NAME, 'kubenode:machines'));
  const text = execFileSync('openssl', ['req', '-noout', '-verify', '-subject', '-nameopt', 'RFC2253'], {
    input,
    stdio: 'pipe',
  }).toString();
  expect(text).toContain(`subject=CN=${NAME},O=kubenode:machines`);
});
