import { expect, it } from 'vitest';
import { FACTS } from './facts.ts';
import { factNamed, paramsOf, patternsLike } from './named-fact.ts';

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

it('names patterns that begin alike', () => {
  expect(patternsLike('heartbeat.kublet')).toEqual(['heartbeat.kubelet', 'heartbeat.agent']);
  expect(patternsLike('nodes.kernel')).toContain('node.…');
});
