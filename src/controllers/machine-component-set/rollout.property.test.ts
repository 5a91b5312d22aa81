import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { resolveBatches } from '../../api/batches.ts';
import type { ComponentEntry } from '../../api/machine.ts';
import { contentOf } from '../../api/machine/values.ts';
import { MachineComponentSets } from '../../api/machine-component-set.ts';
import { isNew } from './new-machine.ts';
import type { Fault } from './testing/api.ts';
import { createWorld, type SpecChange, type World } from './testing/world.ts';

/**
 * Worlds in which everything that may go wrong does: machines fail, stop, reboot, come and go, the API forgets revisions; the
 * spec changes; the controller reads old state and dies between writes. What must never happen is checked at every write of an
 * entry; then the faults stop, and the set must converge and write nothing more.
 */
const MACHINES = 6;
const batches = [1, '50%', '100%'];
const MAX_FAILED = 2;
const THOROUGH = process.env['KUBENODE_THOROUGH'] === '1';
const RUNS = Number(process.env['RUNS'] ?? (THOROUGH ? 1000 : 40));

type Step =
  | { do: 'agent' | 'machine' | 'offline' | 'online' | 'reboot' | 'sick' | 'well' | 'forget' | 'hold' | 'leave'; index: number }
  | { do: 'set' | 'relist' | 'restart' | 'join' | 'joinNew' | 'round' }
  | { do: 'register'; index: number }
  | { do: 'deliver'; count: number }
  | { do: 'tick'; seconds: number }
  | { do: 'fault'; fault: Fault; after: number }
  | { do: 'spec'; spec: SpecChange };

const index = fc.nat({ max: 9 });
const version = fc.constantFrom('1.0.0', '2.0.0', '3.0.0');
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 10, arbitrary: fc.record({ do: fc.constant('agent' as const), index }) },
  { weight: 8, arbitrary: fc.record({ do: fc.constant('machine' as const), index }) },
  { weight: 10, arbitrary: fc.record({ do: fc.constant('set' as const) }) },
  { weight: 6, arbitrary: fc.record({ do: fc.constant('deliver' as const), count: fc.integer({ min: 1, max: 12 }) }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('relist' as const) }) },
  { weight: 8, arbitrary: fc.record({ do: fc.constant('round' as const) }) },
  { weight: 6, arbitrary: fc.record({ do: fc.constant('tick' as const), seconds: fc.constantFrom(1, 5, 30, 200, 700) }) },
  {
    weight: 4,
    arbitrary: fc.record({ do: fc.constantFrom('offline' as const, 'online', 'reboot', 'sick', 'well', 'forget', 'hold', 'leave'), index }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constantFrom('join' as const, 'restart') }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('joinNew' as const) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('register' as const), index }) },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('fault' as const),
      fault: fc.constantFrom<Fault>('dieBefore', 'dieAfter', 'loseAnswer', 'refuse'),
      after: fc.nat({ max: 2 }),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant('spec' as const),
      spec: fc.oneof(
        fc.record({ version }),
        fc.record({ values: fc.constantFrom({ flag: 'a' }, { flag: 'b' }, undefined) }),
        fc.record({ canary: fc.option(fc.record({ selector: fc.constant({ group: 'canary' }), version }), { nil: undefined }) }),
        fc.record({ paused: fc.boolean() }),
        fc.record({ rolloutID: fc.constantFrom('x', 'y') }),
        fc.record({
          ceiling: fc.option(fc.record({ unitDigest: fc.constantFrom('A', 'B'), nodes: fc.nat({ max: 4 }) }), { nil: undefined }),
        }),
        fc.record({ unitDigest: fc.constantFrom('A', 'B') }),
      ),
    }),
  },
);

/** Which (machine, version) never come up; cleared when the faults stop. */
const failing = fc.array(fc.tuple(fc.nat({ max: MACHINES }), fc.constantFrom('2.0.0', '3.0.0')), { maxLength: 5 });

