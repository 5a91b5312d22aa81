import { describe, expect, test } from 'vitest';
import { CodedError } from '../../api/errors.ts';
import { API_VERSION } from '../../api/kind.ts';
import type { Machine } from '../../api/machine.ts';
import type { MachineSet } from '../../api/machine-set.ts';
import type { Stored } from '../../api/wire.ts';
import type { MachineSetView } from './decide.ts';
import { statusOf } from './report.ts';

const NOW = Date.UTC(2026, 10, 20);
const at = (seconds: number): string => new Date(NOW + seconds * 1000).toISOString();

interface Of {
  /** Ready since so many seconds ago; undefined: it is not Ready. */
  readyFor?: number;
  deleting?: boolean;
  marked?: boolean;
  hold?: boolean;
  /** Never was Ready, and was made so many seconds ago. */
  newFor?: number;
}
function machine(name: string, { readyFor, deleting, marked, hold, newFor }: Of = {}): Stored<Machine> {
  const created = at(-(newFor ?? 100_000));
  return {
    apiVersion: API_VERSION,
    kind: 'Machine',
    metadata: {
      name,
      namespace: 'web',
      uid: `uid-${name}`,
      resourceVersion: '1',
      creationTimestamp: created,
      ...(deleting === true ? { deletionTimestamp: at(-1) } : {}),
    },
    spec: { ...(marked === true ? { retire: { epoch: 1, reason: 'x' } } : {}), ...(hold === true ? { hold: true } : {}) },
    status: {
      ...(newFor === undefined ? { firstReadyAt: created } : {}),
      conditions: [
        {
          type: 'Ready',
          status: readyFor === undefined ? 'False' : 'True',
          reason: 'x',
          message: '',
          lastTransitionTime: at(-(readyFor ?? 0)),
        },
      ],
    },
  };
}
const view = (
  spec: Partial<MachineSet['spec']>,
  machines: Stored<Machine>[],
  status: MachineSet['status'] = {},
  making?: string[],
  left?: string,
): MachineSetView => ({
  set: {
    apiVersion: API_VERSION,
    kind: 'MachineSet',
    metadata: { name: 'web-a', namespace: 'web', uid: 'set', resourceVersion: '1', creationTimestamp: at(-100_000), generation: 3 },
    spec: { provider: { name: 'fake' }, ...spec },
    status,
  },
  machines,
  now: NOW,
  ...(making === undefined ? {} : { making }),
  ...(left === undefined ? {} : { left }),
});
const report = (of: MachineSetView, error?: unknown) => statusOf(of, error);
const reported = (of: MachineSetView, type = 'Progressing', error?: unknown): string => {
  const found = report(of, error).status.conditions?.find((each) => each.type === type);
  return `${found?.status} ${found?.reason}: ${found?.message}`;
};

