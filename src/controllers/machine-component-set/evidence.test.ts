import { describe, expect, it } from 'vitest';
import type { ComponentEntry, ComponentStatus } from '../../api/machine.ts';
import { contentOf } from '../../api/machine/values.ts';
import { MachineComponentSets } from '../../api/machine-component-set.ts';
import { missingEvidence } from './evidence.ts';
import { createWorld, type World } from './testing/world.ts';

async function verifiedWorld(options: Parameters<typeof createWorld>[0], spec: Parameters<World['set']>[0] = {}): Promise<World> {
  const world = createWorld(options);
  world.set({ version: '1.0.0', batches: ['100%'], unitDigest: 'A', ...spec });
  await world.rest();
  return world;
}

describe('invariant 3: evidence', () => {
  const entry: ComponentEntry = {
    name: 'kubelet',
    action: 'Install',
    version: '1',
    setUID: 's',
    setRevision: 1,
    joinedRevision: 0,
    revision: 4,
    attempt: 1,
  };
  const good: ComponentStatus = {
    name: 'kubelet',
    version: '1',
    content: contentOf(entry),
    revision: 4,
    running: 4,
    state: 'Healthy',
    bootID: 'b',
  };

  it('is a report of this revision, this content and this boot by an agent that is alive', () => {
    expect(missingEvidence({ entry, reported: good, bootID: 'b', agentFresh: true })).toBeUndefined();
  });

  it.each([
    ['nothing reported', undefined, 'b', true, 'nothing'],
    ['an older revision that runs', { ...good, running: 3 }, 'b', true, 'revision 4'],
    ['other content', { ...good, content: 'x' }, 'b', true, 'other content'],
    ['a component that only is unhealthy', { ...good, state: 'Unhealthy' as const }, 'b', true, 'Unhealthy'],
    ['probes that succeeded in the boot before', good, 'c', true, 'this boot'],
    ['an agent without a boot', good, undefined, true, 'this boot'],
    ['an agent without a fresh Lease', good, 'b', false, 'does not renew its Lease'],
  ])('is not %s', (_what, reported, bootID, agentFresh, message) => {
    expect(missingEvidence({ entry, reported, bootID, agentFresh })).toContain(message);
  });

  it('of a removal is that it is removed', () => {
    const removal = { ...entry, action: 'Remove' as const };
    const { bootID: _none, ...removed } = { ...good, state: 'Removed' as const, content: '' };
    expect(missingEvidence({ entry: removal, reported: removed, bootID: 'b', agentFresh: true })).toBeUndefined();
    expect(missingEvidence({ entry: removal, reported: good, bootID: 'b', agentFresh: true })).toContain('Healthy');
  });
});

