import { describe, expect, it } from 'vitest';
import { API_VERSION } from '../../api/kind.ts';
import { Machines } from '../../api/machine.ts';
import { contentOf, LAST_REVISION } from '../../api/machine/values.ts';
import { MachineComponents } from '../../api/machine-component.ts';
import { MachineComponentSets } from '../../api/machine-component-set.ts';
import { createWorld, type World } from './testing/world.ts';

async function verifiedWorld(options: Parameters<typeof createWorld>[0], spec: Parameters<World['set']>[0] = {}): Promise<World> {
  const world = createWorld(options);
  world.set({ version: '1.0.0', batches: ['100%'], ...spec });
  await world.rest();
  return world;
}

describe('A1: setRevision', () => {
  it('counts changes of content, so v2, v1, v2 is three', async () => {
    const world = createWorld({ machines: 1 });
    for (const [index, version] of ['2.0.0', '1.0.0', '2.0.0'].entries()) {
      world.set({ version });
      await world.rest();
      expect(world.status().revision).toMatchObject({ number: index + 1, version });
    }
  });

  it('counts values, action and canary, and nothing else', async () => {
    const world = await verifiedWorld({ machines: 1 });
    const numbers: (number | undefined)[] = [];
    for (const change of [
      { values: { a: 1 } },
      { values: { a: 1 } },
      { values: {} },
      { soakSeconds: 1, maxFailed: 3, unitDigest: 'x' },
      { action: 'Remove' as const },
      { canary: { selector: { a: 'b' }, version: '2.0.0' } },
    ]) {
      world.set(change);
      await world.rest();
      numbers.push(world.status().revision?.number);
    }
    expect(numbers).toEqual([2, 2, 3, 3, 4, 5]);
  });

  it('is counted before any machine is given the content', async () => {
    const world = createWorld({ machines: 2 });
    world.set({ version: '1.0.0', batches: ['100%'] });
    world.process.relist();
    world.process.faults = ['none', 'none', 'dieBefore'];
    await world.process.runSet();
    expect(world.status().revision?.number).toBe(1);
    expect(world.given('1.0.0')).toEqual([]);
  });

  it('goes on above the numbers on Machines when the status was restored from a backup', async () => {
    const world = await verifiedWorld({ machines: 2 });
    world.set({ version: '2.0.0' });
    await world.rest();
    world.api.edit(MachineComponentSets, { name: 'kubelet' }, ({ status }) => {
      if (status?.revision !== undefined) status.revision.number = 1;
    });
    await world.rest();
    expect(world.status().revision?.number).toBe(3);
  });

  it('goes on above the numbers on Machines when the status was lost', async () => {
    const world = await verifiedWorld({ machines: 2 });
    world.set({ version: '2.0.0' });
    await world.rest();
    world.api.edit(MachineComponentSets, { name: 'kubelet' }, (set) => void delete set.status);
    await world.rest();
    expect(world.status().revision?.number).toBe(3);
  });
});

