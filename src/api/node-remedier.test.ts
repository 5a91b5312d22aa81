import { expect, it } from 'vitest';
import { API_VERSION } from './kind.ts';
import { NodeRemediers } from './node-remedier.ts';
import { ACTION_ARGS, ACTION_TRAITS, ACTIONS, fullRung, strengthOf } from './node-remedier/values.ts';

const rule = (spec: object) => ({
  apiVersion: API_VERSION,
  kind: 'NodeRemedier',
  metadata: { name: 'r' },
  spec: {
    when: { all: [{ fact: 'machine.phase', operator: 'equal', value: 'Running' }] },
    holdsForSeconds: 0,
    ladder: [{ action: 'Human' }],
    healedWhen: { condition: 'Ready', is: 'True', forSeconds: 1 },
    ...spec,
  },
});

it('keeps conditions as they are, and names the path of what its schema refuses', () => {
  expect(NodeRemediers.validate(rule({ when: { all: [{ any: [] }] } }))).toEqual([]);
  expect(NodeRemediers.validate(rule({ ladder: [{ action: 'Restart' }] }))[0]).toMatchObject({ path: 'spec.ladder[0].action' });
  expect(NodeRemediers.validate(rule({ ladder: [{ action: 'Reboot', timeoutSeconds: 0 }] }))).toEqual([
    { path: 'spec.ladder[0].timeoutSeconds', message: 'must be >= 1' },
  ]);
  expect(NodeRemediers.validate(rule({ healedWhen: { condition: 'Ready', is: 'Unknown', forSeconds: 1 } }))[0]?.path).toBe(
    'spec.healedWhen.is',
  );
  expect(NodeRemediers.validate(rule({ holdsFor: 3 }))).toEqual([{ path: 'spec.holdsFor', message: 'unknown field', code: 'Unknown' }]);
});

it('names for every action what it does, what it takes and how strong it is', () => {
  expect(Object.keys(ACTION_TRAITS).sort()).toEqual([...ACTIONS].sort());
  expect(Object.keys(ACTION_ARGS).sort()).toEqual([...ACTIONS].sort());
  expect(strengthOf('Replace')).toBeGreaterThan(strengthOf('Reboot'));
  expect(strengthOf('Reboot')).toBeGreaterThan(strengthOf('RestartComponent'));
  expect(fullRung({ action: 'Reboot' })).toEqual({ action: 'Reboot', attempts: 1, timeoutSeconds: 600, cooldownSeconds: 0 });
});
