import { expect, it } from 'vitest';
import { judge, type AuditEvent } from './audit.ts';

const event = (who: string, verb: string, resource: string, code: number, more: Partial<AuditEvent> = {}): AuditEvent => ({
  stage: 'ResponseComplete',
  verb,
  user: { username: who },
  objectRef: { apiGroup: 'kubenode.io', resource, namespace: 'web', name: 'm1' },
  responseStatus: { code, message: 'no' },
  ...more,
});
const sync = 'system:serviceaccount:kubenode-system:kubenode-sync';
const cell = { username: 'system:serviceaccount:kubenode-system:kubenode-cell' };

it('names who was refused what, also by the identity that he acted as', () => {
  const machine = 'system:serviceaccount:kubenode-system:kubenode-machine';
  const verdict = judge([
    event(sync, 'patch', 'machinesets', 200),
    event(machine, 'update', 'machines', 403, { user: cell, impersonatedUser: { username: machine } }),
    event('system:node:n1', 'get', 'machines', 403),
    event('kubenode:machine:web:m1', 'watch', 'machines', 403),
    event('kubenode-tour', 'list', 'machines', 403),
    event('kubenode-tour', 'create', 'freezes', 403),
    event('system:kube-controller-manager', 'list', 'machines', 403),
    event(sync, 'patch', 'machinesets', 403, { stage: 'ResponseStarted' }),
  ]);
  expect(verdict).toEqual({
    requests: 7,
    identities: 6,
    refused: [
      `${machine}: update machines web/m1: no`,
      'system:node:n1: get machines web/m1: no',
      'kubenode:machine:web:m1: watch machines web/m1: no',
      'kubenode-tour: create freezes web/m1: no',
    ],
    byAdministrator: [],
  });
});

it('names what the administrator wrote himself, but for Fleets', () => {
  const admin = 'kubernetes-admin';
  const { byAdministrator } = judge([
    event(admin, 'patch', 'fleets', 200),
    event(admin, 'list', 'machines', 200),
    event(admin, 'patch', 'clusterroles', 200, {
      objectRef: { apiGroup: 'rbac.authorization.k8s.io', resource: 'clusterroles', name: 'x' },
    }),
    event(admin, 'create', 'freezes', 201),
    event(admin, 'create', 'freezes', 201, { impersonatedUser: { username: 'kubenode-tour' } }),
  ]);
  expect(byAdministrator).toEqual(['kubernetes-admin: create freezes web/m1']);
});
