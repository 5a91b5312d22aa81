import { expect, test } from 'vitest';
import { rememberRefusedNodes } from './refused-nodes.ts';
import { machine, view } from '../testing/objects.ts';

test('C11: a Node that the server refused is written again after a while, or when the Machine wants something else; until then it is reported', () => {
  let now = 0;
  const refused = rememberRefusedNodes({ monotonic: () => now });
  const asks = view({ nodeDrift: true, machine: machine({ spec: { labels: { a: 'b' } } }) });
  expect(refused.judge('web/a', asks)).toBe(asks);
  refused.note('web/a', asks.machine, 'a is invalid');
  expect(refused.judge('web/a', asks)).toMatchObject({ nodeDrift: false, notOnNode: [{ reason: 'NodeRefused', message: 'a is invalid' }] });
  expect(refused.judge('web/b', asks)).toBe(asks);
  for (const other of [machine({ spec: { labels: { a: 'c' } } }), machine({ uid: 'another', spec: { labels: { a: 'b' } } })])
    expect(refused.judge('web/a', { ...asks, machine: other }).nodeDrift).toBe(true);
  // A pass that wrote nothing reports nothing new.
  refused.note('web/a', asks.machine, undefined);
  now = 599_999;
  expect(refused.judge('web/a', asks).nodeDrift).toBe(false);
  now = 600_000;
  expect(refused.judge('web/a', asks)).toBe(asks);
  refused.note('web/a', asks.machine, 'a is invalid');
  refused.forget('web/a');
  expect(refused.judge('web/a', asks)).toBe(asks);
});