/** The main content changes while its canary is under way: each has one machine. */
const CANARY_UNDER_WAY: Step[] = [
  { do: 'spec', spec: { values: { flag: 'a' } } },
  { do: 'join' },
  { do: 'spec', spec: { canary: { selector: { group: 'canary' }, version: '3.0.0' } } },
  { do: 'deliver', count: 1 },
  { do: 'set' },
  { do: 'tick', seconds: 1 },
  { do: 'set' },
  { do: 'round' },
  { do: 'spec', spec: { values: undefined } },
  { do: 'relist' },
  { do: 'set' },
];

interface Written {
  machine: string;
  before: ComponentEntry | undefined;
  after: ComponentEntry;
}

interface Judge {
  before(): void;
  after(by: 'set' | 'machine'): void;
}

/** What every write of an entry is judged by. Judged by what the process could see, and by everything that ever was true. */
function createJudge(world: World): Judge {
  let snapshot = new Map<string, ComponentEntry | undefined>();
  const others = new Map<string, string>();
  /** Machines that ever passed in this revision, also those that left since: a reader may be late. */
  const everPassed = new Map<number, Set<string>>();
  const everOffline = new Set<string>();
  const mostMachines = new Map<number, number>();
  /** Content that a machine got while it was new. */
  const givenNew = new Map<string, string>();
  const highest = new Map<string, number>();

  function note(): void {
    const revision = world.status().revision?.number ?? 0;
    const passed = everPassed.get(revision) ?? new Set();
    everPassed.set(revision, passed);
    mostMachines.set(revision, Math.max(mostMachines.get(revision) ?? 0, world.machines().length));
    for (const [name, agent] of world.agents) {
      if (!agent.online) everOffline.add(name);
      const machine = world.machine(name);
      const entry = world.entry(name);
      const verified = machine.status?.verified?.some((record) => record.revision === entry?.revision);
      if (verified === true && entry?.failed === undefined) passed.add(name);
    }
  }

  return {
    before() {
      note();
      snapshot = new Map([...world.agents.keys()].map((name) => [name, world.entry(name)]));
    },
    after(by) {
      note();
      const set = world.api.find(MachineComponentSets, { name: 'kubelet' });
      const revision = set?.status?.revision?.number ?? 0;
      const written = [...world.agents.keys()].flatMap((name): Written[] => {
        const before = snapshot.get(name);
        const after = world.entry(name);
        return after === undefined || JSON.stringify(before) === JSON.stringify(after) ? [] : [{ machine: name, before, after }];
      });
      for (const { machine, before, after } of written) {
        // docs/protocols.md#a3: a revision never falls, and never means two things.
        const top = highest.get(machine) ?? 0;
        expect(after.revision, `revision of ${machine}`).toBeGreaterThanOrEqual(top);
        if (before !== undefined && contentOf(before) !== contentOf(after)) expect(after.revision).toBeGreaterThan(before.revision);
        highest.set(machine, after.revision);
      }
      for (const [name] of world.agents) {
        const foreign = JSON.stringify(world.machine(name).spec.components?.filter((entry) => entry.name !== 'kubelet'));
        expect(foreign, `entries of others on ${name}`).toBe(others.get(name) ?? foreign);
        others.set(name, foreign);
      }
      if (by === 'machine' || set === undefined) return;

      const forward = written.filter(({ machine, before, after }) => {
        if (before !== undefined && contentOf(before) === contentOf(after) && before.revision === after.revision) return false;
        const verified = world.machine(machine).status?.verified ?? [];
        if (verified.some((record) => contentOf({ action: 'Install', ...record }) === contentOf(after))) return false;
        const isJoiner = after.joinedRevision >= after.setRevision;
        return !isJoiner;
      });
      if (written.length > 0) expect(set.spec.paused ?? false, 'a paused set gives nothing').toBe(false);
      if (forward.length === 0) return;

      // docs/protocols.md#b3: never more in flight than the batch under way has slots.
      const members = [...world.agents.keys()].filter((name) => {
        const entry = world.entry(name);
        const failed = world.machine(name).status?.components?.[0]?.failed?.revision === entry?.revision;
        return entry !== undefined && entry.failed === undefined && !failed && !everOffline.has(name);
      });
      const target = (name: string): string => {
        const { canary, version, values } = set.spec;
        const isCanary = canary !== undefined && world.machine(name).metadata.labels?.['group'] === 'canary';
        return contentOf({ action: 'Install', ...(isCanary ? canary : { version, values }) });
      };
      // What a new machine was given is not in flight, provided that no machine in use was seen to wait.
      const isSeenNew = (name: string): boolean => {
        const seen = world.process.sees(name);
        return seen !== undefined && isNew(seen);
      };
      const isFree = [...world.agents.keys()].every((name) => {
        const seen = world.process.sees(name)?.spec.components?.find((entry) => entry.name === 'kubelet');
        const isThere = [seen, snapshot.get(name)].some((entry) => entry !== undefined && contentOf(entry) === target(name));
        return isThere || isSeenNew(name) || world.process.sees(name) === undefined;
      });
      for (const { machine, after } of isFree ? forward : []) if (isSeenNew(machine)) givenNew.set(machine, contentOf(after));
      const holders = members.filter((name) => {
        const content = contentOf(world.entry(name) ?? expect.fail());
        return content === target(name) && content !== givenNew.get(name);
      });
      const passed = everPassed.get(revision) ?? new Set();
      const passing = passed.size;
      // Machines come and go, and the reader may be late: any number of members since the revision began may be the one it saw.
      const most = mostMachines.get(revision) ?? 0;
      const under = Array.from({ length: most }, (_each, index) => resolveBatches(batches, index + 1))
        .filter((sizes) => (sizes.at(-1) ?? 0) >= world.agents.size)
        .map((sizes) => sizes.find((size) => passing < size) ?? Infinity)
        .reduce((a, b) => Math.max(a, b), 0);
      // Each content has batches of its own (docs/protocols.md#b3).
      for (const [content, those] of Map.groupBy(holders, target))
        expect(those.length, `holders of ${content} in the batch of ${under}, ${passing} passing`).toBeLessThanOrEqual(under);

      // docs/protocols.md#b4: nothing goes forward beyond maxFailed, judged by what the process sees.
      const failed = [...world.agents.keys()].filter((name) => {
        const seen = world.process.sees(name)?.spec.components?.find((entry) => entry.name === 'kubelet');
        return seen?.failed?.setRevision === revision && seen.failed.rolloutID === set.spec.rolloutID;
      });
      expect(failed.length, 'failures seen when something went forward').toBeLessThan(MAX_FAILED);

      // docs/protocols.md#e4: the ceiling.
      const { ceiling, unitDigest } = set.spec;
      const isVerified =
        set.status?.verified !== undefined &&
        contentOf({ action: 'Install', ...set.status.verified }) ===
          contentOf({ action: 'Install', version: set.spec.version, values: set.spec.values });
      if (ceiling !== undefined && !isVerified && set.spec.canary === undefined) {
        expect(forward.length === 0 ? 0 : holders.length, 'machines below the ceiling').toBeLessThanOrEqual(
          ceiling.unitDigest === unitDigest ? ceiling.nodes : 0,
        );
      }
      // docs/protocols.md#a5: a machine that failed in this revision is not tried again.
      for (const { machine, before } of forward) {
        const tried = before?.failed?.setRevision === revision && before.failed.rolloutID === set.spec.rolloutID;
        expect(tried, `${machine} was tried again`).toBe(false);
      }
    },
  };
}

