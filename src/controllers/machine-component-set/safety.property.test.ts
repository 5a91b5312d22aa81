import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { ComponentEntry } from '../../api/machine.ts';
import { contentOf } from '../../api/machine/values.ts';
import { MachineComponentSets } from '../../api/machine-component-set.ts';
import { askOf } from '../machine/reservation/ask.ts';
import { facts } from '../machine/testing/objects.ts';
import { createWorld, OTHER, type SpecChange, type World } from './testing/world.ts';

/**
 * Sets that are widened and narrowed, machines that leave and are replaced, lanes that are declared and taken back, agents that lie, and a Freeze. The
 * judge knows what really ran on each node and what was really declared; of what the controllers keep it believes nothing.
 */
const MACHINES = 6;
const BATCHES = [1, '50%', '100%'];
const BAD = '2.0.0';
const THOROUGH = process.env['KUBENODE_THOROUGH'] === '1';
const RUNS = Number(process.env['RUNS'] ?? (THOROUGH ? 1000 : 60));

type Lie = 'none' | 'waits' | 'drifts' | 'failed';
type Step =
  | { do: 'round' | 'set' | 'join' | 'relist' | 'replaceFailed' }
  | { do: 'agent' | 'machine' | 'leave' | 'replace' | 'ready' | 'label'; index: number }
  | { do: 'lie'; index: number; lie: Lie }
  | { do: 'spec'; spec: SpecChange };

const index = fc.nat({ max: 9 });
const digest = fc.constantFrom('A', 'B', 'C');
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 12, arbitrary: fc.record({ do: fc.constant('round' as const) }) },
  { weight: 8, arbitrary: fc.record({ do: fc.constant('agent' as const), index }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constantFrom('machine' as const, 'ready', 'label'), index }) },
  { weight: 5, arbitrary: fc.record({ do: fc.constantFrom('set' as const, 'relist') }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constantFrom('leave' as const, 'replace'), index }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('join' as const) }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant('replaceFailed' as const) }) },
  {
    weight: 3,
    arbitrary: fc.record({ do: fc.constant('lie' as const), index, lie: fc.constantFrom<Lie>('none', 'waits', 'drifts', 'failed') }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant('spec' as const),
      spec: fc.oneof(
        fc.tuple(fc.constantFrom('1.0.0', BAD, '3.0.0'), digest).map(([version, unitDigest]) => ({ version, unitDigest })),
        fc.record({
          lane: fc.option(fc.record({ unitDigest: digest, lane: fc.constantFrom('Restore' as const, 'Forward' as const) }), {
            nil: undefined,
          }),
        }),
        fc.record({ selector: fc.constantFrom({ in: 'yes' }, undefined) }),
        fc.record({ rolloutID: fc.constantFrom('x', 'y') }),
      ),
    }),
  },
);

/** What an all-knowing observer knows of one machine. */
interface Truth {
  /** Contents that its agent really ran. */
  ran: Set<string>;
  /** Its agent reported, rightly or not, that this revision failed. */
  failed: Set<number>;
  isInUse: boolean;
}

