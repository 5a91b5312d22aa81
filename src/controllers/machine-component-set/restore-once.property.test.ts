/**
 * An agent that reports anything, under a Freeze or outside of every window, where only what is a Restore begins. The controllers of sets and of
 * the machine's entries run, and what the machine then asks for is ordered by the real guarded writes. The judge counts orders for each declaration.
 */
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { API_VERSION } from '../../api/kind.ts';
import type { ComponentStatus, Outcome } from '../../api/machine.ts';
import { contentOf, OUTCOMES } from '../../api/machine/values.ts';
import { MachineComponentSets } from '../../api/machine-component-set.ts';
import { endOf } from '../../api/machine/operation-end.ts';
import { gatesOf } from '../../defender/gates.ts';
import { rfc3339 } from '../../kube/clock.ts';
import { actOf } from '../machine/steps.ts';
import { askOf } from '../machine/reservation/ask.ts';
import { MAX_RESTORES } from '../machine/order/restores.ts';
import { facts, reservation } from '../machine/testing/objects.ts';
import { createWorld, OTHER } from './testing/world.ts';

const COMPONENTS = ['kubelet', OTHER];
const LANES = ['Restore', 'Forward'] as const;
const VERSIONS = ['1.0.0', '2.0.0', '3.0.0'];
const LIES = ['waits', 'drifts', 'healthy', 'failed', 'refused', 'ahead'] as const;
const ENDED: readonly Outcome[] = ['Succeeded', 'PermanentFailure', 'Superseded'];
const HOUR_MS = 3_600_000;
/** What stops all but a Restore. */
const STOPS = ['freeze', 'window'] as const;
const CLOSED = { name: 'leap', timeZone: 'UTC', schedule: '0 0 29 2 *', durationMinutes: 1 };

type Step =
  | { do: 'report'; component: number; lie: (typeof LIES)[number] }
  | { do: 'end'; outcome: Outcome }
  | { do: 'control' | 'later' | 'serve' | 'give up' }
  | { do: 'declare'; component: number; version: string; lane: (typeof LANES)[number]; again: boolean };

const component = fc.nat(1);
const steps = (outcomes: readonly Outcome[], gives: boolean): fc.Arbitrary<Step[]> => {
  const step: fc.Arbitrary<Step> = fc.oneof(
    {
      weight: 10,
      arbitrary: fc.record({ do: fc.constant('report' as const), component, lie: fc.constantFrom('waits' as const, 'waits', ...LIES) }),
    },
    { weight: 6, arbitrary: fc.record({ do: fc.constant('end' as const), outcome: fc.constantFrom(...outcomes) }) },
    { weight: 6, arbitrary: fc.record({ do: fc.constant('control' as const) }) },
    { weight: 8, arbitrary: fc.record({ do: fc.constant('serve' as const) }) },
    { weight: gives ? 1 : 0, arbitrary: fc.record({ do: fc.constant('give up' as const) }) },
    { weight: 3, arbitrary: fc.record({ do: fc.constant('later' as const) }) },
    {
      weight: 1,
      arbitrary: fc.record({
        do: fc.constant('declare' as const),
        component,
        version: fc.constantFrom(...VERSIONS),
        lane: fc.constantFrom(...LANES),
        again: fc.boolean(),
      }),
    },
  );
  return fc.array(step, { minLength: 40, maxLength: 120, size: 'max' });
};

type Seen = Record<'restores' | 'refused' | 'repeated' | 'declared', number>;

