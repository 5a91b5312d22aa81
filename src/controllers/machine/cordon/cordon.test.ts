import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { cordonedFor, fencedFor, isCordoned, isCordonedFor, isFencedFor, ownerOf, uncordonedBy, wasDegraded } from './cordon.ts';
import { MANAGERS } from '../../../api/names.ts';
import { cordoned, node } from '../testing/objects.ts';

const unschedulable = () => node('a', { spec: { unschedulable: true } });

describe('C4: a cordon', () => {
  test('names its owner, and takes over any other of ours', () => {
    for (const before of [node(), cordoned('a', 'r0'), cordoned('a', 'Degraded')]) {
      const after = cordonedFor(before, 'r1');
      expect(after !== undefined && isCordonedFor(after, 'r1')).toBe(true);
      expect(after === undefined ? undefined : isCordoned(uncordonedBy(after, 'r1') ?? after)).toBe(false);
    }
    expect(cordonedFor(cordoned('a', 'r1'), 'r1')).toBeUndefined();
  });

  test('of another owner is not lifted', () => {
    expect(uncordonedBy(cordoned('a', 'r2'), 'r1')).toBeUndefined();
    expect(uncordonedBy(unschedulable(), 'r1')).toBeUndefined();
  });

  test('of a human stays when ours beside it goes', () => {
    const beside = cordonedFor(unschedulable(), 'r1');
    expect(beside === undefined ? undefined : ownerOf(beside)).toBe('r1');
    const after = beside === undefined ? undefined : uncordonedBy(beside, 'r1');
    expect(after).toEqual({ ...unschedulable(), metadata: { ...unschedulable().metadata, annotations: {} } });
  });

  test('of a human who lifted ours and set it again stays, by what the server notes of whose it is', () => {
    const ofManager = (manager: string, field: string) => ({
      manager,
      operation: 'Update' as const,
      apiVersion: 'v1',
      fieldsType: 'FieldsV1' as const,
      fieldsV1: { 'f:spec': { [field]: {} } },
    });
    const after = (...managedFields: ReturnType<typeof ofManager>[]) => {
      const ours = cordoned('a', 'r1');
      return uncordonedBy({ ...ours, metadata: { ...ours.metadata, managedFields } }, 'r1') ?? ours;
    };
    const [ours, another] = [ofManager(MANAGERS.machine, 'f:unschedulable'), ofManager('kubectl-cordon', 'f:unschedulable')];
    const annotates = ofManager(MANAGERS.machine, 'f:taints');
    expect([after(ours), after(), after(ours, another)].map(isCordoned)).toEqual([false, false, false]);
    expect([after(another), after(another, annotates), after(annotates)].map(isCordoned)).toEqual([true, true, true]);
    expect(ownerOf(after(another))).toBeUndefined();
  });

  test('of a human that the human lifted meanwhile does not come back', () => {
    const beside = cordonedFor(unschedulable(), 'r1');
    if (beside === undefined) throw new Error('no cordon');
    const lifted = { ...beside, spec: {} };
    const again = cordonedFor(lifted, 'r1');
    expect(again === undefined ? undefined : isCordoned(uncordonedBy(again, 'r1') ?? again)).toBe(false);
  });
});

describe('C4: a cordon that was taken over from Degraded', () => {
  const taken = cordonedFor(cordoned('a', 'Degraded'), 'r1');
  if (taken === undefined) throw new Error('no cordon');

  test('is remembered, also by the reservation after', () => {
    expect(wasDegraded(taken)).toBe(true);
    expect(wasDegraded(cordonedFor(taken, 'r2') ?? node())).toBe(true);
    expect(wasDegraded(cordonedFor(node(), 'r1') ?? node())).toBe(false);
  });
  test('is given back by a cancelled reservation where the node is not healed, and lifted where it is', () => {
    const back = fencedFor(taken, 'r1', true);
    expect(back === undefined ? undefined : [isCordonedFor(back, 'Degraded'), isFencedFor(back, 'r1')]).toEqual([true, true]);
    const lifted = fencedFor(taken, 'r1', false);
    expect(lifted === undefined ? undefined : [isCordoned(lifted), wasDegraded(lifted)]).toEqual([false, false]);
  });
  test('is forgotten when it is lifted', () => {
    expect(uncordonedBy(taken, 'r1')?.metadata.annotations).toEqual({});
  });
});

describe('D6: a fence', () => {
  test('is always a change of the Node, so that a late cordon loses', () => {
    for (const before of [node(), unschedulable(), cordoned('a', 'r1'), cordoned('a', 'Degraded')]) {
      const after = fencedFor(before, 'r1');
      expect(after === undefined ? undefined : isFencedFor(after, 'r1')).toBe(true);
      expect(after).not.toEqual(before);
      expect(after === undefined ? undefined : fencedFor(after, 'r1')).toBeUndefined();
    }
  });
  test('clears the cordon of its reservation and no other', () => {
    const owners = [cordoned('a', 'r1'), cordoned('a', 'r2'), cordoned('a', 'Degraded'), unschedulable()].map((before) => {
      const after = fencedFor(before, 'r1') ?? before;
      return [isCordoned(after), ownerOf(after)];
    });
    expect(owners).toEqual([
      [false, undefined],
      [true, 'r2'],
      [true, 'Degraded'],
      [true, undefined],
    ]);
  });
});

test("invariant 6: after any steps in any order, a human's cordon stays until a human lifts it", () => {
  const act = fc.record({ do: fc.constantFrom('cordon', 'uncordon', 'fence'), owner: fc.constantFrom('r1', 'r2', 'Degraded') });
  fc.assert(
    fc.property(fc.array(act, { maxLength: 12 }), (acts) => {
      let now = unschedulable();
      for (const { do: what, owner } of acts)
        now = (what === 'cordon' ? cordonedFor(now, owner) : what === 'fence' ? fencedFor(now, owner) : uncordonedBy(now, owner)) ?? now;
      expect(isCordoned(now)).toBe(true);
    }),
  );
});
