import { expect, it } from 'vitest';
import { clearingOf, healthOf } from './node-condition.ts';

it.each([
  ['Ready', 'True', 'Healthy'],
  ['KernelReady', 'False', 'Unhealthy'],
  ['KernelDeadlock', 'True', 'Unhealthy'],
  ['KernelDeadlock', 'False', 'Healthy'],
  ['SomethingNotReady', 'True', 'Unhealthy'],
  ['Ready', 'Unknown', 'Unknown'],
])('the polarity of %s makes %s %s', (type, status, health) => expect(healthOf(type, status)).toBe(health));

it('knows which conditions stay True until their detector restarts', () => {
  expect(['KernelDeadlock', 'KubeletUnhealthy', 'Ready', 'Ours'].map(clearingOf)).toEqual(['Latched', 'Probed', 'Probed', 'Unknown']);
});