async function play(given: readonly Step[], stop: (typeof STOPS)[number], limit: number, seen: Seen): Promise<void> {
  const world = createWorld({ machines: 0 });
  const name = world.join({});
  let declared = 0;
  const declarations = new Map(COMPONENTS.map((each) => [each, 0]));
  /** By component, declaration and content: how often the machine was disrupted for it, and whether an end of it was seen. */
  const orders = new Map<string, { count: number; isOver: boolean }>();
  let last: string[] = [];
  let ids = 0;
  /** The declaration by which each entry became what it is; a higher number alone makes it nothing else. */
  const entries = new Map<string, { text: string; declaration: number }>();

  function declare(of: string, version: string, lane: (typeof LANES)[number], again = false): void {
    declarations.set(of, ++declared);
    const unitDigest = `${of}-${version}`;
    world.set(
      { componentName: of, version, unitDigest, lane: { unitDigest, lane }, ...(again ? { rolloutID: `try-${declared}` } : {}) },
      of,
    );
  }
  async function control(): Promise<void> {
    world.process.relist();
    await world.process.runMachine(name);
    for (const of of COMPONENTS) {
      world.process.relist();
      await world.process.runSet(of);
    }
    world.process.relist();
    for (const of of COMPONENTS) {
      const text = JSON.stringify({ ...world.component(name, of), revision: 0 });
      if (entries.get(of)?.text !== text) entries.set(of, { text, declaration: declarations.get(of) ?? 0 });
    }
  }
  function lieOf(of: string, lie: (typeof LIES)[number]): void {
    world.editMachine(name, ({ spec, status }) => {
      const entry = spec.components?.find((each) => each.name === of);
      if (entry === undefined || status === undefined) return;
      const { revision } = entry;
      const honest: ComponentStatus = {
        name: of,
        version: entry.version,
        content: '',
        revision,
        running: 0,
        state: 'Waiting',
        bootID: 'b',
      };
      const needs = { needs: 'Restart', needsFor: lie === 'drifts' ? 'Drift' : 'Change' } as const;
      const failed = { revision, reason: 'Lie', message: '', restored: true };
      const lies: Record<typeof lie, Partial<ComponentStatus>> = {
        waits: needs,
        drifts: needs,
        healthy: { state: 'Healthy', running: revision, content: contentOf(entry) },
        failed: { state: 'Healthy', failed },
        refused: { state: 'Healthy', refused: { revision, reason: 'Lie' } },
        ahead: { ...needs, revision: revision + 1 },
      };
      status.components = [...(status.components ?? []).filter((each) => each.name !== of), { ...honest, ...lies[lie] }];
    });
  }
  function noteEnd(): void {
    const { operation } = world.machine(name).spec;
    const outcome = endOf(world.machine(name))?.outcome;
    if (operation?.kind !== 'Change' || outcome === undefined || !ENDED.includes(outcome)) return;
    for (const key of last) orders.set(key, { count: 0, ...orders.get(key), isOver: true });
  }
  function serve(act: 'Order' | 'WriteCancelled'): void {
    const machine = world.machine(name);
    const order = machine.spec.operation;
    // The reservation of what runs is still there.
    if (order !== undefined && order.kind !== 'Cancelled' && endOf(machine) === undefined) return;
    const nowMs = world.clock.now();
    const sets = new Map(
      world.api.list(MachineComponentSets).map(({ metadata }) => [metadata.uid, { name: metadata.name, stopped: undefined }]),
    );
    const freezes = stop === 'freeze' ? [{ metadata: { name: 'f' }, spec: {} }] : [];
    const asked = facts({ nowMs, sets, freezes });
    const ask = askOf(machine, asked);
    if (ask.state !== 'Asks') return void (ask.state === 'Refused' && seen.refused++);
    const policies = [{ metadata: { name: 'p' }, spec: { limits: [], windows: stop === 'window' ? [CLOSED] : [] } }];
    if (gatesOf({ policies }, nowMs)({ ...ask.request }, undefined) !== undefined) return void seen.refused++;
    const { class: klass, kind, scopes, components = [] } = ask.request;
    expect(klass, 'only a Restore begins').toBe('Restore');
    noteEnd();
    last = components.map((each) => {
      const entry = world.component(name, each.name);
      if (entry === undefined) throw new Error(`${each.name} is asked for and not wanted`);
      const key = `${each.name} of declaration ${entries.get(each.name)?.declaration}: ${entry.version}`;
      const before = orders.get(key) ?? { count: 0, isOver: false };
      expect(before.isOver, `${key} was over`).toBe(false);
      expect(before.count, key).toBeLessThan(limit);
      if (before.count > 0) seen.repeated++;
      orders.set(key, { ...before, count: before.count + 1 });
      return key;
    });
    seen.restores++;
    const of = reservation({
      id: `r${++ids}`,
      machineUID: machine.metadata.uid,
      kind,
      class: klass,
      scopes,
      components,
      notAfter: rfc3339(nowMs + 1000),
    });
    const context = { epoch: 1, machine: { namespace: 'web', name }, node: name, facts: asked, newID: () => 'new' };
    const step =
      act === 'Order'
        ? ({ do: act, reservation: of, drained: true, why: '' } as const)
        : ({ do: act, reservation: of, cause: 'Expired', reason: '', why: '' } as const);
    const metadata = { name: 'cell', uid: 'l', resourceVersion: '1', creationTimestamp: rfc3339(nowMs) };
    const ledger = { apiVersion: API_VERSION, kind: 'DisruptionLedger', metadata, spec: {}, status: { epoch: 1, reservations: [of] } };
    const move = actOf(step, context)?.judge({ machine, ledger });
    if (move === undefined || !('write' in move) || move.write !== 'machine') throw new Error(JSON.stringify(move));
    const { operation } = move.object.spec;
    world.editMachine(name, ({ spec }) => void Object.assign(spec, { operation }));
  }
  async function happen(each: Step): Promise<void> {
    const of = 'component' in each ? (COMPONENTS[each.component] ?? '') : '';
    switch (each.do) {
      case 'report':
        return lieOf(of, each.lie);
      case 'end':
        return world.editMachine(name, ({ spec, status }) => {
          if (status !== undefined && spec.operation !== undefined)
            status.operation = { id: spec.operation.id, state: 'Done', outcome: each.outcome };
        });
      case 'control':
        return await control();
      case 'later':
        return world.advance(HOUR_MS);
      case 'serve':
        return serve('Order');
      case 'give up':
        return serve('WriteCancelled');
      case 'declare':
        seen.declared++;
        return declare(of, each.version, each.lane, each.again);
      default:
        each satisfies never;
    }
  }

  world.editMachine(name, (machine) => {
    const verified = COMPONENTS.flatMap((of) =>
      ['2.0.0', '1.0.0'].map((version) => ({
        name: of,
        version,
        revision: 0,
        setUID: 's',
        bootID: 'b',
        since: rfc3339(world.clock.now()),
      })),
    );
    const agent = { version: '1', apiLevel: 1, bootID: 'b', os: 'linux', arch: 'amd64' };
    machine.metadata.finalizers = ['kubenode.io/machine'];
    machine.status = { ...machine.status, agent, verified };
  });
  for (const of of COMPONENTS) {
    world.set({ componentName: of, batches: ['100%'], maxFailed: 3, soakSeconds: 1 }, of);
    declare(of, '1.0.0', 'Restore');
  }
  await control();
  for (const each of given) await happen(each);
}

