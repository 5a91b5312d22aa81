import { describe, expect, test } from 'vitest';
import type { Manifest } from '../generation/manifest.ts';
import type { ObservedNode } from '../engine/observed.ts';
import type { Installed } from '../records/memory.ts';
import type { ComponentHealth } from '../upkeep/memory.ts';
import { driftedUnits, pendingOf } from './pending.ts';
import { NOW, accepted, healthy, installed, manifest, node, state, unit, upgrade } from '../testing/observed.ts';

/* What is left to do of one component, as tables. */

const ready = (rest: Partial<Manifest>): ObservedNode['prepared'] =>
  new Map([['app', { status: 'ready', revision: 2, manifest: manifest('1.1.0', rest) }]]);
const file = (path: string) => ({ path, content: '', mode: 0o644, onDrift: 'Repair' as const });
const damaged = { ...installed('1.0.0', 1), manifest: undefined };
const failed = { revision: 2, reason: 'r', message: 'm', restored: true };

/** The upgrade, on a node that has another component. */
function beside(other: Installed | undefined, wants: Partial<Manifest>, health: ComponentHealth = healthy): ObservedNode {
  return upgrade('None', {
    prepared: ready(wants),
    installed: new Map([['app', installed('1.0.0', 1)], ...(other === undefined ? [] : [['web', other] as const])]),
    health: new Map([['web', health]]),
  });
}
const web = (rest: Partial<Manifest> = {}, version = '1.0.0'): Installed => installed(version, 1, { name: 'web', units: [], ...rest });

test.each<[string, ObservedNode, object]>([
  ['nothing', node(), { kind: 'nothing' }],
  ['of an unknown component', node({ state: { ...node().state, components: {} } }), { kind: 'nothing' }],
  ['after the machine was cleaned up', upgrade('None', { state: state(accepted('1.1.0', 2), { cleared: true }) }), { kind: 'nothing' }],
  ['the same content of a higher revision', node({ state: state(accepted('1.0.0', 3)) }), { kind: 'advance' }],
  ['a change', upgrade('Drain'), { kind: 'ready', why: 'Change', class: 'Drain' }],
  ['a change that failed', upgrade('Drain', { state: state(accepted('1.1.0', 2, { failed })) }), { kind: 'nothing' }],
  [
    'a change that is being made ready',
    upgrade('None', { prepared: new Map([['app', { status: 'working', revision: 2 }]]) }),
    { kind: 'preparing' },
  ],
  [
    'a change that could not be made ready for now',
    upgrade('None', { prepared: new Map([['app', { status: 'retry', revision: 2, atMs: NOW, failures: 1, message: '' }]]) }),
    { kind: 'preparing' },
  ],
  ['a change whose older revision is ready', upgrade('None', { state: state(accepted('1.2.0', 3)) }), { kind: 'preparing' }],
  [
    'a change that can never be made ready',
    upgrade('None', { prepared: new Map([['app', { status: 'failed', revision: 2, reason: 'r', message: 'm' }]]) }),
    { kind: 'refuse', reason: 'r', message: 'm' },
  ],
  [
    'a change of a damaged component',
    upgrade('None', { installed: new Map([['app', damaged]]) }),
    { kind: 'blocked', message: 'the generation that runs is damaged and is built again first' },
  ],
  ['a first install', upgrade('None', { installed: new Map(), units: new Map() }), { kind: 'ready', why: 'Change' }],
  ['a removal', node({ state: state(accepted('1.0.0', 2, { action: 'Remove' })) }), { kind: 'ready', why: 'Change', to: undefined }],
  [
    'a removal of a damaged component',
    node({ state: state(accepted('1.0.0', 2, { action: 'Remove' })), installed: new Map([['app', damaged]]) }),
    { kind: 'blocked', message: 'its generation is damaged and is built again first' },
  ],
  [
    'a removal of a component that was never here',
    node({ state: state(accepted('1.0.0', 2, { action: 'Remove' })), installed: new Map() }),
    { kind: 'absent' },
  ],
  [
    'a removal that was carried out',
    node({ state: state(accepted('1.0.0', 2, { action: 'Remove', removed: true })), installed: new Map() }),
    { kind: 'nothing' },
  ],

  ['a unit that drifted', node({ units: unit({ hash: 'other' }) }), { kind: 'ready', why: 'Drift', class: 'Restart' }],
  ['a unit that is down', node({ units: unit({ hash: 'other', running: false }) }), { kind: 'nothing' }],
  [
    'a unit that drifted, of a change that failed',
    node({ units: unit({ hash: 'other' }), state: state(accepted('1.1.0', 2, { failed })) }),
    { kind: 'ready', why: 'Drift' },
  ],
  [
    'a unit that a restart did not put right',
    node({ units: unit({ hash: 'other' }), state: state(accepted('1.0.0', 1, { driftFailed: 'd1.0.0' })) }),
    { kind: 'nothing' },
  ],
  [
    'a unit that a restart of another generation did not put right',
    node({ units: unit({ hash: 'other' }), state: state(accepted('1.0.0', 1, { driftFailed: 'd0.9.0' })) }),
    { kind: 'ready', why: 'Drift' },
  ],
  [
    'a unit of a generation that is damaged',
    node({ units: unit({ hash: 'other' }), installed: new Map([['app', damaged]]) }),
    { kind: 'nothing' },
  ],
])('what is left to do: %s', (_what, observed, expected) => {
  expect(pendingOf(observed, 'app')).toMatchObject(expected);
});

