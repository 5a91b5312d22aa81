import { describe, expect, it } from 'vitest';
import type { HistoryEvent } from './history.ts';
import { RecordedMachine } from './recorded.ts';
import { history } from './testing.ts';

it('the clock of a node that is wrong is wrong in what its detectors write, from then on', () => {
  const events = [
    { at: 0, clockSkewSeconds: -3600, conditions: { Ours: 'True' as const } },
    { at: 60, conditions: { Theirs: 'True' as const } },
    { at: 120, clockSkewSeconds: 0, conditions: { Ours: 'False' as const } },
  ];
  const world = new RecordedMachine(history(events));
  const transitions = events.map((event) => {
    const nowMs = world.startMs + event.at * 1000;
    world.apply(event, nowMs);
    const [type] = Object.keys(event.conditions);
    const found = world.node(nowMs).status?.conditions?.find((each) => each.type === type);
    return (Date.parse(found?.lastTransitionTime ?? '') - nowMs) / 1000;
  });
  expect(transitions).toEqual([-3600, -3600, 0]);
});

it('a component of a history has what was reported of it, and no more', () => {
  const world = new RecordedMachine(history([{ at: 0 }]));
  world.apply(
    { at: 0, components: { versioned: { version: '1' }, standing: { state: 'Healthy' }, wanted: { wanted: '2' } } },
    world.startMs,
  );
  const { spec, status } = world.machine();
  expect(status?.components?.map(({ name, version, state }) => ({ name, version, state }))).toMatchObject([
    { name: 'versioned', version: '1', state: 'Healthy' },
    { name: 'standing', version: '', state: 'Healthy' },
  ]);
  expect(spec.components?.map(({ name, version }) => ({ name, version }))).toEqual([{ name: 'wanted', version: '2' }]);
});

describe('the machine of a history', () => {
  const world = (...events: Omit<HistoryEvent, 'at'>[]) => {
    const found = new RecordedMachine(history([{ at: 0 }]));
    for (const [index, event] of events.entries()) found.apply({ at: index * 60, ...event }, found.startMs + index * 60_000);
    return found;
  };
  const nodeAt = (of: RecordedMachine, seconds = 0) => of.node(of.startMs + seconds * 1000);
  const transition = (of: RecordedMachine, type: string) => {
    const found = nodeAt(of).status?.conditions?.find((each) => each.type === type)?.lastTransitionTime;
    return (Date.parse(found ?? '') - of.startMs) / 1000;
  };

  it('begins well: Ready, under no pressure, running, and without any other report', () => {
    const statuses = nodeAt(world()).status?.conditions?.map(({ type, status }) => `${type} ${status}`);
    expect(statuses?.toSorted()).toEqual(['DiskPressure False', 'MemoryPressure False', 'PIDPressure False', 'Ready True']);
    expect(world().machine().status).toMatchObject({ phase: 'Running', conditions: [], components: [] });
  });

  it('keeps what an event does not set', () => {
    const found = world(
      {
        unschedulable: true,
        taints: ['t'],
        phase: 'Degraded',
        labels: { a: '1', b: '2' },
        annotations: { c: '3' },
        info: { kernelVersion: '6.1' },
      },
      { labels: { b: null }, info: { osImage: 'Debian' } },
    );
    expect(nodeAt(found)).toMatchObject({
      metadata: { labels: { a: '1' }, annotations: { c: '3' } },
      spec: { unschedulable: true, taints: [{ key: 't' }] },
      status: { nodeInfo: { kernelVersion: '6.1', osImage: 'Debian' } },
    });
    expect(nodeAt(found).metadata.labels).toEqual({ a: '1' });
    expect(found.machine().status?.phase).toBe('Degraded');
  });

  it('has a transition where a status or its reason becomes another, or the detector reports when it was', () => {
    const ours = (status: 'True' | 'False', reason?: string, transitionAt?: number): Omit<HistoryEvent, 'at'> => ({
      conditions: {
        Ours: { status, ...(reason === undefined ? {} : { reason }), ...(transitionAt === undefined ? {} : { transitionAt }) },
      },
    });
    expect(transition(world(ours('True'), ours('True')), 'Ours')).toBe(0);
    expect(transition(world(ours('True'), ours('False')), 'Ours')).toBe(60);
    expect(transition(world(ours('True'), ours('True', 'Other')), 'Ours')).toBe(60);
    expect(transition(world(ours('True'), ours('True', undefined, 17)), 'Ours')).toBe(17);
  });

  it('has one of every condition that its detector watches when that restarts, and of no other', () => {
    const found = world({ conditions: { Ours: 'False' } }, { detectors: 'Restarted' });
    expect([transition(found, 'Ours'), transition(found, 'Ready')]).toEqual([60, 0]);
  });

  it('loses a condition that is taken away, on its Node and on its Machine', () => {
    const both = (patch: 'True' | null): Omit<HistoryEvent, 'at'> => ({ conditions: { Ours: patch }, machineConditions: { Full: patch } });
    expect(world(both('True')).machine().status?.conditions).toMatchObject([{ type: 'Full', status: 'True', reason: 'FullIsTrue' }]);
    const found = world(both('True'), both(null));
    expect(nodeAt(found).status?.conditions?.map(({ type }) => type)).not.toContain('Ours');
    expect(found.machine().status?.conditions).toEqual([]);
  });

  it('dates conditions of its Machine by their status', () => {
    const full = (status: 'True' | 'False', reason: string): Omit<HistoryEvent, 'at'> => ({
      machineConditions: { Full: { status, reason } },
    });
    const since = (...events: Omit<HistoryEvent, 'at'>[]) => {
      const found = world(...events);
      return (Date.parse(found.machine().status?.conditions?.[0]?.lastTransitionTime ?? '') - found.startMs) / 1000;
    };
    expect(since(full('True', 'a'), full('True', 'b'))).toBe(0);
    expect(since(full('True', 'a'), full('False', 'a'))).toBe(60);
  });

  it('has heartbeats of its own clock, and none of a component that does not report', () => {
    const found = world({ conditions: { Ours: 'True' }, clockSkewSeconds: 5 }, { kubelet: 'Stale' }, { kubelet: 'Stale' });
    const beats = nodeAt(found, 300).status?.conditions?.map(({ type, lastHeartbeatTime }) => [
      type,
      (Date.parse(lastHeartbeatTime ?? '') - found.startMs) / 1000,
    ]);
    expect(Object.fromEntries(beats ?? [])).toMatchObject({ Ours: 305, Ready: 65 });
    const nowMs = found.startMs + 300_000;
    expect(found.freshUntilMs('kubelet', nowMs)).toBe(found.startMs + 100_000);
    expect(found.freshUntilMs('agent', nowMs)).toBeGreaterThan(nowMs);
  });

  it('is in another boot, or has another Node, only where the history records it', () => {
    const ids = (of: RecordedMachine) => [of.machine().status?.agent?.bootID, nodeAt(of).metadata.uid];
    expect(ids(world({ boot: false, nodeReplaced: false }))).toEqual(['boot-1', 'node-uid-1']);
    expect(ids(world({ boot: true }, { nodeReplaced: true }))).toEqual(['boot-2', 'node-uid-2']);
  });
});