describe('E2: evidence of a unit', () => {
  it('latches for its digest once all members have the content through soak', async () => {
    const world = await verifiedWorld({ machines: 3 }, { soakSeconds: 60 });
    expect(world.status().evidence?.unitDigest).toBe('A');
    world.set({ version: '2.0.0', unitDigest: 'B' });
    const digests = new Set<string | undefined>();
    for (let round = 0; round < 9; round++) {
      await world.round();
      if (world.given('2.0.0').length < 3 || world.status().updated !== 3) digests.add(world.status().evidence?.unitDigest);
    }
    expect([...digests]).toEqual([undefined]);
    await world.rest();
    expect(world.status()).toMatchObject({ evidence: { unitDigest: 'B' }, verified: { unitDigest: 'B', version: '2.0.0' } });
    const agent = world.agents.get('m0');
    if (agent !== undefined) agent.healthy = false;
    await world.rest();
    expect(world.status()).toMatchObject({ evidence: { unitDigest: 'B' }, updated: 2 });
  });

  it.each([true, false])('case 15: evidence for digest A does not arrive after B was set (set: %s)', async (isSet) => {
    const world = createWorld({ machines: 1 });
    world.set({ version: '1.0.0', unitDigest: 'A', soakSeconds: 0 });
    await world.rounds(3);
    world.agentStep('m0');
    world.process.relist();
    await world.process.runMachine('m0');
    world.process.relist();
    if (isSet) world.set({ version: '2.0.0', unitDigest: 'B' });
    await world.process.runSet();
    expect(world.status().evidence?.unitDigest).toBe(isSet ? undefined : 'A');
  });

  it('does not outlive a change of content that has no new digest', async () => {
    const world = await verifiedWorld({ machines: 2, waits: (_machine, entry) => entry.version === '2.0.0' });
    world.set({ version: '2.0.0' });
    await world.rounds(3);
    expect(world.status().evidence).toBeUndefined();
  });

  it('is gone when the digest changes, and has to be proved again when it comes back', async () => {
    const world = await verifiedWorld({ machines: 2, waits: (_machine, entry) => entry.version === '2.0.0' });
    world.set({ version: '2.0.0', unitDigest: 'B' });
    await world.rounds(3);
    expect(world.status().evidence).toBeUndefined();
    const agent = world.agents.get('m0');
    if (agent !== undefined) agent.healthy = false;
    world.set({ version: '1.0.0', unitDigest: 'A' });
    await world.rest();
    expect(world.status().evidence).toBeUndefined();
    if (agent !== undefined) agent.healthy = true;
    await world.rest();
    expect(world.status().evidence?.unitDigest).toBe('A');
  });

  it('opens for a new digest of the same content without a write to any Machine', async () => {
    const world = await verifiedWorld({ machines: 3 });
    const before = world.machines().map((machine) => machine.metadata.resourceVersion);
    world.set({ unitDigest: 'B', maxFailed: 2 });
    await world.rest();
    expect(world.status()).toMatchObject({ evidence: { unitDigest: 'B' }, verified: { unitDigest: 'B' } });
    // The agents of the model write nothing either.
    expect(world.machines().map((machine) => machine.metadata.resourceVersion)).toEqual(before);
  });

  it('of a set without machines comes after the soak, and verifies nothing', async () => {
    const world = createWorld({ machines: 0 });
    world.set({ version: '1.0.0', unitDigest: 'A', soakSeconds: 60 });
    await world.rounds(3);
    expect(world.status().evidence).toBeUndefined();
    await world.rounds(6);
    expect(world.status().evidence?.unitDigest).toBe('A');
    expect(world.status().verified).toBeUndefined();
  });

  it('of a set without machines is gone when the first machine comes, which has to prove it', async () => {
    const world = createWorld({ machines: 0 });
    world.set({ version: '1.0.0', unitDigest: 'A', soakSeconds: 60 });
    await world.rest();
    expect(world.status()).toMatchObject({ desired: 0, evidence: { unitDigest: 'A' } });
    world.join();
    await world.round();
    expect(world.status().desired).toBe(1);
    expect(world.status().evidence).toBeUndefined();
    await world.rest();
    expect(world.status()).toMatchObject({ evidence: { unitDigest: 'A' }, verified: { unitDigest: 'A' } });
    world.leave('m0');
    await world.rest();
    expect(world.status()).toMatchObject({ desired: 0, evidence: { unitDigest: 'A' } });
  });

  it('does not come from machines that all failed or are set aside', async () => {
    const world = createWorld({ machines: 1, fails: () => true });
    world.set({ version: '1.0.0', unitDigest: 'A', maxFailed: 5 });
    await world.rest();
    expect(world.status().evidence).toBeUndefined();
    expect(world.status().verified).toBeUndefined();
  });
});

