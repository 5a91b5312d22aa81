import { describe, expect, test } from 'vitest';
import type { EngineView } from '../engine/engine.ts';
import type { ObservedNode } from '../engine/observed.ts';
import { report } from './status.ts';
import {
  NOW,
  WALL,
  accepted,
  healthy,
  installed,
  justChecked,
  machine,
  manifest,
  node,
  order,
  state,
  tx,
  unit,
  upgrade,
} from '../testing/observed.ts';
import type { WantedState } from '../cell/wanted.ts';

/* What the agent reports of what it sees, as tables. The cell decides by it which node it drains, and people read it. */

const identity = { version: '1', apiLevel: 1, bootID: 'b', os: 'linux', arch: 'amd64' };
const statusOf = (observed: ObservedNode, wanted: WantedState = observed.wanted ?? machine()) =>
  report({ observed, trouble: undefined }, identity, wanted, WALL);
const app = (observed: ObservedNode, wanted?: WantedState) => statusOf(observed, wanted).components?.[0];

const view = { passed: false, broken: false, hopeless: false, message: 'probe x: no answer' };
const switching = (rest: Partial<ObservedNode>, transaction: Parameters<typeof tx>[0] = {}): ObservedNode =>
  node({ state: state(accepted('1.1.0', 2), { transaction: tx(transaction) }), ...rest });
const none = { installed: new Map(), units: new Map(), health: new Map(), drift: new Map() };
const failed = { revision: 2, reason: 'ProbesFailed', message: 'm', restored: false };
const finding = { kind: 'file' as const, path: '/x', what: 'is missing', repair: true };
const drifted = (repairs = 0): Partial<ObservedNode> => ({
  drift: new Map([['app', { ...justChecked, findings: [finding] }]]),
  state: state(accepted('1.0.0', 1, { repairs: Array.from({ length: repairs }, () => WALL - 1000) })),
});
const error = { reason: 'ENOSPC', message: 'no space' };
const after = (...stages: string[]) => new Set(stages) as ObservedNode['progress']['done'];