describe('A2: one writer', () => {
  it('changes only the entry of the set that is reconciled', async () => {
    const world = await verifiedWorld({ machines: 1 });
    const other = {
      name: 'cni',
      action: 'Install' as const,
      version: '9',
      setUID: 'x',
      setRevision: 1,
      joinedRevision: 0,
      revision: 7,
      attempt: 1,
    };
    world.editMachine('m0', (machine) => machine.spec.components?.unshift(other));
    world.set({ version: '2.0.0' });
    await world.rest();
    expect(world.machine('m0').spec.components?.map((each) => each.name)).toEqual(['cni', 'kubelet']);
    expect(world.machine('m0').spec.components?.[0]).toEqual(other);
    expect(world.entry('m0')?.version).toBe('2.0.0');
  });

  it('on conflict reads again and decides again', async () => {
    const world = await verifiedWorld({ machines: 1 });
    world.set({ version: '2.0.0' });
    world.process.relist();
    world.editMachine('m0', (machine) => void (machine.spec.hold = true));
    await world.process.runSet();
    expect(world.entry('m0')?.version).toBe('1.0.0');
    world.editMachine('m0', (machine) => void (machine.spec.hold = false));
    // The store still shows it held; the conflict does not come from there.
    world.process.relist();
    world.editMachine('m0', (machine) => void (machine.metadata.labels = { touched: 'yes' }));
    await world.process.runSet();
    expect(world.entry('m0')?.version).toBe('2.0.0');
    expect(world.machine('m0').metadata.labels).toEqual({ touched: 'yes' });
  });

  it('a store that lags behind its own writes never gives a batch twice', async () => {
    const world = await verifiedWorld({ machines: 6 });
    world.set({ version: '2.0.0', batches: [1, '100%'] });
    world.process.relist();
    for (let run = 0; run < 5; run++) await world.process.runSet();
    expect(world.given('2.0.0')).toHaveLength(1);
  });

  it('a set that was reverted since it was read gives nothing more', async () => {
    const world = await verifiedWorld({ machines: 4 });
    world.set({ version: '2.0.0', batches: ['100%'] });
    world.process.relist();
    // The count of the revision and the status are written; before the Machines are, a human goes back.
    world.process.meanwhile = [() => undefined, () => world.set({ version: '1.0.0' })];
    await world.process.runSet();
    expect(world.given('2.0.0')).toEqual([]);
    expect(world.process.meanwhile).toEqual([]);
  });

  it('a machine that rebooted since it was read is not verified by what was read', async () => {
    const world = createWorld({ machines: 1 });
    world.set({ version: '1.0.0', soakSeconds: 60 });
    await world.rounds(9);
    expect(world.machine('m0').status?.verified ?? []).toEqual([]);
    world.advance(60_000);
    world.process.relist();
    world.agents.get('m0')?.reboot();
    world.agentStep('m0');
    await world.process.runMachine('m0');
    expect(world.machine('m0').status?.verified ?? []).toEqual([]);
  });
});

describe('A3: revision', () => {
  it('only grows, also on a revert', async () => {
    const world = createWorld({ machines: 1 });
    const seen: number[] = [];
    for (const version of ['1.0.0', '2.0.0', '1.0.0', '2.0.0']) {
      world.set({ version });
      await world.rest();
      seen.push(world.entry('m0')?.revision ?? 0);
    }
    expect(seen).toEqual([1, 2, 3, 4]);
  });

  it('goes above what the agent reports of a component that was removed', async () => {
    const world = createWorld({ machines: 1 });
    world.editMachine('m0', (machine) => {
      machine.status = {
        phase: 'Running',
        components: [{ name: 'kubelet', version: '', content: '', revision: 41, running: 41, state: 'Removed' }],
      };
    });
    world.agents.get('m0')?.remembers(0);
    world.set({ version: '1.0.0' });
    world.editMachine('m0', (machine) => {
      machine.status = { ...machine.status, agent: { version: '1', apiLevel: 1, bootID: 'b', os: 'linux', arch: 'arm64' } };
    });
    world.process.relist();
    await world.process.runSet();
    expect(world.entry('m0')?.revision).toBe(42);
  });

  it('a refused entry is written again above both numbers, so an API restored from backup ends in no stalemate', async () => {
    const world = await verifiedWorld({ machines: 2 });
    world.agents.get('m0')?.remembers(6);
    await world.rest();
    expect(world.entry('m0')).toMatchObject({ version: '1.0.0', revision: 8 });
    expect(world.machine('m0').status?.components?.[0]).toMatchObject({
      running: 8,
      content: contentOf({ action: 'Install', version: '1.0.0' }),
    });
    expect(world.condition('Progressing')).toBe('False/Complete');
  });
});