describe('the status of a set', () => {
  const some = [
    machine('a', { readyFor: 30 }),
    machine('b', { readyFor: 9 }),
    machine('c'),
    machine('d', { readyFor: 99, deleting: true, marked: true }),
    machine('e', { readyFor: 99, marked: true }),
  ];

  test('counts what is alive, Ready, available and marked', () => {
    const { status } = report(view({ replicas: 3, minReadySeconds: 10 }, some));
    expect(status).toMatchObject({
      replicas: 4,
      readyReplicas: 3,
      availableReplicas: 2,
      retiringReplicas: 1,
      deletingReplicas: 1,
      observedGeneration: 3,
      selector: 'kubenode.io/machine-set=web-a',
    });
    expect(status.conditions?.every(({ observedGeneration }) => observedGeneration === 3)).toBe(true);
    expect(status).not.toHaveProperty('making');
    expect(status).not.toHaveProperty('createFailure');
    expect(status).not.toHaveProperty('keptReplicas');
    const bare = view({ replicas: 3 }, some);
    const { generation: _, ...metadata } = bare.set.metadata;
    expect(report({ ...bare, set: { ...bare.set, metadata } }).status).not.toHaveProperty('observedGeneration');
  });

  test('notes the names of machines that no list has shown yet', () => {
    expect(report(view({ replicas: 3 }, [], {}, ['x', 'y'])).status.making).toEqual(['x', 'y']);
    expect(report(view({ replicas: 3 }, [], {}, [])).status).not.toHaveProperty('making');
  });

  test('names what its machines still run of sets that are gone', () => {
    expect(reported(view({ replicas: 3 }, some), 'ComponentsLeft')).toBe('False NoneLeft: ');
    const text = '1 machine still runs hello 1.0.0, which no set owns';
    expect(reported(view({ replicas: 3 }, some, {}, undefined, text), 'ComponentsLeft')).toBe(`True NoSet: ${text}`);
  });

  test('reports whether enough are available, counting from when they are Ready', () => {
    expect(reported(view({ replicas: 3 }, some), 'Available')).toBe('True Enough: ');
    expect(reported(view({ replicas: 3, minReadySeconds: 10 }, some), 'Available')).toBe('False TooFew: 2 of 3 machines are available');
    expect(reported(view({ replicas: 3, minReadySeconds: 9 }, some), 'Available')).toBe('True Enough: ');
    const justReady = [machine('a', { readyFor: 0 })];
    expect(reported(view({ replicas: 1 }, justReady), 'Available')).toBe('True Enough: ');
    expect(reported(view({ replicas: 1, minReadySeconds: 1 }, justReady), 'Available')).toBe('False TooFew: 0 of 1 machines are available');
    const almost = [machine('a', { readyFor: 8.999 })];
    expect(reported(view({ replicas: 1, minReadySeconds: 9 }, almost), 'Available')).toBe('False TooFew: 0 of 1 machines are available');
  });

  test('names when it is reconciled again: as soon as the next is available, or has failed', () => {
    const again = (spec: Partial<MachineSet['spec']>, machines: Stored<Machine>[]): number | undefined =>
      report(view({ replicas: 3, ...spec }, machines)).again;
    expect(again({ minReadySeconds: 40 }, some)).toBe(10_000);
    expect(again({ minReadySeconds: 20 }, some)).toBe(11_000);
    expect(again({ minReadySeconds: 40, readyWithinSeconds: 60 }, [...some, machine('n', { newFor: 55 })])).toBe(5001);
    expect(again({}, some)).toBeUndefined();
    expect(again({ minReadySeconds: 30 }, [machine('a', { readyFor: 30 })])).toBeUndefined();
    expect(again({ minReadySeconds: 30 }, [machine('a', { readyFor: 29.999 })])).toBe(1);
  });
});

