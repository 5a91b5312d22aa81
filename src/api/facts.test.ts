import { expect, it } from 'vitest';
import { clearingOf, factNamed, FACTS, healthOf, paramsOf, patternsLike } from './facts.ts';

it('knows each of its facts by name, with what the rule names in it', () => {
  for (const { id, pattern } of FACTS) {
    const name = pattern.replace('<scope>', 'rack').replace('<fact>', 'peers.rack.unhealthy').replace(/<\w+>/g, 'Some.thing/x-y');
    expect(factNamed(name)?.id, name).toBe(id);
  }
  expect(factNamed('condition.KernelDeadlock.status')).toMatchObject({ subjects: ['KernelDeadlock'], reads: 'condition.KernelDeadlock' });
  expect(factNamed('node.label.topology.kubernetes.io/zone')?.subjects).toEqual(['topology.kubernetes.io/zone']);
  expect(factNamed('peers.rack.condition.KernelDeadlock')).toMatchObject({ subjects: ['rack', 'KernelDeadlock'], reads: 'peers.rack' });
});

it.each(['condition.KernelDeadlock', 'condition..status', 'machine', 'node.kernal', 'peers.row.total', 'condition.A b.status', ''])(
  'does not know %j',
  (name) => expect(factNamed(name)).toBeUndefined(),
);

it('derives a hysteresis only from a number, and asks for the parameters of both', () => {
  const ref = factNamed('hysteresis.condition.KubeletUnhealthy.rises');
  expect(ref?.inner?.id).toBe('condition.rises');
  expect(ref === undefined ? [] : paramsOf(ref)).toEqual(['enter', 'leave', 'windowSeconds']);
  expect(factNamed('hysteresis.machine.phase')).toBeUndefined();
  expect(factNamed('hysteresis.hysteresis.peers.rack.unhealthy')).toBeUndefined();
});

it('says of each fact its type, its source and when it is missing', () => {
  for (const fact of FACTS) {
    expect(fact.source.length, fact.pattern).toBeGreaterThan(3);
    expect(fact.missingWhen.length, fact.pattern).toBeGreaterThan(3);
  }
  expect(new Set(FACTS.map(({ id }) => id)).size).toBe(FACTS.length);
  expect(patternsLike('heartbeat.kublet')).toEqual(['heartbeat.kubelet', 'heartbeat.agent']);
  expect(patternsLike('nodes.kernel')).toContain('node.…');
});

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
