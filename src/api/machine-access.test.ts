import { expect, test } from 'vitest';
import { requesterOf } from './admission.ts';
import { machineAccess, poolAccess, standInAccess, standInPoolAccess } from './machine-access.ts';

const machine = { metadata: { name: 'm1', namespace: 'web', uid: 'u1', resourceVersion: '1', creationTimestamp: '' } };
const owner = { apiVersion: 'kubenode.io/v1alpha1', kind: 'Machine', name: 'm1', uid: 'u1' };

test('an agent may reach its own Machine and Lease by name, and never lists', () => {
  const { role, roleBinding } = machineAccess(machine);
  expect(role.metadata).toEqual({ name: 'kubenode-agent-m1', namespace: 'web', ownerReferences: [owner] });
  expect(role.rules.flatMap(({ verbs }) => verbs)).not.toContain('list');
  for (const { resources, resourceNames, verbs } of role.rules) {
    // Names cannot limit what is made: admission does.
    if (verbs.includes('create')) expect(verbs).toEqual(['create']);
    else expect([resources, resourceNames]).toEqual([resources, [resources[0] === 'leases' ? 'agent-m1' : 'm1']]);
  }
  expect(roleBinding.roleRef).toMatchObject({ kind: 'Role', name: role.metadata.name });
});

test('security 9: only the one that the approver admits as this machine gets it', () => {
  const users = ({ subjects }: { subjects: { kind: string; name: string; namespace?: string }[] }): unknown[] =>
    subjects.map(({ kind, name, namespace }) => requesterOf(kind === 'User' ? name : `system:serviceaccount:${namespace}:${name}`));
  const me = { namespace: 'web', name: 'm1' };
  // Any user may have made a ServiceAccount of that name before it replaces a certificate.
  expect(users(machineAccess(machine).roleBinding)).toEqual([{ kind: 'Certificate', ...me }]);
  expect(users(machineAccess(machine, { standIn: true }).roleBinding)).toEqual([
    { kind: 'Certificate', ...me },
    { kind: 'Token', ...me },
  ]);
  expect(users(standInAccess(machine).roleBinding)).toEqual([
    { kind: 'Bootstrap', ...me },
    { kind: 'Token', ...me },
    { kind: 'Certificate', ...me },
  ]);
});

test('it gives tokens of the stand-in, and nothing of the Machine', () => {
  expect(standInAccess(machine).role.rules).toEqual([
    { apiGroups: [''], resources: ['serviceaccounts/token'], resourceNames: ['kubenode-agent-m1'], verbs: ['create'] },
  ]);
});

test('what is not in a namespace is given once a pool, under names that no machine has', () => {
  expect(
    [poolAccess('web'), standInPoolAccess('web')].map(({ metadata, roleRef, subjects }) => [
      metadata.name,
      roleRef.name,
      subjects[0]?.name,
    ]),
  ).toEqual([
    ['kubenode-bootstrap-pool-web', 'kubenode-bootstrap', 'system:serviceaccounts:web'],
    ['kubenode-agent-pool-web', 'kubenode-agent', 'system:serviceaccounts:web'],
  ]);
});