describe('the state of a component', () => {
  test.each<[string, ObservedNode, object]>([
    ['what runs is healthy', node(), { state: 'Healthy', message: undefined }],
    ['its health is not known yet', node({ health: new Map() }), { state: 'Probing' }],
    [
      'its probes fail',
      node({ health: new Map([['app', { ...healthy, state: 'Unhealthy', message: 'exit code 1' }]]) }),
      { state: 'Unhealthy', message: 'exit code 1' },
    ],
    [
      'its probes fail without words, and a file drifted',
      node({ ...drifted(), health: new Map([['app', { ...healthy, state: 'Unhealthy' }]]) }),
      { state: 'Unhealthy', message: 'drift: /x is missing' },
    ],
    ['a file drifted', node(drifted()), { state: 'Healthy', message: 'drift: /x is missing' }],
    ['a file drifted too often', node(drifted(6)), { message: 'drift (repaired too often within the hour): /x is missing' }],
    [
      'a file drifted that is only reported, after many repairs',
      node({ ...drifted(6), drift: new Map([['app', { ...justChecked, findings: [{ ...finding, repair: false }] }]]) }),
      { message: 'drift: /x is missing' },
    ],
    [
      'its generation is damaged',
      node({ rebuilt: new Map([['app', { status: 'working', revision: 1 }]]) }),
      { state: 'Healthy', message: 'its generation is damaged and is built again' },
    ],
    [
      'its generation is damaged, and cannot be built',
      node({ rebuilt: new Map([['app', { status: 'working', revision: 1, message: 'no answer' }]]) }),
      { message: 'its generation is damaged and is built again: no answer' },
    ],
    [
      'its generation was built again',
      node({ rebuilt: new Map([['app', { status: 'ready', revision: 1, manifest: manifest('1.0.0') }]]) }),
      { state: 'Healthy', message: undefined },
    ],

    // On the way to another
    ['files are written', switching({}), { state: 'Switching', message: undefined }],
    ['files cannot be written', switching({ progress: { ...node().progress, error } }), { state: 'Switching', message: 'no space' }],
    [
      'it is probed',
      switching({
        progress: { ...node().progress, done: after('writeFiles', 'switchLink', 'startUnits'), probing: { view, deadlineMs: NOW } },
      }),
      { state: 'Probing', message: 'probe x: no answer' },
    ],
    [
      'the probes passed',
      switching({ progress: { ...node().progress, done: after('writeFiles', 'switchLink', 'startUnits', 'probe') } }),
      { state: 'Switching' },
    ],
    [
      'it goes back',
      switching({ progress: { ...node().progress, error } }, { back: { reason: 'r', message: 'it broke' } }),
      { state: 'Restoring', message: 'it broke' },
    ],
    ['it is taken away', switching({}, { to: undefined as never }), { state: 'Removing', message: undefined }],
    [
      'it cannot be taken away',
      switching({ progress: { ...node().progress, error } }, { to: undefined as never }),
      { state: 'Removing', message: 'no space' },
    ],
    ['another component is on its way', switching({}, { name: 'other' }), { state: 'Fetching' }],
    [
      'it is restarted by a repair',
      node({
        state: state(accepted('1.0.0', 1), {
          operations: [
            {
              id: 'op',
              epoch: 1,
              kind: 'Repair',
              startedAt: WALL,
              components: [],
              class: 'Restart',
              task: { action: 'RestartComponent', component: 'app' },
              acting: { at: WALL },
            },
          ],
        }),
        repairing: { ...node().repairing, probing: view },
      }),
      { state: 'Probing', message: 'probe x: no answer' },
    ],

    // Before it is here
    [
      'it is fetched',
      upgrade('Restart', { ...none, prepared: new Map([['app', { status: 'working', revision: 2 }]]) }),
      { state: 'Fetching', message: undefined },
    ],
    [
      'it cannot be fetched for now',
      upgrade('Restart', {
        ...none,
        prepared: new Map([['app', { status: 'retry', revision: 2, atMs: NOW, failures: 1, message: 'no answer' }]]),
      }),
      { state: 'Fetching', message: 'no answer' },
    ],
    [
      'it can never be fetched, and that is not written down yet',
      upgrade('Restart', { ...none, prepared: new Map([['app', { status: 'failed', revision: 2, reason: 'r', message: 'm' }]]) }),
      { state: 'Fetching', message: undefined },
    ],
    ['it failed', node({ ...none, state: state(accepted('1.1.0', 2, { failed })) }), { state: 'Failed' }],
    [
      'it failed, what ran before is gone',
      node({ ...none, state: state(accepted('1.1.0', 2, { failed: { ...failed, restored: true } })) }),
      { state: 'Failed' },
    ],
    [
      'it failed, and nothing could be restored',
      node({ health: new Map(), state: state(accepted('1.1.0', 2, { failed })) }),
      { state: 'Failed' },
    ],
    ['it failed, and what runs is healthy again', node({ state: state(accepted('1.1.0', 2, { failed })) }), { state: 'Healthy' }],
    [
      'it failed, and what ran before runs',
      node({ health: new Map(), state: state(accepted('1.1.0', 2, { failed: { ...failed, restored: true } })) }),
      { state: 'Probing' },
    ],

    // Waiting
    ['an order is needed', upgrade('Restart'), { state: 'Waiting', needs: 'Restart', needsFor: 'Change', message: undefined }],
    [
      'an order is needed for a unit that drifted',
      node({ units: unit({ hash: 'other' }) }),
      { state: 'Waiting', needs: 'Restart', needsFor: 'Drift' },
    ],
    ['none is needed', upgrade('Reload'), { state: 'Waiting', needs: undefined, message: undefined }],
    [
      'none is needed, and the Machine is held',
      upgrade('Reload', { state: state(accepted('1.1.0', 2), { held: true }) }),
      { state: 'Waiting', needs: undefined, message: 'the Machine is held' },
    ],
    [
      'it requires what is not here',
      upgrade('None', {
        prepared: new Map([
          ['app', { status: 'ready', revision: 2, manifest: manifest('1.1.0', { requires: [{ componentName: 'base' }] }) }],
        ]),
      }),
      { state: 'Waiting', needs: undefined, message: 'it requires base, which is not installed' },
    ],

    // Gone
    [
      'it is to be removed, and was never here',
      node({ ...none, state: state(accepted('1.0.0', 2, { action: 'Remove' })) }),
      { state: 'Removing' },
    ],
    [
      'it was removed',
      node({ ...none, state: state(accepted('1.0.0', 2, { action: 'Remove', removed: true })) }),
      { state: 'Removed', running: 2 },
    ],
    [
      'the machine was cleaned up',
      node({ ...none, state: state(accepted('1.0.0', 1), { cleared: true }) }),
      { state: 'Removed', running: 0 },
    ],
    [
      'the machine was cleaned up, and it could not be taken away',
      node({ health: new Map(), state: state(accepted('1.0.0', 1, { failed }), { cleared: true }) }),
      { state: 'Failed' },
    ],
  ])('%s', (_what, observed, expected) => {
    const { state: is, message, needs, needsFor, running } = app(observed) ?? {};
    expect({ state: is, message, needs, needsFor, running }).toMatchObject(expected);
  });
});