describe('how a set goes on', () => {
  const good = (count: number): Stored<Machine>[] => Array.from({ length: count }, (_, index) => machine(`m${index}`, { readyFor: 60 }));
  const deleting = machine('x', { deleting: true });
  const failed = (count: number): Stored<Machine>[] =>
    Array.from({ length: count }, (_, index) => machine(`f${count - index}`, { newFor: 2000 }));

  test.each<[string, MachineSetView, string]>([
    ['it is paused, and other things are wrong', view({ paused: true, replicas: 9 }, good(3)), 'False Paused: spec.paused'],
    ['it has what it wants', view({ replicas: 3 }, good(3)), 'False Complete: '],
    ['it has what it wants, and some are still being deleted', view({ replicas: 3 }, [...good(3), deleting]), 'False Complete: '],
    ['it has too few', view({ replicas: 4 }, good(3)), 'True ScalingUp: to 4'],
    ['it has too few, and one is being deleted', view({ replicas: 5 }, [...good(3), deleting]), 'True ScalingUp: to 5'],
    [
      'it waits for slots alone',
      view({ replicas: 4 }, [...good(3), deleting]),
      'True WaitingForDeletion: machines that are being deleted keep their slots',
    ],
    [
      'too many failed, also while some are deleted',
      view({ replicas: 4 }, [...failed(3), deleting]),
      'False TooManyFailed: f1, f2, f3 never were Ready; no more are made until they are deleted or spec.maxFailed allows it',
    ],
    ['it makes no more at once', view({ replicas: 4, maxInFlight: 0 }, good(3)), 'True ScalingUp: to 4'],
    [
      'it makes no more at once, and one is being deleted',
      view({ replicas: 9, maxInFlight: 0 }, [...good(3), deleting]),
      'True ScalingUp: to 9',
    ],
    [
      'it has too many',
      view({ replicas: 1 }, [...good(2), machine('k', { marked: true, readyFor: 9 })]),
      'True ScalingDown: to 1; 1 machines are marked to go',
    ],
    [
      'it has too many, and some of them may go',
      view({ replicas: 0 }, [...good(1), machine('k', { hold: true })]),
      'True ScalingDown: to 0; 0 machines are marked to go',
    ],
    [
      'it has too many that cannot go',
      view({ replicas: 1 }, [machine('j', { hold: true }), machine('k', { hold: true })]),
      'False ScaleDownBlocked: 1 of 1 machines too many cannot go now: held or paused: j, k',
    ],
    [
      'replicas is left out',
      view({}, good(2)),
      'False ReplicasLeftOut: keeps 2 machines until spec.replicas is set: kubectl scale, or spec.replicas in fleet/',
    ],
    [
      'too many failed',
      view({ replicas: 9 }, failed(3)),
      'False TooManyFailed: f1, f2, f3 never were Ready; no more are made until they are deleted or spec.maxFailed allows it',
    ],
    [
      'it has all, and too many failed',
      view({ replicas: 3 }, failed(3)),
      'False TooManyFailed: f1, f2, f3 never were Ready; no more are made until they are deleted or spec.maxFailed allows it',
    ],
    ['it has all, and some failed', view({ replicas: 2 }, failed(2)), 'False MachinesFailed: f1, f2 never were Ready; see the Machines'],
    [
      'many failed',
      view({ replicas: 6, maxFailed: 9 }, failed(6)),
      'False MachinesFailed: f1, f2, f3, f4, f5, … (6) never were Ready; see the Machines',
    ],
    [
      'five failed',
      view({ replicas: 5, maxFailed: 9 }, failed(5)),
      'False MachinesFailed: f1, f2, f3, f4, f5 never were Ready; see the Machines',
    ],
  ])('where %s', (_what, of, expected) => {
    expect(reported(of)).toBe(expected);
  });

  test('reports that it is paused in a condition of its own', () => {
    expect(reported(view({ paused: true }, []), 'Paused')).toBe('True Paused: spec.paused');
    expect(reported(view({}, []), 'Paused')).toBe('False NotPaused: ');
  });
});

describe('what the server refuses to make', () => {
  const refused = (message: string): CodedError => new CodedError('Invalid', message);
  const of = (status: MachineSet['status'] = {}, spec: Partial<MachineSet['spec']> = {}): MachineSetView =>
    view({ replicas: 2, ...spec }, [], status);
  const before = (observedGeneration: number, message = 'Invalid: as before', createFailure = 'Invalid'): MachineSet['status'] => ({
    createFailure,
    conditions: [{ type: 'Progressing', status: 'False', reason: 'CreateFailed', message, lastTransitionTime: at(-9), observedGeneration }],
  });

  test('is reported, with its code, and not at any length', () => {
    expect(reported(of(), 'Progressing', refused('no such label'))).toBe('False CreateFailed: Invalid: no such label');
    expect(reported(of(), 'Progressing', new Error('oops'))).toBe('False CreateFailed: Failed: oops');
    expect(report(of(), refused('x')).status.createFailure).toBe('Invalid');
    expect(report(of(), new Error('x')).status.createFailure).toBe('Failed');
    const { message } = report(of(), refused('x'.repeat(600))).status.conditions?.find(({ type }) => type === 'Progressing') ?? {};
    expect([message?.length, message?.slice(0, 10)]).toEqual([512, 'Invalid: x']);
  });

  test('is reported in the same words for as long as the set is the same and the reason is', () => {
    const now = (status: MachineSet['status']): string => reported(of(status), 'Progressing', refused('in other words'));
    expect(now(before(3))).toBe('False CreateFailed: Invalid: as before');
    expect(now(before(2))).toBe('False CreateFailed: Invalid: in other words');
    expect(now(before(3, 'Forbidden: x', 'Forbidden'))).toBe('False CreateFailed: Invalid: in other words');
    expect(now({ createFailure: 'Invalid' })).toBe('False CreateFailed: Invalid: in other words');
  });

  test('is nothing where the set is paused', () => {
    expect(reported(of({}, { paused: true }), 'Progressing', refused('x'))).toBe('False Paused: spec.paused');
    expect(report(of({}, { paused: true }), refused('x')).status).not.toHaveProperty('createFailure');
  });
});
