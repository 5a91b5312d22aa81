import { describe, expect, test } from 'vitest';
import { availabilityOf } from './counted.ts';
import { claimOf } from './claim.ts';
import { cordoned, machine, node } from '../testing/objects.ts';

const fresh = machine({ status: {} });
const unclaimed = { ...fresh, status: {} };

describe('a Node is claimed', () => {
  test('by name and providerID', () => {
    expect(claimOf(unclaimed, 'fake://a', node()).state).toBe('Claimed');
    expect(claimOf(unclaimed, 'fake://other', node()).state).toBe('Foreign');
    expect(claimOf(unclaimed, undefined, node()).state).toBe('Foreign');
    expect(claimOf(unclaimed, 'fake://a', undefined).state).toBe('None');
  });

  test('by UID from then on; one that was deleted is lost', () => {
    expect(claimOf(machine(), 'fake://a', node()).state).toBe('Claimed');
    expect(claimOf(machine(), 'fake://other', node()).state).toBe('Claimed');
    expect(claimOf(machine(), 'fake://a', undefined).state).toBe('Lost');
  });

  test('when it registers again after it was deleted: by the proof of the first time, and by nothing less', () => {
    const again = (providerID?: string) => {
      const other = node('a', { spec: providerID === undefined ? {} : { providerID } });
      return { ...other, metadata: { ...other.metadata, uid: 'another' } };
    };
    expect(claimOf(machine(), 'fake://a', again())).toMatchObject({ state: 'Claimed', node: { metadata: { uid: 'another' } } });
    for (const foreign of [again('fake://other'), again('')]) {
      expect(claimOf(machine(), 'fake://a', foreign)).toMatchObject({ state: 'Lost', message: expect.stringContaining('has its name') });
      expect(claimOf(machine(), undefined, foreign).state).toBe('Lost');
    }
    expect(claimOf(machine(), undefined, again()).state).toBe('Lost');
  });
});

describe('D7: a machine is unavailable', () => {
  const of = (object = node(), kubeletAnswers = true) => availabilityOf({ state: 'Claimed', node: object }, kubeletAnswers);
  test.each([
    ['not while its Node is Ready and schedulable', of(), false, false],
    ['when its Node is not Ready', of(node('a', { ready: false })), true, true],
    ['when its Node is Ready and its kubelet is stale (invariant 7)', of(node(), false), true, true],
    ['when a reservation cordons it, for as long as that takes', of(cordoned('a', 'r1')), true, false],
    ['when it is Degraded, until it is repaired', of(cordoned('a', 'Degraded')), true, true],
    ['when another client made it unschedulable', of(node('a', { spec: { unschedulable: true } })), true, true],
    ['when it has no Node', availabilityOf({ state: 'None' }, true), true, true],
  ])('%s', (_, found, unavailable, persistently) => {
    expect(found).toEqual({ unavailable, persistently });
  });
});
