import { describe, expect, test } from 'vitest';
import { ATTENTION_LIMIT, Clusters } from '../api/cluster.ts';
import { API_VERSION } from '../api/kind.ts';
import type { Condition, KubeObject } from '../api/wire.ts';
import { attentionOf } from './attention.ts';

const SINCE = '2026-11-20T00:00:00Z';

type ReportedCondition = [type: string, status: Condition['status'], reason: string, since?: string];

function object(kind: string, name: string, reported: ReportedCondition[], apiVersion: string = API_VERSION): KubeObject {
  const conditions = reported.map(([type, status, reason, since = SINCE]) => ({
    type,
    status,
    reason,
    message: `${name}: ${reason}`,
    lastTransitionTime: since,
  }));
  const metadata = { name, ...(kind === 'MachineSet' ? { namespace: 'web' } : {}) };
  return { apiVersion, kind, metadata, status: { conditions } } as KubeObject;
}

const reasons = (kind: string, ...reported: ReportedCondition[]): string[] =>
  attentionOf([object(kind, 'a', reported)]).map(({ reason }) => reason);

describe('what in a cell needs a person', () => {
  test('is what is halted, failed, stuck, refused, or asks for one', () => {
    expect(reasons('MachineSet', ['Progressing', 'False', 'TooManyFailed'], ['Available', 'False', 'TooFew'])).toEqual([
      'TooFew',
      'TooManyFailed',
    ]);
    expect(reasons('MachineComponentSet', ['Halted', 'True', 'TooManyFailed'], ['Progressing', 'False', 'Halted'])).toEqual([
      'TooManyFailed',
    ]);
    expect(reasons('MachineComponentSet', ['Conflict', 'True', 'SameMachines'], ['Progressing', 'False', 'Conflict'])).toEqual([
      'SameMachines',
    ]);
    expect(reasons('MachineComponentSet', ['Progressing', 'False', 'ComponentMissing'])).toEqual(['ComponentMissing']);
    expect(reasons('NodeRemedier', ['Accepted', 'False', 'Refused'], ['NeedsHuman', 'True', 'LadderOver'])).toEqual([
      'Refused',
      'LadderOver',
    ]);
    expect(reasons('DefenderPolicy', ['Accepted', 'False', 'Refused'])).toEqual(['Refused']);
  });

  test('is what machines still run of a component set that is gone', () => {
    expect(reasons('MachineSet', ['ComponentsLeft', 'True', 'NoSet'])).toEqual(['NoSet']);
    expect(reasons('MachineSet', ['ComponentsLeft', 'False', 'NoneLeft'])).toEqual([]);
  });

  test('is a machine that cannot have what its set gives', () => {
    expect(reasons('MachineSet', ['Progressing', 'False', 'Complete'], ['WriteFailed', 'True', 'Invalid'])).toEqual(['Invalid']);
  });

  test('is a number of machines that no commit reports', () => {
    expect(reasons('MachineSet', ['Progressing', 'False', 'ScaleDownBlocked'], ['ScaleDownBlocked', 'True', 'NotByCommit'])).toEqual([
      'NotByCommit',
    ]);
  });

  test('is since when it is so, and not since when the set stood still', () => {
    const reported: ReportedCondition[] = [
      ['Progressing', 'False', 'ScaleDownBlocked', '2026-11-01T00:00:00Z'],
      ['ScaleDownBlocked', 'True', 'MachinesStay'],
    ];
    expect(attentionOf([object('MachineSet', 'a', reported)])).toMatchObject([
      { reason: 'MachinesStay', since: '2026-11-20T00:00:00.000Z' },
    ]);
  });

  test('is a set that a user paused before it had the machines that it shall have', () => {
    const paused = (replicas: number): string[] => {
      const set = object('MachineSet', 'a', [['Progressing', 'False', 'Paused']]) as KubeObject & { spec?: object; status?: object };
      set.spec = { replicas, paused: true };
      set.status = { ...set.status, replicas: 1 };
      return attentionOf([set]).map(({ reason }) => reason);
    };
    expect([paused(0), paused(1)]).toEqual([['Paused'], []]);
  });

  test('is nothing of what moves, is over, waits by a person’s will, or is of another kind', () => {
    expect(reasons('MachineSet', ['Progressing', 'False', 'Complete'], ['Available', 'True', 'Enough'])).toEqual([]);
    expect(reasons('MachineSet', ['Progressing', 'True', 'ScalingUp'], ['Available', 'Unknown', 'Unknown'])).toEqual([]);
    for (const reason of ['Complete', 'NoMachines', 'Paused', 'Ceiling'])
      expect(reasons('MachineComponentSet', ['Progressing', 'False', reason])).toEqual([]);
    expect(reasons('NodeRemedier', ['Accepted', 'True', 'Accepted'], ['NeedsHuman', 'False', 'NoJob'])).toEqual([]);
    expect(reasons('Namespace', ['Accepted', 'False', 'Refused'])).toEqual([]);
    expect(attentionOf([object('MachineSet', 'a', [['Available', 'False', 'TooFew']], 'example.com/v1')])).toEqual([]);
    expect(attentionOf([{ apiVersion: API_VERSION, kind: 'MachineSet', metadata: { name: 'a' } }])).toEqual([]);
  });

  test('is named with its namespace, the oldest first, in one order, within bounds', () => {
    const all = Array.from({ length: 2 * ATTENTION_LIMIT }, (_, index) =>
      object('MachineSet', `s${String(index).padStart(2, '0')}`, [
        ['Available', 'False', 'TooFew', index === 30 ? '2026-11-19T00:00:00Z' : SINCE],
      ]),
    );
    const found = attentionOf(all);
    expect(found).toHaveLength(ATTENTION_LIMIT);
    expect(found.slice(0, 2).map((each) => each.object)).toEqual(['MachineSet/web/s30', 'MachineSet/web/s00']);
    expect(found[0]).toEqual({
      object: 'MachineSet/web/s30',
      type: 'Available',
      reason: 'TooFew',
      message: 's30: TooFew',
      since: '2026-11-19T00:00:00.000Z',
    });
    expect(attentionOf(all.toReversed())).toEqual(found);
    const long = object('NodeRemedier', 'a'.repeat(10), [['Accepted', 'False', `x`]]);
    const reported = (long as { status?: { conditions: Condition[] } }).status?.conditions[0];
    if (reported !== undefined) reported.message = `\u001B[2J${'y'.repeat(5000)}`;
    const message = attentionOf([long])[0]?.message ?? '';
    expect([message.length <= 256, message.includes('\u001B')]).toEqual([true, false]);
  });

  test('is never more than a Cluster can hold, and plain, whatever the cell reports', () => {
    const odd = object('NodeRemedier', `${'n'.repeat(600)}\n`, [
      ['Accepted', 'False', `X\n✔ all is well\u001B[2J${'x'.repeat(2000)}`, 'yesterday'],
    ]);
    const [found] = attentionOf([odd]);
    expect(
      Clusters.parse({ apiVersion: API_VERSION, kind: 'Cluster', metadata: { name: 'a' }, spec: {}, status: { attention: [found] } }),
    ).toBeDefined();
    expect([found?.object.length, found?.reason.length, found?.since]).toEqual([512, 256, '1970-01-01T00:00:00.000Z']);
    // oxlint-disable-next-line no-control-regex -- what must not be there
    expect(Object.values(found ?? {}).join('')).not.toMatch(/[\u0000-\u001f]/);
  });
});