describe('of what runs', () => {
  test('version, content, revision and times are of its receipt, boot and health of what was seen', () => {
    const before = installed('1.0.0', 1);
    const observed = node({
      installed: new Map([['app', { ...before, receipt: { ...before.receipt, previous: { version: '0.9.0', generation: 'd0' } } }]]),
      state: state(accepted('1.1.0', 2, { driftRepairs: 3 })),
      prepared: new Map([['app', { status: 'working', revision: 2 }]]),
    });
    expect(app(observed)).toMatchObject({
      name: 'app',
      version: '1.0.0',
      content: before.receipt.content,
      revision: 2,
      running: 1,
      previous: '0.9.0',
      bootID: 'b',
      switchedAt: '2026-11-20T00:00:00Z',
      healthySince: '2026-11-20T00:00:00Z',
      driftRepairs: 3,
    });
  });

  test('what there is nothing to report of is left out', () => {
    const observed = node({ ...none, state: state(accepted('1.0.0', 1)) });
    expect(Object.keys(app(observed) ?? {}).toSorted()).toEqual(['content', 'name', 'revision', 'running', 'state', 'version']);
    const unhealthy = node({ health: new Map([['app', { ...healthy, state: 'Unhealthy' as const }]]) });
    expect(app(unhealthy)?.healthySince).toBeUndefined();
  });

  test.each([
    ['the content that runs, as an earlier process reported', installed('1.0.0', 1).receipt.content, 'before'],
    ['other content', 'other', undefined],
  ])('until it was probed its boot is the boot of %s', (_what, content, expected) => {
    const reported = {
      ...machine().reported,
      components: [{ name: 'app', content, bootID: 'before' }],
    } as unknown as WantedState['reported'];
    expect(app(node({ health: new Map() }), machine({ reported }))?.bootID).toBe(expected);
  });

  test('components are reported in the order of their names', () => {
    const observed = node({
      state: { ...state(accepted('1.0.0', 1)), components: { web: { ...accepted('1.0.0', 1), name: 'web' }, app: accepted('1.0.0', 1) } },
    });
    expect(statusOf(observed).components?.map(({ name }) => name)).toEqual(['app', 'web']);
  });
});

describe('the operation', () => {
  const record = (id: string, rest: object = {}) => ({
    id,
    epoch: 1,
    kind: 'Change',
    startedAt: WALL,
    components: [],
    class: 'Restart' as const,
    ...rest,
  });
  const ended = { outcome: 'Succeeded' as const, finishedAt: WALL + 1000, message: 'done', bootID: 'b' };
  const operations = (...each: ReturnType<typeof record>[]) => node({ state: state(accepted('1.0.0', 1), { operations: each }) });

  test('that runs is reported, with any order', () => {
    const observed = operations(record('old', ended), record('running'), record('ordered', ended));
    expect(statusOf(observed, machine({ operation: order({ id: 'ordered' }) })).operation).toEqual({
      id: 'running',
      state: 'Running',
      startedAt: '2026-11-20T00:00:00Z',
    });
  });

  test('that is ordered is reported when none runs, with what came of it', () => {
    const observed = operations(record('ordered', ended), record('newer', ended));
    expect(statusOf(observed, machine({ operation: order({ id: 'ordered' }) })).operation).toEqual({
      id: 'ordered',
      state: 'Done',
      outcome: 'Succeeded',
      message: 'done',
      bootID: 'b',
      startedAt: '2026-11-20T00:00:00Z',
      finishedAt: '2026-11-20T00:00:01Z',
    });
  });

  test('that was the last is reported when another is ordered that is not known', () => {
    const observed = operations(record('first', ended), record('last', ended));
    expect(statusOf(observed, machine({ operation: order({ id: 'unknown' }) })).operation?.id).toBe('last');
    expect(statusOf(node()).operation).toBeUndefined();
  });
});

describe('the agent', () => {
  const ready = (each: EngineView, wanted = machine()) => report(each, identity, wanted, WALL).conditions?.[0];
  const seen = (rest: Partial<ObservedNode>): EngineView => ({ observed: node(rest), trouble: undefined });
  const reported = (status: string): WantedState =>
    machine({ reported: { ...machine().reported, ready: { type: 'AgentReady', status, lastTransitionTime: 'before' } as never } });

  test.each<[string, EngineView, object]>([
    ['works', seen({}), { status: 'True', reason: 'Working' }],
    ['is held', seen({ holdFile: true }), { status: 'True', reason: 'Held' }],
    ['has cleaned up', seen({ state: state(accepted('1.0.0', 1), { cleared: true }) }), { status: 'True', reason: 'Cleared' }],
    [
      'cannot work',
      { observed: undefined, trouble: { reason: 'DiskFailing', message: 'EIO' } },
      { status: 'False', reason: 'DiskFailing', message: 'nothing is changed: EIO' },
    ],
  ])('%s', (_what, each, expected) => {
    expect(ready(each)).toMatchObject(expected);
  });

  test('its condition keeps its time while its status is the same, and only then', () => {
    expect(ready(seen({}), reported('True'))?.lastTransitionTime).toBe('before');
    expect(ready(seen({}), reported('False'))?.lastTransitionTime).toBe('2026-11-20T00:00:00Z');
    expect(ready(seen({}))?.lastTransitionTime).toBe('2026-11-20T00:00:00Z');
  });

  test('that cannot see its node keeps what it reported', () => {
    const components = [{ name: 'app', state: 'Healthy' }];
    const operation = { id: 'op', state: 'Done' };
    const trouble = { reason: 'DiskFailing', message: 'EIO' };
    const before = { ...machine().reported, components, operation } as unknown as WantedState['reported'];
    const status = report({ observed: undefined, trouble }, identity, machine({ reported: before }), WALL);
    expect([status.components, status.operation]).toEqual([components, operation]);
    expect(Object.keys(report({ observed: undefined, trouble }, identity, machine(), WALL))).not.toContain('operation');
  });
});