/** Every agent and controller acts once. The controller sees as much of it as its stores show. */
async function round(world: World, judge: Judge): Promise<void> {
  world.advance(10_000);
  world.process.deliver(40);
  for (const name of world.agents.keys()) {
    world.agentStep(name);
    judge.before();
    await world.process.runMachine(name);
    judge.after('machine');
  }
  world.process.deliver(40);
  judge.before();
  await world.process.runSet();
  judge.after('set');
}

async function play(world: World, steps: readonly Step[]): Promise<void> {
  const judge = createJudge(world);
  for (const each of steps) {
    const names = [...world.agents.keys()];
    const name = 'index' in each ? (names[each.index % names.length] ?? '') : '';
    const agent = world.agents.get(name);
    if (each.do === 'round') await round(world, judge);
    else if (each.do === 'agent') world.agentStep(name);
    else if (each.do === 'tick') world.advance(each.seconds * 1000);
    else if (each.do === 'deliver') world.process.deliver(each.count);
    else if (each.do === 'relist') world.process.relist();
    else if (each.do === 'restart') world.restart();
    else if (each.do === 'joinNew') world.joinNew();
    else if (each.do === 'register') world.register(name);
    else if (each.do === 'join') world.join({ group: names.length % 2 === 0 ? 'canary' : 'main' });
    else if (each.do === 'spec') world.set(each.spec);
    else if (each.do === 'fault') world.process.faults = [...Array.from({ length: each.after }, () => 'none' as const), each.fault];
    else if (each.do === 'leave') {
      if (names.length > 2) world.leave(name);
    } else if (each.do === 'hold') world.editMachine(name, (machine) => void (machine.spec.hold = machine.spec.hold !== true));
    else if (each.do === 'set' || each.do === 'machine') {
      judge.before();
      await (each.do === 'set' ? world.process.runSet() : world.process.runMachine(name));
      judge.after(each.do);
    } else if (agent !== undefined) {
      if (each.do === 'offline') agent.online = false;
      if (each.do === 'online') agent.online = true;
      if (each.do === 'reboot') agent.reboot();
      if (each.do === 'sick') agent.healthy = false;
      if (each.do === 'well') agent.healthy = true;
      if (each.do === 'forget') agent.remembers(3);
    }
  }
}

