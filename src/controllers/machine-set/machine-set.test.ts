import { describe, expect, it } from 'vitest';
import { API_VERSION } from '../../api/kind.ts';
import { Machines, type Machine } from '../../api/machine.ts';
import { MachineSets } from '../../api/machine-set.ts';
import { ANNOTATIONS, LABELS } from '../../api/names.ts';
import type { Stored } from '../../api/wire.ts';
import { createSetWorld, type SetWorld } from './testing/world.ts';
import { chooseVictims } from './victims.ts';

const names = (world: SetWorld): string[] => world.alive().map((machine) => machine.metadata.name);

async function readyWorld(spec: Parameters<SetWorld['set']>[0]): Promise<SetWorld> {
  const world = createSetWorld();
  world.set({ maxInFlight: 100, maxRetiring: 100, ...spec });
  await world.settle();
  for (const name of names(world)) {
    world.advance(1000);
    world.ready(name, true);
  }
  await world.settle();
  return world;
}

describe('scaling up', () => {
  it('makes machines of the template, named by the set and five random characters, and owned by it', async () => {
    const world = createSetWorld();
    world.set({
      replicas: 2,
      provider: { name: 'fake', config: { size: 'small' } },
      template: {
        metadata: { labels: { tier: 'web' } },
        labels: { zone: 'h' },
        taints: [{ key: 'new', effect: 'NoSchedule' }],
        drainTimeoutSeconds: 5,
      },
    });
    await world.settle();
    expect(names(world)).toHaveLength(2);
    for (const machine of world.machines()) {
      expect(machine.metadata.name).toMatch(/^web-a-[bcdfghjklmnpqrstvwxz2456789]{5}$/);
      expect(machine.metadata.labels).toEqual({ tier: 'web', [LABELS.machineSet]: 'web-a' });
      expect(machine.metadata.ownerReferences).toMatchObject([{ kind: 'MachineSet', name: 'web-a', controller: true }]);
      expect(machine.spec).toEqual({
        provider: { name: 'fake', config: { size: 'small' } },
        labels: { zone: 'h' },
        taints: [{ key: 'new', effect: 'NoSchedule' }],
        drainTimeoutSeconds: 5,
      });
    }
  });

  it('E9: makes none where replicas was never set, and reports that', async () => {
    const world = createSetWorld();
    world.set({});
    await world.settle();
    expect(names(world)).toHaveLength(0);
    expect(world.condition('Progressing')).toBe('False/ReplicasLeftOut');
    expect(world.status().keptReplicas).toBe(0);
  });

  it('makes at most maxInFlight at once', async () => {
    const world = createSetWorld();
    world.set({ replicas: 5, maxInFlight: 2 });
    await world.settle();
    expect(names(world)).toHaveLength(2);
    expect(world.condition('Progressing')).toBe('True/ScalingUp');
    world.ready(names(world)[0] ?? '', true);
    await world.settle();
    expect(names(world)).toHaveLength(3);
  });

  it('spreads machines over the failure domains, evenly, and evens out what is not', async () => {
    const world = await readyWorld({ replicas: 5, failureDomains: ['h', 'i', 'j'] });
    const count = (): Record<string, number> => {
      const counts: Record<string, number> = {};
      for (const { spec } of world.alive()) counts[spec.failureDomain ?? ''] = (counts[spec.failureDomain ?? ''] ?? 0) + 1;
      return counts;
    };
    expect(count()).toEqual({ h: 2, i: 2, j: 1 });
    world.set({ failureDomains: ['k', 'h', 'i', 'j'], replicas: 8 });
    await world.settle();
    expect(count()).toEqual({ k: 2, h: 2, i: 2, j: 2 });
  });
});

describe('scaling down', () => {
  it('takes the marked first, then those that are not Ready, then the newest', async () => {
    const world = await readyWorld({ replicas: 0 });
    const made: string[] = [];
    for (const replicas of [1, 2, 3, 4, 5]) {
      world.set({ replicas });
      world.advance(1000);
      await world.settle();
      const name = names(world).find((each) => !made.includes(each)) ?? '';
      world.ready(name, true);
      made.push(name);
    }
    const [oldest = '', second = '', third = '', fourth = '', newest = ''] = made;
    world.edit(oldest, ({ metadata }) => void (metadata.annotations = { [ANNOTATIONS.deleteFirst]: '' }));
    world.ready(second, false);
    const left: string[][] = [];
    for (const replicas of [4, 3, 2]) {
      world.set({ replicas });
      await world.settle();
      left.push(names(world).toSorted());
    }
    expect(left).toEqual([[second, third, fourth, newest].toSorted(), [third, fourth, newest].toSorted(), [third, fourth].toSorted()]);
  });

  it('among equals takes from the failure domain that has the most, although the newest is elsewhere', () => {
    const machine = (name: string, failureDomain: string, second: number): Stored<Machine> => ({
      apiVersion: API_VERSION,
      kind: 'Machine',
      metadata: { name, namespace: 'web', uid: name, resourceVersion: '1', creationTimestamp: `2026-11-20T00:00:0${second}Z` },
      spec: { failureDomain },
    });
    const machines = [machine('a', 'h', 1), machine('b', 'h', 2), machine('c', 'h', 3), machine('d', 'i', 4), machine('e', 'i', 5)];
    expect(chooseVictims(machines, 3).map((each) => each.metadata.name)).toEqual(['c', 'e', 'b']);
  });
});