const RUNS = process.env['KUBENODE_THOROUGH'] === '1' ? 400 : 40;

test.each(STOPS)(
  'B7: under a %s a lying agent is ordered once for each declared restore, with any report',
  { timeout: 300_000 },
  async (stop) => {
    const seen: Seen = { restores: 0, refused: 0, repeated: 0, declared: 0 };
    await fc.assert(
      fc.asyncProperty(steps(ENDED, false), async (given) => await play(given, stop, 1, seen)),
      { numRuns: RUNS },
    );
    expect(seen.restores).toBeGreaterThan(RUNS / 2);
    expect(seen.refused).toBeGreaterThan(RUNS / 2);
  },
);

test.each(STOPS)(
  'B7: under a %s what never ends is given up for ever after some tries, and what ended is over',
  { timeout: 300_000 },
  async (stop) => {
    const seen: Seen = { restores: 0, refused: 0, repeated: 0, declared: 0 };
    const outcomes = [...OUTCOMES, 'Cancelled' as const, 'TransientFailure' as const, 'Cancelled' as const];
    await fc.assert(
      fc.asyncProperty(steps(outcomes, true), async (given) => await play(given, stop, MAX_RESTORES, seen)),
      { numRuns: RUNS },
    );
    expect(seen.repeated).toBeGreaterThan(RUNS / 10);
  },
);