describe('two components', () => {
  test.each<[string, ObservedNode, string]>([
    ['a file', beside(web({ files: [file('/a'), file('/b')] }), { files: [file('/c'), file('/b')] }), '/b belongs to component web'],
    ['a unit', beside(web({ units: manifest('1.0.0').units }), {}), 'unit app belongs to component web'],
  ])('cannot own one and the same: %s', (_what, observed, message) => {
    expect(pendingOf(observed, 'app')).toEqual({ kind: 'blocked', message });
  });

  test.each<[string, ObservedNode]>([
    ['another file', beside(web({ files: [file('/a')] }), { files: [file('/b')] })],
    [
      'its own file',
      upgrade('None', {
        prepared: ready({ files: [file('/a')] }),
        installed: new Map([['app', installed('1.0.0', 1, { files: [file('/a')] })]]),
      }),
    ],
    ['what a damaged one may own', beside({ ...web(), manifest: undefined }, {})],
  ])('may own: %s', (_what, observed) => {
    expect(pendingOf(observed, 'app').kind).toBe('ready');
  });
});

describe('what a component requires', () => {
  const requires = (versionRange?: string): Partial<Manifest> => ({
    requires: [{ componentName: 'web', ...(versionRange === undefined ? {} : { versionRange }) }],
  });
  test.each<[string, ObservedNode, string]>([
    ['is not here', beside(undefined, requires()), 'it requires web, which is not installed'],
    ['is not here, of a version', beside(undefined, requires('>=1')), 'it requires web >=1, which is not installed'],
    ['is of another version', beside(web(), requires('>=2')), 'it requires web >=2; installed is 1.0.0'],
    ['is not healthy', beside(web(), requires(), { ...healthy, state: 'Unhealthy' }), 'it requires web, which is not healthy'],
    ['was not probed yet', { ...beside(web(), requires('>=1')), health: new Map() }, 'it requires web >=1, which is not healthy'],
  ])('%s', (_what, observed, message) => {
    expect(pendingOf(observed, 'app')).toEqual({ kind: 'blocked', message });
  });

  test.each<[string, ObservedNode]>([
    ['in any version', beside(web(), requires())],
    ['in a version of the range', beside(web(), requires('>=1 <2'))],
    ['in a version before a release of the range', beside(web({}, '1.2.0-rc.1'), requires('>=1 <2'))],
  ])('is here %s', (_what, observed) => {
    expect(pendingOf(observed, 'app').kind).toBe('ready');
  });

  test('is all of it', () => {
    const observed = beside(web(), { requires: [{ componentName: 'web' }, { componentName: 'gone' }] });
    expect(pendingOf(observed, 'app')).toMatchObject({ kind: 'blocked', message: 'it requires gone, which is not installed' });
  });
});

test('units drift that run with another definition, and no others', () => {
  const [first] = manifest('1.0.0').units;
  const units = ['same', 'other', 'down', 'gone'].map((name) => ({ ...first, name }) as Manifest['units'][number]);
  const status = (name: string, rest: object) =>
    [name, { name, running: true, invocation: 'i', hash: 'h', generation: 'd', ...rest }] as const;
  const observed = node({
    units: new Map([status('same', {}), status('other', { hash: 'x' }), status('down', { hash: 'x', running: false })]),
  });
  expect(driftedUnits(observed, manifest('1.0.0', { units }))).toEqual(['other']);
});