describe('case 8: own creates unseen', () => {
  it('never make an extra machine', async () => {
    const world = createSetWorld();
    world.set({ replicas: 3 });
    world.relist();
    for (let run = 0; run < 5; run++) await world.run();
    expect(names(world)).toHaveLength(3);
    world.deliver(1);
    await world.run();
    expect(names(world)).toHaveLength(3);
  });

  it('never make an extra machine when the answer to a create was lost, nor when the process died after it', async () => {
    for (const fault of ['loseAnswer', 'dieAfter'] as const) {
      const world = createSetWorld();
      world.set({ replicas: 3 });
      world.relist();
      world.faults = ['none', fault];
      await world.run();
      await world.settle();
      expect(names(world)).toHaveLength(3);
    }
  });
});

describe('case 9: scale down, then up, with the old view', () => {
  it('deletes nothing when the set has changed since it was read', async () => {
    const world = await readyWorld({ replicas: 3 });
    world.set({ replicas: 1 });
    world.relist();
    world.set({ replicas: 3 });
    await world.run();
    expect(names(world)).toHaveLength(3);
    expect(world.alive().some(({ spec }) => spec.retire !== undefined)).toBe(false);
  });

  it('a victim is bound by UID: its namesake lives', async () => {
    const world = await readyWorld({ replicas: 1 });
    const [name = ''] = names(world);
    world.set({ replicas: 0 });
    world.relist();
    const old = world.machines()[0];
    world.edit(name, ({ metadata }) => void delete metadata.finalizers);
    world.api.remove(Machines, { namespace: 'web', name });
    world.api.create(Machines, { apiVersion: 'kubenode.io/v1alpha1', kind: 'Machine', metadata: { namespace: 'web', name }, spec: {} });
    await world.run();
    expect(world.alive().map((machine) => machine.metadata.uid)).toHaveLength(1);
    expect(world.alive()[0]?.metadata.uid).not.toBe(old?.metadata.uid);
  });

  it('a second pass that does not see the first chooses no other machine', async () => {
    const world = await readyWorld({ replicas: 4 });
    world.set({ replicas: 3 });
    world.relist();
    await world.run();
    world.ready(names(world)[0] ?? '', false);
    for (let run = 0; run < 3; run++) await world.run();
    await world.settle();
    expect(names(world)).toHaveLength(3);
  });
});

describe('case 10: dying in the middle', () => {
  it.each([1, 2, 3, 4])('of deletions (at write %i) needs none of the deleted objects to finish', async (at) => {
    const world = await readyWorld({ replicas: 5 });
    world.set({ replicas: 2 });
    world.relist();
    world.faults = [...Array.from({ length: at - 1 }, () => 'none' as const), 'dieAfter'];
    await world.run();
    world.finishDeletions();
    await world.settle();
    world.finishDeletions();
    await world.settle();
    expect(names(world)).toHaveLength(2);
    expect(world.status().replicas).toBe(2);
  });
});

describe('case 11: what is read stale', () => {
  it('does not put the status back', async () => {
    const world = await readyWorld({ replicas: 2 });
    const { observedGeneration } = world.status();
    world.set({ replicas: 3 });
    await world.settle();
    const before = world.status();
    world.set({ minReadySeconds: 1 });
    await world.run();
    expect(world.status()).toEqual(before);
    expect(before.observedGeneration).toBe((observedGeneration ?? 0) + 1);
  });
});

describe('case 11: what is written from old reads', () => {
  it('loses against what a newer leader wrote', async () => {
    const world = await readyWorld({ replicas: 2 });
    world.relist();
    world.ready(names(world)[0] ?? '', false);
    world.api.edit(
      MachineSets,
      { namespace: 'web', name: 'web-a' },
      (set) => void (set.status = { ...set.status, observedGeneration: 99 }),
    );
    const newer = world.status();
    world.deliver(1);
    await world.run();
    expect(world.status()).toEqual(newer);
    await world.settle();
    expect(world.status()).toMatchObject({ readyReplicas: 1, observedGeneration: 2 });
  });
});

