import { describe, expect, test } from 'vitest';
import { API_VERSION } from '../../api/kind.ts';
import type { MachineSet } from '../../api/machine-set.ts';
import type { ManagedFieldsEntry, Stored } from '../../api/wire.ts';
import { decideMarks } from './retire.ts';
import { notByCommit } from './replicas-owner.ts';
import { statusOf } from './report.ts';

const record = (manager: string, fieldsV1: ManagedFieldsEntry['fieldsV1'], subresource?: string): ManagedFieldsEntry => ({
  manager,
  operation: 'Update',
  apiVersion: API_VERSION,
  fieldsType: 'FieldsV1',
  fieldsV1,
  ...(subresource === undefined ? {} : { subresource }),
});
const REPLICAS = { 'f:spec': { 'f:replicas': {} } };
const REST = { 'f:spec': { 'f:provider': {} } };
const MARK = { 'f:metadata': { 'f:annotations': { '.': {}, 'f:kubenode.io/scaled-by': {} } } };
const FLEET = { 'kubenode.io/fleet': 'main' };
const OTHERS = { 'kubenode.io/scaled-by': 'others' };

function set(managedFields: ManagedFieldsEntry[] | undefined, metadata: { labels?: object; annotations?: object } = { labels: FLEET }) {
  return {
    apiVersion: API_VERSION,
    kind: 'MachineSet',
    metadata: {
      name: 'a',
      namespace: 'web',
      uid: 'set',
      resourceVersion: '1',
      creationTimestamp: '2026-11-20T00:00:00Z',
      ...(managedFields === undefined ? {} : { managedFields }),
      ...metadata,
    },
    spec: { provider: { name: 'fake' }, replicas: 1 },
  } as Stored<MachineSet>;
}

describe('C8e: machines go for a number that a commit declares', () => {
  test.each<[string, Stored<MachineSet>]>([
    ['no Fleet manages it', set([record('kubectl', REPLICAS)], {})],
    ['a server notes nothing, and no Fleet manages it', set(undefined, {})],
    ['sync applied it', set([record('kubenode-sync', REPLICAS)])],
    ['another manager applied the same', set([record('kubectl', REPLICAS), record('kubenode-sync', REPLICAS)])],
    [
      'Git leaves it out',
      set([record('kubectl', REPLICAS, 'scale'), record('kubenode-sync', MARK)], { labels: FLEET, annotations: OTHERS }),
    ],
    [
      'a person took it from its Fleet, and declared that',
      set([record('kubectl', REPLICAS), record('kubenode-sync', REST)], { annotations: OTHERS }),
    ],
  ])('and they may where %s', (_, found) => {
    expect(notByCommit(found)).toBeUndefined();
  });

  test.each<[string, Stored<MachineSet>, string]>([
    ['by the subresource', set([record('kubectl', REPLICAS, 'scale'), record('kubenode-sync', REST)]), 'set by kubectl and by no commit'],
    ['by several', set(['a', 'b', 'a', 'c', 'd'].map((each) => record(each, REPLICAS))), 'set by a, b, c and'],
    ['without a trace', set(undefined), 'set by no manager on record and'],
    [
      'by one who marks it as left out',
      set([record('x', { ...REPLICAS, ...MARK }), record('kubenode-sync', REST)], { labels: FLEET, annotations: OTHERS }),
      'by x',
    ],
    ['with its label gone', set([record('x', REPLICAS), record('kubenode-sync', REST)], {}), 'annotate it kubenode.io/scaled-by=others'],
    [
      'with its label gone and another mark',
      set([record('x', REPLICAS), record('kubenode-sync', REST)], { annotations: { 'kubenode.io/scaled-by': '' } }),
      'by x',
    ],
    ['by words that steer a terminal', set([record('\u001b[2Jx'.repeat(99), REPLICAS)]), 'set by'],
  ])('and they stay where it was set %s', (_, found, words) => {
    const text = notByCommit(found) ?? '';
    expect(text).toContain(`spec.replicas is 1, set by`);
    expect(text).toContain(words);
    expect(text).not.toContain('\u001b');
    expect(text.length).toBeLessThan(400);
  });

  test('what bears a mark already gets it taken back, and the status reports who and how many', () => {
    const machine = (name: string, retire?: { epoch: number }) => ({
      apiVersion: API_VERSION,
      kind: 'Machine',
      metadata: { name, namespace: 'web', uid: name, resourceVersion: '1', creationTimestamp: '2026-11-20T00:00:00Z' },
      spec: retire === undefined ? {} : { retire },
    });
    const machines = [machine('a'), machine('b', { epoch: 7 }), machine('c')];
    const view = { set: set([record('kubectl', REPLICAS, 'scale')]), machines, now: 0 };
    const marks = decideMarks(view, 7, new Set(['c']));
    expect(Object.values(marks).map((each: typeof machines) => each.map(({ metadata }) => metadata.name))).toEqual([['b'], ['c'], [], []]);
    const { conditions = [] } = statusOf(view, undefined).status;
    const found = (type: string) => conditions.find((each) => each.type === type);
    const message = expect.stringMatching(/^spec\.replicas is 1, set by kubectl .*Fleet main; 2 machines too many for it stay$/) as string;
    expect(found('ScaleDownBlocked')).toMatchObject({ status: 'True', reason: 'NotByCommit', message });
    expect(found('Progressing')).toMatchObject({ status: 'False', reason: 'ScaleDownBlocked', message });
    const enough = statusOf({ ...view, machines: [machine('a')] }, undefined).status.conditions ?? [];
    expect(enough.find(({ type }) => type === 'ScaleDownBlocked')).toMatchObject({ status: 'False', reason: 'NotBlocked', message: '' });
  });
});