describe('A5: a machine that fails', () => {
  it('gets its last verified content, a new revision and the failure in one write', async () => {
    const world = await verifiedWorld({ machines: 2, fails: (_machine, entry) => entry.version === '2.0.0' });
    world.set({ version: '2.0.0', rolloutID: 'one', batches: [1, '100%'] });
    const seen = new Set<string>();
    for (let round = 0; round < 12; round++) {
      await world.round();
      for (const { metadata } of world.machines()) {
        const { version, revision, failed } = world.entry(metadata.name) ?? {};
        seen.add(
          `${version} ${revision} ${failed === undefined ? 'ok' : `failed ${failed.setRevision}/${failed.attempt}/${failed.rolloutID}`}`,
        );
      }
    }
    expect([...seen].toSorted()).toEqual(['1.0.0 1 ok', '1.0.0 3 failed 2/1/one', '2.0.0 2 ok']);
  });

  it('is left as it is, and marked, where nothing is verified', async () => {
    const world = createWorld({ machines: 2, fails: () => true });
    world.set({ version: '1.0.0' });
    await world.rest();
    const [first = ''] = world.given('1.0.0');
    expect(world.entry(first)).toMatchObject({
      version: '1.0.0',
      revision: 1,
      failed: { reason: 'ProbesFailed', setRevision: 1, attempt: 1 },
    });
  });

  it('is left as it is, and marked, where what failed is the verified content', async () => {
    const world = await verifiedWorld({ machines: 1 });
    world.reinstall('m0', () => true);
    await world.rest();
    expect(world.entry('m0')).toMatchObject({ version: '1.0.0', revision: 1, failed: { setRevision: 1 } });
  });

  it('is not tried again until setRevision changes', async () => {
    let broken = true;
    const world = await verifiedWorld({ machines: 1, fails: (_machine, entry) => broken && entry.version === '2.0.0' });
    world.set({ version: '2.0.0' });
    await world.rest();
    broken = false;
    world.set({ soakSeconds: 5, maxFailed: 5 });
    await world.rest();
    expect(world.entry('m0')?.version).toBe('1.0.0');
    world.set({ version: '3.0.0' });
    await world.rest();
    expect(world.entry('m0')).toMatchObject({ version: '3.0.0', attempt: 1 });
    expect(world.entry('m0')?.failed).toBeUndefined();
  });

  it('case 14: a bad version is stuck, spec is corrected, and the rollout proceeds without a human', async () => {
    const world = await verifiedWorld({ machines: 5, waits: (_machine, entry) => entry.version === '2.0.0' });
    world.set({ version: '2.0.0', batches: [2, '100%'] });
    await world.rounds(20);
    expect(world.given('2.0.0')).toHaveLength(2);
    world.set({ version: '3.0.0' });
    await world.rest();
    expect(world.given('3.0.0')).toHaveLength(5);
  });

  it('counts for the revision that it was given by, not for a newer one that it never saw', async () => {
    let isGranted = false;
    const world = await verifiedWorld({
      machines: 1,
      waits: (_machine, entry) => entry.version === '2.0.0' && !isGranted,
      fails: (_machine, entry) => entry.version === '2.0.0',
    });
    world.set({ version: '2.0.0' });
    await world.rounds(2);
    world.set({ version: '3.0.0', paused: true });
    isGranted = true;
    await world.rest();
    expect(world.entry('m0')).toMatchObject({ failed: { setRevision: 2 } });
    expect(world.condition('Halted')).toBe('False/WithinLimits');
    world.set({ paused: false });
    await world.rest();
    expect(world.entry('m0')?.version).toBe('3.0.0');
  });

  it('a revert clears the failure where the old version runs already, without touching the node', async () => {
    const world = await verifiedWorld({ machines: 1, fails: (_machine, entry) => entry.version === '2.0.0' });
    world.set({ version: '2.0.0' });
    await world.rest();
    const { revision } = world.entry('m0') ?? {};
    world.set({ version: '1.0.0' });
    await world.rest();
    expect(world.entry('m0')).toMatchObject({ version: '1.0.0', revision });
    expect(world.entry('m0')?.failed).toBeUndefined();
    expect(world.condition('Halted')).toBe('False/WithinLimits');
  });

  it('is answered also when the set was deleted meanwhile: an operation waits for it', async () => {
    const world = await verifiedWorld({ machines: 1, fails: (_machine, entry) => entry.version === '2.0.0' });
    world.set({ version: '2.0.0' });
    await world.round();
    world.api.remove(MachineComponentSets, { name: 'kubelet' });
    await world.rest();
    expect(world.entry('m0')).toMatchObject({ version: '1.0.0', failed: { setRevision: 2 } });
  });
});