describe('case 12: the template', () => {
  it('a label that is removed from it disappears from the machines, and foreign labels stay', async () => {
    const world = await readyWorld({ replicas: 2, template: { metadata: { labels: { a: '1', b: '1' } }, labels: { x: '1', y: '1' } } });
    for (const name of names(world)) {
      world.edit(name, (machine) => {
        machine.metadata.labels = { ...machine.metadata.labels, foreign: 'yes' };
        machine.spec.labels = { ...machine.spec.labels, foreign: 'yes' };
      });
    }
    world.set({ template: { metadata: { labels: { b: '2' } }, labels: { y: '1' }, operationTimeoutSeconds: 7 } });
    await world.settle();
    for (const machine of world.machines()) {
      expect(machine.metadata.labels).toEqual({ b: '2', foreign: 'yes', [LABELS.machineSet]: 'web-a' });
      expect(machine.spec).toEqual({ provider: { name: 'fake' }, labels: { y: '1', foreign: 'yes' }, operationTimeoutSeconds: 7 });
    }
  });

  it('what others write stays: components, operation, hold', async () => {
    const world = await readyWorld({ replicas: 1, template: { labels: { a: '1' } } });
    const [name = ''] = names(world);
    world.edit(name, (machine) => void (machine.spec.hold = true));
    world.set({ template: { labels: { a: '2' } } });
    await world.settle();
    expect(world.machines()[0]?.spec).toMatchObject({ hold: true, labels: { a: '2' } });
  });

  it('what a machine was made with is not changed: provider and failure domain', async () => {
    const world = await readyWorld({ replicas: 1, failureDomains: ['h'] });
    world.set({ provider: { name: 'fake', config: { size: 'large' } }, failureDomains: ['i'], template: { labels: { a: '1' } } });
    await world.settle();
    expect(world.machines()[0]?.spec).toEqual({ provider: { name: 'fake' }, failureDomain: 'h', labels: { a: '1' } });
  });

  it('is not written to machines that have it: an idle set costs no request', async () => {
    const world = await readyWorld({ replicas: 3, template: { labels: { a: '1' } } });
    const { writes, version } = world.api;
    for (let run = 0; run < 5; run++) await world.run();
    expect([world.api.writes, world.api.version]).toEqual([writes, version]);
  });

  it('does not make a machine again that has gone since it was seen', async () => {
    const world = await readyWorld({ replicas: 2 });
    const [name = ''] = names(world);
    world.set({ template: { labels: { a: '1' } } });
    world.relist();
    world.edit(name, ({ metadata }) => void delete metadata.finalizers);
    world.api.remove(Machines, { namespace: 'web', name });
    await world.run();
    expect(names(world)).not.toContain(name);
  });
});

describe('case 13: replacement', () => {
  it('never exceeds replicas while machines that come up broken are replaced again and again', async () => {
    const world = await readyWorld({ replicas: 3 });
    for (let round = 0; round < 10; round++) {
      const [name = ''] = names(world);
      world.edit(name, ({ metadata }) => void (metadata.finalizers = ['kubenode.io/machine']));
      world.api.remove(Machines, { namespace: 'web', name });
      await world.settle();
      expect(world.machines().length).toBeLessThanOrEqual(3);
      if (round % 3 === 2) world.finishDeletions();
      await world.settle();
      expect(world.machines().length).toBeLessThanOrEqual(3);
    }
    world.finishDeletions();
    await world.settle();
    expect(names(world)).toHaveLength(3);
  });

  it('reports that it waits for a deletion', async () => {
    const world = await readyWorld({ replicas: 2 });
    world.api.remove(Machines, { namespace: 'web', name: names(world)[0] ?? '' });
    await world.settle();
    expect(world.condition('Progressing')).toBe('True/WaitingForDeletion');
  });
});

describe('the status', () => {
  it('has the counters, and the selector that the scale subresource gives to autoscalers', async () => {
    const world = await readyWorld({ replicas: 3, minReadySeconds: 10 });
    world.ready(names(world)[0] ?? '', false);
    await world.settle();
    expect(world.status()).toMatchObject({ replicas: 3, readyReplicas: 2, selector: 'kubenode.io/machine-set=web-a' });
    world.advance(60_000);
    await world.settle();
    expect(world.status()).toMatchObject({ readyReplicas: 2, availableReplicas: 2 });
    expect(world.condition('Available')).toBe('False/TooFew');
    world.ready(names(world)[0] ?? '', true);
    await world.settle();
    expect(world.status()).toMatchObject({ readyReplicas: 3, availableReplicas: 2 });
    world.advance(10_000);
    await world.settle();
    expect(world.status().availableReplicas).toBe(3);
    expect(world.condition('Available')).toBe('True/Enough');
  });

  it('paused: makes, deletes and changes nothing, and still counts', async () => {
    const world = await readyWorld({ replicas: 2 });
    world.set({ paused: true, replicas: 5, template: { labels: { a: '1' } } });
    world.ready(names(world)[0] ?? '', false);
    await world.settle();
    expect(names(world)).toHaveLength(2);
    expect(world.machines()[0]?.spec.labels).toBeUndefined();
    expect(world.condition('Paused')).toBe('True/Paused');
    expect(world.status().readyReplicas).toBe(1);
    world.set({ replicas: 1 });
    await world.settle();
    expect(names(world)).toHaveLength(2);
  });
});
