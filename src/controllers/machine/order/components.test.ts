import { describe, expect, test } from 'vitest';
import type { Machine } from '../../../api/machine.ts';
import { degradedBy, failedComponents, isRecorded } from './components.ts';
import { at, entry, machine, operation, VERIFIED_OLD, waiting } from '../testing/objects.ts';

const failed = (change: object = {}) => ({ revision: 2, reason: 'ProbeFailed', message: '', restored: true, ...change });

describe('A5: a node is Degraded', () => {
  test('not while what ran before runs again and was once verified', () => {
    const back = machine({ components: [waiting({ state: 'Failed', failed: failed() })] });
    expect(degradedBy(back)).toEqual([]);
    expect(failedComponents(back)).toEqual(['kubelet']);
  });

  test('when what ran before does not run', () => {
    expect(degradedBy(machine({ components: [waiting({ state: 'Failed', failed: failed({ restored: false }) })] }))).toHaveLength(1);
  });

  test('when nothing was ever verified there', () => {
    expect(degradedBy(machine({ components: [waiting({ failed: failed() })], status: { verified: [] } }))[0]).toContain('ever verified');
  });

  test('when what failed is the content last verified there', () => {
    const entries = [entry({ version: '1.0.0' })];
    expect(degradedBy(machine({ entries, components: [waiting({ state: 'Unhealthy', running: 2, failed: failed() })] }))[0]).toContain(
      'last verified',
    );
    // An older verified content may fail without that: there is a newer one to go back to.
    const verified = [{ ...VERIFIED_OLD, version: '1.5.0' }, VERIFIED_OLD];
    expect(degradedBy(machine({ entries, components: [waiting({ failed: failed() })], status: { verified } }))).toEqual([]);
  });

  test('C7: when its operation failed and the agent reported no cause, until something is healthy', () => {
    const status = { operation: { id: 'r1', state: 'Done' as const, outcome: 'PermanentFailure' as const } };
    expect(degradedBy(machine({ spec: { operation: operation() }, status }))[0]).toContain('reported no cause');
    expect(
      degradedBy(machine({ spec: { operation: operation() }, status, components: [waiting({ state: 'Healthy', running: 2 })] })),
    ).toEqual([]);
  });

  test('no longer once a later revision runs there', () => {
    const over = machine({ components: [waiting({ state: 'Healthy', revision: 3, running: 3, failed: failed({ restored: false }) })] });
    expect([degradedBy(over), failedComponents(over)]).toEqual([[], []]);
  });
});

describe('C3: the outcome of a failed change is recorded', () => {
  const exists = (): boolean => true;
  const failing = (change: object) => machine({ entries: [entry(change)], components: [waiting({ state: 'Failed', failed: failed() })] });
  test.each([
    ['not by an entry that is still the same', {}, false],
    ['not by a mark of an earlier revision of the set', { failed: { setRevision: 1, attempt: 1, reason: 'x' } }, false],
    ['not by a mark of an earlier attempt', { attempt: 2, failed: { setRevision: 2, attempt: 1, reason: 'x' } }, false],
    ['by a mark of this attempt', { failed: { setRevision: 2, attempt: 1, reason: 'x' } }, true],
    ['by a higher revision', { revision: 3 }, true],
  ])('%s', (_, change, recorded) => {
    expect(isRecorded(failing(change), operation(), exists)).toBe(recorded);
  });

  test('by no set where the entry or its set is gone', () => {
    expect(isRecorded(failing({}), operation(), () => false)).toBe(true);
    expect(isRecorded(machine({ entries: [], components: [waiting({ failed: failed() })] }), operation(), exists)).toBe(true);
  });

  test('of a machine that is being deleted by any record, and none is waited for that no set would write', () => {
    const going = (change: object, revision = 2) =>
      machine({
        metadata: { deletionTimestamp: at(-60) },
        entries: [entry(change)],
        components: [waiting({ state: 'Failed', failed: failed({ revision }) })],
      });
    const recorded = (of: Machine): boolean => isRecorded(of, operation(), exists);
    expect(recorded(going({}))).toBe(false);
    expect(recorded(going({ failed: { setRevision: 1, attempt: 1, reason: 'x' } }))).toBe(true);
    // The agent knows a revision that the API has forgotten: what is deleted is not written again above it.
    expect(recorded(going({}, 3))).toBe(true);
  });

  test('where nothing failed at or after what was ordered', () => {
    expect(isRecorded(machine({ components: [waiting({ failed: failed({ revision: 1 }) })] }), operation(), exists)).toBe(true);
    // docs/protocols.md#c6: a higher revision was taken under the same reservation, and failed.
    expect(
      isRecorded(
        machine({ entries: [entry({ revision: 3 })], components: [waiting({ failed: failed({ revision: 3 }) })] }),
        operation(),
        exists,
      ),
    ).toBe(false);
  });
});
