import { expect, it } from 'vitest';
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

it('a component of a history has what was said of it, and nothing of what was not', () => {
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
