/** What a decision or a report is made of, as plain values: a node on which app 1.0.0 runs, healthy, checked a moment ago, with nothing to do. */
import type { Disruption } from '../../api/disruption.ts';
import type { Operation } from '../../api/machine.ts';
import { contentOf } from '../../api/machine/values.ts';
import { newProgress } from '../transaction/memory.ts';
import type { Manifest } from '../generation/manifest.ts';
import type { ObservedNode } from '../engine/observed.ts';
import type { Installed } from '../records/memory.ts';
import type { ComponentHealth } from '../upkeep/memory.ts';
import type { ComponentState, JournalState, Transaction } from '../records/state.ts';
import { fold } from '../records/state.ts';
import type { WantedState } from '../cell/wanted.ts';
import { manifestOf } from './manifest.ts';
import { entry } from './world.ts';

export const NOW = 1_000_000;
export const WALL = Date.UTC(2026, 10, 20);
export const LATER = new Date(WALL + 60_000).toISOString();

export function manifest(version: string, rest: Partial<Manifest> = {}): Manifest {
  return manifestOf({
    digest: `d${version}`,
    name: 'app',
    version,
    content: contentOf({ action: 'Install', version }),
    units: [{ name: 'app', exec: ['app'], environment: {}, stopTimeoutSeconds: 1, reload: 'None', hash: 'h' }],
    healthDeadlineSeconds: 60,
    ...rest,
  });
}

export function installed(version: string, revision: number, rest: Partial<Manifest> = {}): Installed {
  const made = manifest(version, rest);
  const { name, content, digest } = made;
  return {
    manifest: made,
    receipt: { machineUID: 'u', name, version, values: {}, labels: {}, content, revision, generation: digest, switchedAt: WALL },
  };
}

export function accepted(version: string, revision: number, rest: Partial<ComponentState> = {}): ComponentState {
  const action = rest.action ?? 'Install';
  const content = contentOf({ action, version });
  return { name: 'app', action, version, values: {}, labels: {}, revision, content, removed: false, driftRepairs: 0, repairs: [], ...rest };
}

export const empty = fold(undefined, { t: 'open', machineUID: 'u' });
export const state = (component: ComponentState, rest: Partial<JournalState> = {}): JournalState => ({
  ...empty,
  components: { [component.name]: component },
  ...rest,
});

export function machine(rest: Partial<WantedState> = {}): WantedState {
  return {
    uid: 'u',
    resourceVersion: '1',
    generation: 1,
    held: false,
    deleting: false,
    deletionPolicy: 'Delete',
    labels: {},
    components: [{ ...entry('app', '1.0.0', 1), values: {} }],
    operation: undefined,
    verified: {},
    reported: { components: [], operation: undefined, ready: undefined, leaving: false },
    ...rest,
  };
}

export const healthy: ComponentHealth = { state: 'Healthy', bootID: 'b', since: WALL, message: undefined };
export const unit = (rest: object = {}) =>
  new Map([['app', { name: 'app', running: true, invocation: 'i', hash: 'h', generation: 'd1.0.0', ...rest }]]);
export const justChecked = { findings: [], checkedMs: NOW, nextMs: NOW + 60_000, nextFullMs: NOW + 60_000 };

export function node(rest: Partial<ObservedNode> = {}): ObservedNode {
  return {
    nowMs: NOW,
    wallMs: WALL,
    serverMs: WALL,
    bootID: 'b',
    foreign: false,
    holdFile: false,
    wanted: machine(),
    state: state(accepted('1.0.0', 1)),
    installed: new Map([['app', installed('1.0.0', 1)]]),
    manifests: new Map([
      ['d1.0.0', manifest('1.0.0')],
      ['d1.1.0', manifest('1.1.0')],
    ]),
    prepared: new Map(),
    rebuilt: new Map(),
    units: unit(),
    starts: new Map(),
    health: new Map([['app', healthy]]),
    drift: new Map([['app', justChecked]]),
    progress: newProgress(),
    repairing: {
      probing: undefined,
      deadlineMs: undefined,
      notBeforeMs: 0,
      failures: 0,
      error: undefined,
      cleaning: undefined,
      percent: 100,
    },
    reread: undefined,
    rereadNotBeforeMs: 0,
    unknownToCell: false,
    leaveNotBeforeMs: 0,
    sweep: false,
    ...rest,
  };
}

/** 1.1.0 is wanted and ready; what it disrupts is reported. */
export function upgrade(minor: Disruption, rest: Partial<ObservedNode> = {}): ObservedNode {
  return node({
    wanted: machine({ components: [{ ...entry('app', '1.1.0', 2), values: {} }] }),
    state: state(accepted('1.1.0', 2)),
    prepared: new Map([['app', { status: 'ready', revision: 2, manifest: manifest('1.1.0', { disruption: { minor } }) }]]),
    ...rest,
  });
}

export const order = (rest: Partial<Operation> = {}): Operation => ({
  id: 'op',
  epoch: 1,
  kind: 'Change',
  components: [{ name: 'app', revision: 2 }],
  notAfter: LATER,
  ...rest,
});

export const tx = (rest: Partial<Transaction> = {}): Transaction => ({
  name: 'app',
  revision: 2,
  why: 'Change',
  class: 'Restart',
  from: 'd1.0.0',
  to: 'd1.1.0',
  touched: [],
  ...rest,
});
