import { stringify } from 'yaml';
import { describe, expect, it } from 'vitest';
import { createAuthority } from '../kube/testing/tls.ts';
import { inlineConnection } from './remote.ts';

const base64 = (text: string): string => Buffer.from(text).toString('base64');
const jwt = (claims: object): string => `e30.${Buffer.from(JSON.stringify(claims)).toString('base64url')}.hunter2`;

/** A good one, changed. */
function kubeconfig({
  user = { token: 'hunter2' },
  cluster = {},
  ...rest
}: { user?: object; cluster?: object; [field: string]: unknown } = {}): string {
  return stringify({
    'current-context': 'x',
    contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
    clusters: [{ name: 'c', cluster: { server: 'https://api:6443', ...cluster } }],
    users: [{ name: 'u', user }],
    ...rest,
  });
}

describe('the kubeconfig of a cluster, as the hub keeps it', () => {
  it('is taken where everything stands in it', async () => {
    const authority = await createAuthority();
    const { cert, key } = await authority.issue('sync');
    const text = kubeconfig({
      user: { 'client-certificate-data': base64(cert), 'client-key-data': base64(key) },
      cluster: { 'certificate-authority-data': base64(authority.ca) },
    });
    expect(inlineConnection(text)).toEqual({ server: 'https://api:6443', ca: authority.ca, clientCert: cert, clientKey: key });
    expect(inlineConnection(kubeconfig())).toEqual({ server: 'https://api:6443', token: 'hunter2' });
  });

  it.each([
    ['text that is no YAML', 'users:\n- {name: u, user: {token: "hunter2\n', 'line 3 of it is no YAML ('],
    ['another document', '"hunter2"', 'it is no map with clusters, contexts and users'],
    ['nothing', '', 'it is no map with clusters, contexts and users'],
    ['no current-context', kubeconfig({ 'current-context': '' }), 'it names no current-context'],
    ['an unknown context', kubeconfig({ 'current-context': 'q' }), 'its current-context "q" is not among its contexts'],
    ['an unknown cluster', kubeconfig({ clusters: [] }), 'its context "x" names cluster "c", which is not among its clusters'],
    ['an unknown manager', kubeconfig({ users: [] }), 'its context "x" names user "u", which is not among its users'],
    ['no server', kubeconfig({ cluster: { server: null } }), 'its cluster has no server'],
    ['no credentials', kubeconfig({ user: {} }), 'its user has neither a token nor client-certificate-data'],
    ['a token that is a number', kubeconfig({ user: { token: 5 } }), '`token` of its user must be a string'],
    ['a program', kubeconfig({ user: { exec: { command: 'hunter2' } } }), 'its user must not have `exec`'],
    ['a file', kubeconfig({ cluster: { 'certificate-authority': '/hunter2' } }), 'must have certificate-authority-data, not a file'],
    ['TLS not verified', kubeconfig({ cluster: { 'insecure-skip-tls-verify': true } }), 'KubeNode verifies every server'],
    [
      'an authority that is none',
      kubeconfig({ cluster: { 'certificate-authority-data': base64('hunter2') } }),
      'its certificate authority is no',
    ],
    [
      'half a certificate',
      kubeconfig({ user: { 'client-certificate-data': base64('hunter2') } }),
      'a client certificate and no key for it',
    ],
    ['a token that expired', kubeconfig({ user: { token: jwt({ exp: 1e9 }) } }), 'its token expired on 2001-09-09T01:46:40.000Z'],
  ])('%s is refused with one message, which contains no secret', (_, text, message) => {
    expect(() => inlineConnection(text)).toThrow(message);
    expect(() => inlineConnection(text)).not.toThrow('hunter2');
  });
});
