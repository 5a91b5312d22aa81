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