function createJudge(world: World) {
  const truths = new Map<string, Truth>();
  /** Contents for which a Restore was declared while the set carried them. */
  const declared = new Set<string>();
  /** By content and try: machines in use that were ever given it forward. */
  const tried = new Map<string, Set<string>>();
  /** Those that left before the result was known. */
  const lost = new Map<string, Set<string>>();
  const before = new Map<string, ComponentEntry | undefined>();
  let spell = { key: '', count: 0 };
  let maxFailed = 1;

  const spec = () => world.api.find(MachineComponentSets, { name: 'kubelet' })?.spec;
  const truthOf = (name: string): Truth => {
    const found = truths.get(name) ?? { ran: new Set(), failed: new Set(), isInUse: false };
    truths.set(name, found);
    return found;
  };
  const stateOf = (name: string) => world.machine(name).status?.components?.find((each) => each.name === 'kubelet');

  function note(): void {
    const set = spec();
    const key = JSON.stringify([set?.version, set?.rolloutID]);
    if (key !== spell.key) spell = { key, count: spell.count + 1 };
    maxFailed = set?.maxFailed ?? 1;
    if (set?.lane !== undefined && set.lane.unitDigest === set.unitDigest && set.lane.lane === 'Restore')
      declared.add(contentOf({ action: 'Install', version: set.version }));
    for (const [name, agent] of world.agents) {
      const truth = truthOf(name);
      truth.isInUse = world.machine(name).status?.firstReadyAt !== undefined;
      if (agent.running !== undefined) truth.ran.add(contentOf({ action: 'Install', version: agent.running }));
      const failed = stateOf(name)?.failed;
      if (failed !== undefined) truth.failed.add(failed.revision);
      before.set(name, world.entry(name));
    }
  }

  return {
    note,
    leaves(name: string): void {
      const key = `${spell.count}`;
      const entry = world.entry(name);
      const isKnown = entry?.failed !== undefined || truthOf(name).failed.has(entry?.revision ?? 0);
      if (tried.get(key)?.has(name) === true && !isKnown) lost.set(key, (lost.get(key) ?? new Set()).add(name));
    },
    written(): void {
      const set = spec();
      for (const name of world.agents.keys()) {
        const [old, now] = [before.get(name), world.entry(name)];
        if (now === undefined || now.revision === old?.revision) continue;
        const content = contentOf(now);
        if (now.lane === 'Restore') {
          const truth = truthOf(name);
          expect(truth.ran.has(content), `${name} goes back to what it ran`).toBe(true);
          const isOwn = old !== undefined && now.failed !== undefined && truth.failed.has(old.revision);
          expect(isOwn || declared.has(content), `${name}: declared, or its own failure`).toBe(true);
        } else if (now.version === BAD && now.failed === undefined && set?.version === BAD && truthOf(name).isInUse) {
          const key = `${spell.count}`;
          const names = (tried.get(key) ?? new Set()).add(name);
          tried.set(key, names);
          // No machine ever proves it, so it never leaves its first batch of one.
          const many = names.size - (lost.get(key)?.size ?? 0);
          expect(many, `machines in use that were given ${BAD}: ${[...names].join(', ')}`).toBeLessThanOrEqual(maxFailed);
        }
      }
    },
    /** What every machine asks Defender for. */
    asked(): void {
      const sets = new Map(
        world.api.list(MachineComponentSets).map((set) => [set.metadata.uid, { name: set.metadata.name, stopped: undefined }] as const),
      );
      for (const name of world.agents.keys()) {
        const machine = world.machine(name);
        const ask = askOf(machine, facts({ nowMs: world.clock.now(), sets }));
        const frozen = askOf(machine, facts({ nowMs: world.clock.now(), sets, freezes: [{ metadata: { name: 'f' }, spec: {} }] }));
        if (frozen.state === 'Asks' && frozen.request.kind === 'Change')
          expect(frozen.request.class, `${name} passes a Freeze`).toBe('Restore');
        if (ask.state !== 'Asks' || ask.request.kind !== 'Change') continue;
        const classes = new Set((ask.request.components ?? []).map((each) => each.class));
        expect([...classes], `${name} asks for one class at a time`).toEqual([ask.request.class]);
        if (ask.request.class !== 'Restore') continue;
        for (const component of ask.components) {
          expect(component.name).toBe('kubelet');
          const entry = world.entry(name);
          if (entry === undefined) throw new Error(`${name} asks for nothing that is wanted`);
          expect(truthOf(name).ran.has(contentOf(entry)), `${name} restores what it ran`).toBe(true);
          expect(entry.failed !== undefined || declared.has(contentOf(entry)), `${name}: declared, or its own failure`).toBe(true);
          expect(stateOf(name)?.needsFor, `${name}: a repair of drift is no Restore`).not.toBe('Drift');
        }
      }
    },
  };
}