describe('E3: verified on a machine', () => {
  it('keeps the two last contents, the newest first, with the boot and the revision', async () => {
    const world = await verifiedWorld({ machines: 1 });
    for (const version of ['2.0.0', '3.0.0']) {
      world.set({ version, values: { of: version } });
      await world.rest();
    }
    expect(world.machine('m0').status?.verified).toMatchObject([
      { name: 'kubelet', version: '3.0.0', values: { of: '3.0.0' }, revision: 3, bootID: 'boot-1' },
      { name: 'kubelet', version: '2.0.0', values: { of: '2.0.0' }, revision: 2, unitDigest: 'A' },
    ]);
    world.set({ version: '2.0.0', values: { of: '2.0.0' } });
    await world.rest();
    expect(world.machine('m0').status?.verified?.map((each) => [each.version, each.revision])).toEqual([
      ['2.0.0', 4],
      ['3.0.0', 3],
    ]);
  });

  it('is not written before the soak, nor when the component broke during it', async () => {
    const world = createWorld({ machines: 1 });
    world.set({ version: '1.0.0', soakSeconds: 60 });
    await world.rounds(7);
    const agent = world.agents.get('m0');
    expect(world.machine('m0').status?.soaks).toMatchObject([{ name: 'kubelet', revision: 1, bootID: 'boot-1' }]);
    if (agent !== undefined) agent.healthy = false;
    await world.round();
    expect(world.machine('m0').status?.soaks).toEqual([]);
    if (agent !== undefined) agent.healthy = true;
    await world.rounds(5);
    expect(world.machine('m0').status?.verified ?? []).toEqual([]);
    await world.rest();
    expect(world.machine('m0').status?.verified).toHaveLength(1);
  });

  it('a soak that seems to have begun in the future begins again', async () => {
    const world = createWorld({ machines: 1 });
    world.set({ version: '1.0.0', soakSeconds: 60 });
    await world.rounds(5);
    world.editMachine('m0', (machine) => {
      for (const soak of machine.status?.soaks ?? []) soak.since = '2036-01-01T00:00:00Z';
    });
    await world.rest();
    expect(world.machine('m0').status?.verified).toHaveLength(1);
  });

  it('UpToDate reports of a new machine that its first installation is under way, until all of it is proved', async () => {
    const world = createWorld({ machines: 0 });
    const name = world.joinNew();
    const upToDate = (): string | undefined => world.machine(name).status?.conditions?.find((each) => each.type === 'UpToDate')?.reason;
    world.set({ version: '1.0.0', soakSeconds: 60 });
    const seen = new Set<string | undefined>();
    for (let round = 0; round < 12; round++) {
      await world.round();
      if (round === 7) expect(upToDate()).toBe('FirstInstallation');
      seen.add(upToDate());
    }
    expect([...seen]).toEqual(['NothingWanted', 'FirstInstallation', 'AllProved']);
    world.register(name);
    world.set({ version: '2.0.0' });
    await world.rounds(2);
    expect(upToDate()).toBe('Updating');
  });

  it('UpToDate reports what the machine proves of its own entries', async () => {
    const world = createWorld({ machines: 1 });
    const upToDate = (): string => {
      const found = world.machine('m0').status?.conditions?.find((each) => each.type === 'UpToDate');
      return `${found?.status}/${found?.reason}`;
    };
    await world.round();
    expect(upToDate()).toBe('Unknown/NothingWanted');
    world.set({ version: '1.0.0' });
    await world.rounds(2);
    expect(upToDate()).toBe('False/Updating');
    await world.rounds(3);
    expect(upToDate()).toBe('False/Soaking');
    await world.rest();
    expect(upToDate()).toBe('True/AllProved');
    const agent = world.agents.get('m0');
    if (agent !== undefined) agent.online = false;
    await world.rounds(25);
    expect(upToDate()).toBe('Unknown/AgentStale');
  });
});