function heal(world: World): void {
  for (const [name, agent] of world.agents) {
    agent.online = true;
    agent.healthy = true;
    world.editMachine(name, (machine) => void delete machine.spec.hold);
  }
  world.process.faults = [];
  world.set({ paused: false, ceiling: undefined });
}

describe('a set under faults', () => {
  it(
    'never exceeds a batch, halts at maxFailed, and once the faults stop converges and writes nothing more',
    { timeout: THOROUGH ? 1_800_000 : 300_000 },
    async () => {
      await fc.assert(
        fc.asyncProperty(fc.array(step, { minLength: 20, maxLength: 150 }), failing, async (steps, bad) => {
          let isHealed = false;
          const world = createWorld({
            machines: MACHINES,
            domains: ['a', 'b'],
            fails: (machine, entry) => !isHealed && bad.some(([number, version]) => machine === `m${number}` && version === entry.version),
          });
          world.set({ version: '1.0.0', batches, maxFailed: MAX_FAILED, soakSeconds: 20, unitDigest: 'A' });
          await play(world, steps);

          // What failed before may stay failed, and the set halted: that is a state to rest in.
          heal(world);
          await world.rest();
          const resting = world.status();
          expect(resting.observedGeneration).toBe(world.api.find(MachineComponentSets, { name: 'kubelet' })?.metadata.generation);
          for (const [name, agent] of world.agents) {
            const entry = world.entry(name);
            const degraded =
              entry?.failed !== undefined && world.machine(name).status?.components?.[0]?.failed?.revision === entry.revision;
            const wanted = degraded ? agent.running : entry?.version;
            expect(agent.running, `${name} runs what its entry asks`).toBe(wanted);
          }

          // Nothing fails any more and a human asks for another try.
          isHealed = true;
          world.set({ rolloutID: 'healed', unitDigest: 'C' });
          await world.rest();
          const set = world.api.find(MachineComponentSets, { name: 'kubelet' });
          const { canary, version = '' } = set?.spec ?? {};
          for (const [name, agent] of world.agents) {
            const isCanary = canary !== undefined && world.machine(name).metadata.labels?.['group'] === 'canary';
            expect(agent.running, `${name} in the end`).toBe(isCanary ? canary.version : version);
            expect(world.entry(name)?.failed).toBeUndefined();
          }
          expect(set?.status).toMatchObject({
            failed: 0,
            offline: 0,
            batch: 0,
            evidence: { unitDigest: 'C' },
            verified: { unitDigest: 'C', version },
          });
          expect(world.condition('Progressing')).toBe('False/Complete');
        }),
        { numRuns: RUNS, examples: [[CANARY_UNDER_WAY, []]] },
      );
    },
  );
});