describe('A6: sets', () => {
  it('deleting one orphans its entries', async () => {
    const world = await verifiedWorld({ machines: 3 });
    world.api.remove(MachineComponentSets, { name: 'kubelet' });
    await world.rest();
    expect(world.given('1.0.0')).toHaveLength(3);
  });

  it('another set of the same component takes orphans over, without touching nodes that have what it wants', async () => {
    const world = await verifiedWorld({ machines: 3 });
    const { revision } = world.entry('m0') ?? {};
    world.api.remove(MachineComponentSets, { name: 'kubelet' });
    world.set({ version: '1.0.0', componentName: 'kubelet', batches: [1, '100%'] }, 'second');
    await world.rounds(2);
    const uid = world.api.find(MachineComponentSets, { name: 'second' })?.metadata.uid;
    expect(world.machines().map((machine) => machine.spec.components?.[0])).toMatchObject(
      Array.from({ length: 3 }, () => ({ setUID: uid, setRevision: 1, joinedRevision: 1, revision })),
    );
    await world.rest();
    expect(world.status('second').verified?.version).toBe('1.0.0');
  });

  it('only Remove uninstalls', async () => {
    const world = await verifiedWorld({ machines: 3 }, { unitDigest: 'A' });
    world.set({ action: 'Remove', batches: [1, '100%'], unitDigest: 'B' });
    await world.round();
    expect(world.machines().filter((machine) => machine.spec.components?.[0]?.action === 'Remove')).toHaveLength(1);
    await world.rest();
    expect([...world.agents.values()].map((agent) => agent.running)).toEqual([undefined, undefined, undefined]);
    expect(world.status()).toMatchObject({ updated: 3, evidence: { unitDigest: 'B' } });
    expect(world.status().verified).toBeUndefined();
    world.agents.get('m0')?.reboot();
    await world.rest();
    expect(world.condition('Progressing')).toBe('False/Complete');
  });

  it('two that select one machine for one component: both get condition Conflict, neither writes', async () => {
    const world = await verifiedWorld({ machines: 3 });
    world.set({ componentName: 'kubelet', version: '2.0.0' }, 'second');
    world.set({ version: '3.0.0' });
    await world.rest();
    expect([world.condition('Conflict'), world.condition('Conflict', 'second')]).toEqual(['True/SameMachines', 'True/SameMachines']);
    expect(world.given('1.0.0')).toHaveLength(3);
    expect(world.events.filter((event) => event.reason === 'SetsConflict')).toHaveLength(2);
    world.set({ selector: { none: 'such' } }, 'second');
    await world.rest();
    expect(world.condition('Conflict')).toBe('False/NoConflict');
    expect(world.given('3.0.0')).toHaveLength(3);
  });
});