describe('E4: ceiling', () => {
  it('bounds how many machines get the content of its digest', async () => {
    const world = await verifiedWorld({ machines: 6 });
    world.set({ version: '2.0.0', unitDigest: 'B', ceiling: { unitDigest: 'B', nodes: 2 } });
    await world.rest();
    expect(world.given('2.0.0')).toHaveLength(2);
    expect(world.condition('Progressing')).toBe('False/Ceiling');
    world.set({ ceiling: { unitDigest: 'B', nodes: 4 } });
    await world.rest();
    expect(world.given('2.0.0')).toHaveLength(4);
    world.set({ ceiling: undefined });
    await world.rest();
    expect(world.given('2.0.0')).toHaveLength(6);
  });

  it('of another digest counts as 0', async () => {
    const world = await verifiedWorld({ machines: 3 });
    world.set({ version: '2.0.0', unitDigest: 'B', ceiling: { unitDigest: 'A', nodes: 100 } });
    await world.rest();
    expect(world.given('2.0.0')).toEqual([]);
  });

  it('counts a machine that was given the content and failed', async () => {
    const world = await verifiedWorld({ machines: 4, fails: (_machine, entry) => entry.version === '2.0.0' });
    world.set({ version: '2.0.0', unitDigest: 'B', maxFailed: 4, ceiling: { unitDigest: 'B', nodes: 2 } });
    await world.rest();
    expect(world.status().failed).toBe(2);
  });

  it('does not stop a new machine from getting what is verified', async () => {
    const world = await verifiedWorld({ machines: 2 }, { ceiling: { unitDigest: 'A', nodes: 2 } });
    const joiner = world.joinNew();
    await world.rest();
    expect(world.entry(joiner)?.version).toBe('1.0.0');
  });

  it('stops a machine in use from getting even what is verified elsewhere: a paused rollout widens nothing', async () => {
    const world = await verifiedWorld({ machines: 2 }, { unitDigest: 'A' });
    world.set({ ceiling: { unitDigest: 'A', nodes: 0 } });
    const added = world.join();
    await world.rest();
    expect(world.entry(added)).toBeUndefined();
    world.set({ ceiling: undefined });
    await world.rest();
    expect(world.entry(added)?.version).toBe('1.0.0');
  });
});

describe('the status of a set', () => {
  it('carries the generation that it was made for, in the conditions too', async () => {
    const world = await verifiedWorld({ machines: 2 });
    world.set({ soakSeconds: 1 });
    await world.rest();
    const set = world.api.find(MachineComponentSets, { name: 'kubelet' });
    expect(set?.status?.observedGeneration).toBe(set?.metadata.generation);
    expect(new Set(set?.status?.conditions?.map((each) => each.observedGeneration))).toEqual(new Set([set?.metadata.generation]));
  });

  it('never shows a halt of the revision before with the generation of the new one', async () => {
    const world = await verifiedWorld({ machines: 2, fails: (_machine, entry) => entry.version === '2.0.0' });
    world.set({ version: '2.0.0' });
    await world.rest();
    expect(world.condition('Halted')).toBe('True/MaxFailed');
    world.set({ version: '3.0.0' });
    world.process.relist();
    world.process.faults = ['dieAfter'];
    await world.process.runSet();
    const set = world.api.find(MachineComponentSets, { name: 'kubelet' });
    expect(set?.status?.revision?.number).toBe(3);
    expect(set?.status?.observedGeneration).toBeLessThan(set?.metadata.generation ?? 0);
  });

  it('is not written when nothing changed: an idle set costs no request', async () => {
    const world = await verifiedWorld({ machines: 5 });
    const { version } = world.api;
    const requests = world.api.writes;
    await world.rounds(20);
    expect(world.api.writes).toBe(requests);
    // Only Leases moved.
    expect(world.machines().every((machine) => Number(machine.metadata.resourceVersion) <= version)).toBe(true);
  });

  it('Paused: no machine is given new content', async () => {
    const world = await verifiedWorld({ machines: 2 });
    world.set({ paused: true, version: '2.0.0' });
    await world.rest();
    expect(world.condition('Paused')).toBe('True/Paused');
    expect(world.given('2.0.0')).toEqual([]);
    expect(world.status().revision?.number).toBe(2);
  });

  it('refuses batches that the CRD would refuse, and writes nothing', async () => {
    const world = await verifiedWorld({ machines: 2 });
    world.set({ version: '2.0.0', batches: ['50%'] });
    await world.rounds(3);
    expect(world.given('2.0.0')).toEqual([]);
  });
});
