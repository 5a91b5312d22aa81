import { describe, expect, it } from 'vitest';
import { requesterOf } from './admission.ts';
import { Leases, Nodes } from './builtin.ts';
import { isLabel, isSubdomain } from './object-name.ts';
import { pathOf } from './resource.ts';

const BAD = ['.', '..', 'a/b', '../../nodes', '%2e%2e', ''];

describe('G4h: a name from outside', () => {
  it.each(BAD)('that is no segment of a path (%j) is in none', (name) => {
    const refused = expect.objectContaining({ code: 'InvalidName' });
    expect(() => pathOf(Nodes, undefined, name)).toThrow(refused);
    expect(() => pathOf(Leases, 'web', name, 'status')).toThrow(refused);
    if (name !== '') expect(() => pathOf(Leases, name, 'a')).toThrow(refused);
  });

  it('that is one is encoded', () => {
    expect(pathOf(Leases, 'web', 'a b:c', 'status')).toBe('/apis/coordination.k8s.io/v1/namespaces/web/leases/a%20b%3Ac/status');
    expect(pathOf(Nodes)).toBe('/api/v1/nodes');
  });

  it.each([...BAD, 'A', 'a_b', '-a', 'a..b', 'x'.repeat(254)])(
    'a name that no Machine can have (%j) is the name of no requester',
    (name) => {
      expect(requesterOf(`kubenode:machine:web:${name}`)).toBeUndefined();
      expect(requesterOf(`system:serviceaccount:web:kubenode-agent-${name}`)).toBeUndefined();
      expect(requesterOf(`system:serviceaccount:web:kubenode-bootstrap-${name}`)).toBeUndefined();
      expect(requesterOf(`kubenode:machine:${name}:a`)).toBeUndefined();
      expect(isSubdomain(name)).toBe(false);
    },
  );

  it('is of a namespace or an object by its form and length', () => {
    expect([isLabel('a'.repeat(63)), isLabel('a'.repeat(64)), isLabel('a.b'), isLabel('a-b'), isLabel('')]).toEqual([
      true,
      false,
      false,
      true,
      false,
    ]);
    expect([isSubdomain('a.b-c.0'), isSubdomain('a'.repeat(253)), isSubdomain('a.')]).toEqual([true, true, false]);
    expect(requesterOf('kubenode:machine:web:a.b')).toEqual({ kind: 'Certificate', namespace: 'web', name: 'a.b' });
  });
});