describe('what a machine cannot be given', () => {
  it('a version without MachineComponent: a condition, and nothing is written', async () => {
    const world = await verifiedWorld({ machines: 2 });
    world.set({ version: '9.9.9' });
    await world.rest();
    expect(world.condition('Progressing')).toBe('False/ComponentMissing');
    expect(world.given('1.0.0')).toHaveLength(2);
  });

  it('a version without a platform for it: a condition, and nothing is written', async () => {
    const world = await verifiedWorld({ machines: 2 });
    world.api.create(MachineComponents, {
      apiVersion: API_VERSION,
      kind: 'MachineComponent',
      metadata: { name: 'kubelet-4.0.0' },
      spec: { componentName: 'kubelet', version: '4.0.0', platforms: [{ os: 'linux', arch: 'arm64', artifacts: [] }] },
    });
    world.set({ version: '4.0.0' });
    await world.rest();
    expect(world.condition('Progressing')).toBe('False/NoPlatform');
    expect(world.given('1.0.0')).toHaveLength(2);
  });

  it('anything, while its agent has never reported', async () => {
    const world = createWorld({ machines: 2 });
    for (const agent of world.agents.values()) agent.online = false;
    world.set({ version: '1.0.0' });
    await world.rounds(5);
    expect(world.given('1.0.0')).toEqual([]);
    expect(world.condition('Progressing')).toBe('False/NoAgent');
  });

  it.each(['hold', 'paused'] as const)(
    'a machine with spec.%s blocks no other for ever: it is set aside, and follows when it is let go',
    async (field) => {
      const world = await verifiedWorld({ machines: 4 });
      world.editMachine('m1', (machine) => void (machine.spec[field] = true));
      world.set({ version: '2.0.0', unitDigest: 'B', batches: [1, '100%'] });
      await world.rest();
      expect(world.given('2.0.0')).toHaveLength(3);
      expect(world.condition('Available')).toBe('True/UpdatedWithExceptions');
      expect(world.status()).toMatchObject({ offline: 1, verified: { version: '2.0.0' }, evidence: { unitDigest: 'B' } });
      world.editMachine('m1', (machine) => void delete machine.spec[field]);
      await world.rest();
      expect(world.given('2.0.0')).toHaveLength(4);
    },
  );

  it('many that humans put on hold do not halt the set; many whose nodes report a hold do', async () => {
    const world = await verifiedWorld({ machines: 4 });
    for (const name of ['m0', 'm1']) world.editMachine(name, (machine) => void (machine.spec.hold = true));
    await world.rest();
    expect(world.condition('Halted')).toBe('False/WithinLimits');
    for (const name of ['m0', 'm1']) {
      world.editMachine(name, ({ spec, status }) => {
        delete spec.hold;
        if (status?.agent !== undefined) status.agent.hold = true;
      });
    }
    world.process.relist();
    await world.process.runSet();
    expect(world.condition('Halted')).toBe('True/TooManyOffline');
  });

  it('a component whose requirement no set wants there: a condition', async () => {
    const world = createWorld({ machines: 1 });
    world.api.create(MachineComponents, {
      apiVersion: API_VERSION,
      kind: 'MachineComponent',
      metadata: { name: 'kubelet-5.0.0' },
      spec: {
        componentName: 'kubelet',
        version: '5.0.0',
        platforms: [{ os: 'any', arch: 'any', artifacts: [] }],
        requires: [{ componentName: 'containerd', versionRange: '>=2' }],
      },
    });
    world.set({ version: '5.0.0' });
    await world.rest();
    expect(world.condition('RequirementsMet')).toBe('False/NotWanted');
    world.set({ componentName: 'containerd', version: '1.7.0' }, 'containerd');
    await world.rest();
    expect(world.condition('RequirementsMet')).toBe('False/NotWanted');
    world.set({ version: '2.1.0' }, 'containerd');
    await world.rest();
    expect(world.condition('RequirementsMet')).toBe('True/Met');
  });
});

describe('A3: an agent that reports a revision above which there is none', () => {
  it('has failed, is given nothing more, and is reported', async () => {
    const world = await verifiedWorld({ machines: 2 });
    const [first] = world.machines();
    const agent = world.agents.get(first?.metadata.name ?? '');
    if (agent !== undefined) agent.online = false;
    world.api.edit(Machines, first?.metadata ?? { name: '' }, ({ status }) => {
      for (const each of status?.components ?? []) each.revision = LAST_REVISION;
    });
    world.set({ version: '2.0.0', maxFailed: 5 });
    for (let round = 0; round < 20; round++) await world.round();
    const machine = world.machine(first?.metadata.name ?? '');
    expect(machine.spec.components?.[0]).toMatchObject({ version: '1.0.0', revision: 1, failed: { reason: 'RevisionsExhausted' } });
    expect(world.status().failures).toMatchObject([{ machine: 'web/' + machine.metadata.name, reason: 'RevisionsExhausted' }]);
    expect(world.given('2.0.0')).toHaveLength(1);
  });

  it('has failed before it was given anything, and its set goes on with the others', async () => {
    const world = createWorld({ machines: 2 });
    const [first] = world.machines();
    const name = first?.metadata.name ?? '';
    const agent = world.agents.get(name);
    if (agent !== undefined) agent.online = false;
    world.api.edit(Machines, first?.metadata ?? { name: '' }, ({ status }) => {
      if (status !== undefined)
        status.components = [{ name: 'kubelet', version: '', content: '', revision: 2 ** 63, running: 0, state: 'Waiting' }];
    });
    world.set({ version: '1.0.0', batches: ['100%'], maxFailed: 5 });
    for (let round = 0; round < 20; round++) await world.round();
    expect(world.machine(name).spec.components ?? []).toEqual([]);
    expect(world.status().failures).toMatchObject([{ machine: `web/${name}`, reason: 'RevisionsExhausted' }]);
    expect(world.given('1.0.0')).toHaveLength(1);
  });
});