async function play(world: World, steps: readonly Step[]): Promise<void> {
  const judge = createJudge(world);
  const lies = new Map<string, Lie>();

  function agentStep(name: string): void {
    world.agentStep(name);
    const lie = lies.get(name) ?? 'none';
    if (lie === 'none') return;
    world.editMachine(name, ({ spec, status }) => {
      const all = (spec.components ?? []).map((entry) => {
        const old = status?.components?.find((each) => each.name === entry.name);
        const reported = { name: entry.name, version: '', content: '', running: 0, ...old, revision: entry.revision };
        if (lie !== 'failed')
          return {
            ...reported,
            state: 'Waiting' as const,
            needs: 'Restart' as const,
            needsFor: lie === 'drifts' ? ('Drift' as const) : ('Change' as const),
          };
        return { ...reported, state: 'Healthy' as const, failed: { revision: entry.revision, reason: 'Lie', message: '', restored: true } };
      });
      if (status !== undefined) status.components = all;
    });
  }
  async function run(what: () => Promise<void>): Promise<void> {
    judge.note();
    await what();
    judge.written();
    judge.asked();
  }

  for (const each of steps) {
    const names = [...world.agents.keys()];
    const broken = names.find((one) => world.entry(one)?.failed !== undefined);
    const name = 'index' in each ? (names[each.index % names.length] ?? '') : (broken ?? '');
    switch (each.do) {
      case 'round':
        world.advance(10_000);
        world.process.relist();
        for (const one of names) {
          agentStep(one);
          await run(() => world.process.runMachine(one));
        }
        world.process.relist();
        await run(() => world.process.runSet());
        await run(() => world.process.runSet(OTHER));
        break;
      case 'set':
        await run(() => world.process.runSet());
        break;
      case 'relist':
        world.process.relist();
        break;
      case 'join':
        world.join({ in: 'no' });
        break;
      case 'agent':
        agentStep(name);
        break;
      case 'machine':
        await run(() => world.process.runMachine(name));
        break;
      case 'ready':
        world.register(name);
        break;
      case 'label':
        world.editMachine(name, ({ metadata }) => void (metadata.labels = { in: metadata.labels?.['in'] === 'yes' ? 'no' : 'yes' }));
        break;
      case 'leave':
      case 'replace':
      case 'replaceFailed':
        if (names.length <= 2 || name === '') break;
        judge.note();
        judge.leaves(name);
        // It goes by a finalizer: what it reported is seen.
        world.editMachine(name, ({ metadata }) => {
          metadata.finalizers = ['kubenode.io/machine'];
          metadata.deletionTimestamp = new Date(world.clock.now()).toISOString();
        });
        world.process.relist();
        await run(() => world.process.runSet());
        world.editMachine(name, ({ metadata }) => void delete metadata.finalizers);
        world.leave(name);
        if (each.do !== 'leave') world.joinNew({ in: 'yes' });
        break;
      case 'lie':
        lies.set(name, each.lie);
        break;
      case 'spec':
        world.set(each.spec);
        break;
      default:
        each satisfies never;
    }
  }
}

describe('a set whose agents lie and whose members change', () => {
  it(
    'restores only what was declared or failed by itself, and tries bad content on maxFailed machines in use',
    { timeout: THOROUGH ? 1_800_000 : 300_000 },
    async () => {
      await fc.assert(
        fc.asyncProperty(fc.array(step, { minLength: 20, maxLength: 90 }), fc.integer({ min: 1, max: 2 }), async (steps, maxFailed) => {
          const world = createWorld({ machines: 0, fails: (_machine, entry) => entry.version === BAD });
          for (let count = 0; count < MACHINES; count++) world.join({ in: count < 3 ? 'yes' : 'no' });
          world.set({ version: '1.0.0', selector: { in: 'yes' }, batches: BATCHES, maxFailed, soakSeconds: 20, unitDigest: 'A' });
          world.set({ componentName: OTHER, version: '1.0.0', batches: ['100%'] }, OTHER);
          await world.rounds(12);
          await play(world, steps);
        }),
        { numRuns: RUNS },
      );
    },
  );
});
