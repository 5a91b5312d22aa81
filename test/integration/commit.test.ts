import { generateKeyPairSync } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Events } from '../../src/api/builtin.ts';
import { Clusters } from '../../src/api/cluster.ts';
import { MachineComponents } from '../../src/api/machine-component.ts';
import { MachineComponentSets } from '../../src/api/machine-component-set.ts';
import { MachineSets } from '../../src/api/machine-set.ts';
import { Rollouts } from '../../src/api/rollout.ts';
import { waitFor } from '../../src/kube/testing/wait-for.ts';
import { openHub, versions, type TestHub } from './hub.ts';

// A machine under load renders slowly, and a cell that was away is asked again within 30 s.
vi.setConfig({ testTimeout: 600_000, hookTimeout: 300_000 });

let hub: TestHub;
let first: string;

beforeEach(async () => {
  hub = await openHub();
  first = hub.repository.git('rev-parse', 'HEAD');
  await hub.finish(first);
});
afterEach(() => hub.close());

/** The public half of a fresh ed25519 key, as ssh-keygen writes it. */
function newKey(): string {
  const { x = '' } = generateKeyPairSync('ed25519').publicKey.export({ format: 'jwk' });
  const parts = [Buffer.from('ssh-ed25519'), Buffer.from(x, 'base64url')].flatMap((part) => {
    const length = Buffer.alloc(4);
    length.writeUInt32BE(part.length);
    return [length, part];
  });
  return `ssh-ed25519 ${Buffer.concat(parts).toString('base64')}`;
}

const bump = (of: Record<string, string>): string => hub.commit('Bump', { 'fleet/versions.ts': versions(of) });

describe('a commit', () => {
  it('goes stage by stage, and the later one waits for evidence', async () => {
    const commit = bump({ runtime: '1.1.0', kubelet: '1.0.0' });
    await waitFor(async () => (await hub.sets('test'))['runtime'] === '1.1.0', { deadlineMs: 200_000 });
    expect(await hub.sets('prod')).toEqual({ runtime: '1.0.0', kubelet: '1.0.0' });
    await hub.finish(commit);
    expect(await hub.sets('prod')).toEqual({ runtime: '1.1.0', kubelet: '1.0.0' });
    const [set] = (await hub.cell('prod').listAll(MachineComponentSets)).items;
    expect(set?.metadata.annotations?.['kubenode.io/origin']).toMatch(/^fleet\/main\.ts:\d+/);
  });

  it('invariant 10: that changes no unit costs the cells nothing', async () => {
    await hub.stop();
    for (const counter of hub.counters.values()) counter.requests.length = 0;
    await hub.start();
    // One watch for each kind with evidence of its own: component sets, machine sets, policies, repair rules.
    for (const counter of hub.counters.values()) {
      if (counter !== hub.counters.get('hub')) await waitFor(() => counter.requests.filter((request) => request.watch).length === 4);
    }
    for (const counter of hub.counters.values()) counter.requests.length = 0;
    const commit = hub.commit('A remark', { 'fleet/versions.ts': `${versions({ runtime: '1.0.0', kubelet: '1.0.0' })}// a remark\n` });
    await hub.accepted(commit);
    expect(await hub.rollout(commit)).toBeUndefined();
    for (const cell of ['test', 'prod']) expect(hub.counters.get(cell)?.requests.filter((request) => !request.watch)).toEqual([]);
  });

  it('proof case 28: a hub that dies at any point and comes back goes on where it was', async () => {
    const commit = bump({ runtime: '1.1.0', kubelet: '1.0.0' });
    for (let round = 0; round < 3; round += 1) {
      await hub.stop();
      await hub.start();
    }
    await hub.finish(commit);
    expect((await hub.hub.listAll(Rollouts)).items.filter((rollout) => rollout.spec.commit === commit)).toHaveLength(1);
    expect(await hub.sets('prod')).toEqual({ runtime: '1.1.0', kubelet: '1.0.0' });
  });

  it('E8: what the cache lost is rendered again', async () => {
    const { rmSync } = await import('node:fs');
    const commit = bump({ runtime: '1.1.0', kubelet: '1.0.0' });
    await waitFor(async () => (await hub.sets('test'))['runtime'] === '1.1.0', { deadlineMs: 200_000 });
    await hub.stop();
    rmSync(`${hub.dir}/units`, { recursive: true });
    await hub.start();
    await hub.finish(commit);
    expect((await hub.sets('prod'))['runtime']).toBe('1.1.0');
  });

  it('is undone by git revert through the restore lane, without touching what never had it', async () => {
    bump({ runtime: '1.1.0', kubelet: '1.0.0' });
    await waitFor(async () => (await hub.sets('test'))['runtime'] === '1.1.0', { deadlineMs: 200_000 });
    const before = (await hub.cell('prod').get(MachineComponentSets, { name: 'runtime' })).metadata.resourceVersion;
    hub.repository.git('revert', '--no-edit', 'HEAD');
    const revert = hub.repository.git('rev-parse', 'HEAD');
    await waitFor(() => hub.rollout(revert), { deadlineMs: 200_000 });
    await hub.finish(revert);
    expect((await hub.rollout(revert))?.status?.units?.[0]?.lane).toBe('Restore');
    expect((await hub.sets('test'))['runtime']).toBe('1.0.0');
    expect((await hub.cell('prod').get(MachineComponentSets, { name: 'runtime' })).metadata.resourceVersion).toBe(before);
  });

  it('that a cell halts goes no further, and names the machine', async () => {
    const commit = bump({ runtime: '1.9.0', kubelet: '1.0.0' });
    await waitFor(async () => (await hub.sets('test'))['runtime'] === '1.9.0', { deadlineMs: 200_000 });
    await hub.halt('test', 'runtime', 'web/test-1: its probe failed');
    const rollout = await waitFor(async () => [await hub.rollout(commit)].find((each) => each?.status?.phase === 'Halted'), {
      deadlineMs: 200_000,
    });
    expect(rollout.status?.units?.[0]?.message).toContain('web/test-1: its probe failed');
    expect((await hub.sets('prod'))['runtime']).toBe('1.0.0');
    const prod = await hub.hub.get(Clusters, { name: 'prod' });
    expect(prod.status?.units?.find((unit) => unit.unit === 'MachineComponentSet/runtime')?.revoked).toHaveLength(1);
  });

  it('does not wait for an unreachable cluster of a later stage, and reports that it is blocked', async () => {
    hub.away.add('prod');
    const commit = bump({ runtime: '1.1.0', kubelet: '1.0.0' });
    await waitFor(
      async () => {
        await hub.prove('test');
        return (await hub.rollout(commit))?.status?.units?.[0]?.clusters?.some(
          (cluster) => cluster.name === 'prod' && cluster.phase === 'Blocked',
        );
      },
      { deadlineMs: 200_000 },
    );
    await waitFor(
      async () =>
        (await hub.hub.get(Clusters, { name: 'prod' })).status?.conditions?.some(
          ({ type, status }) => type === 'Reachable' && status === 'False',
        ),
      { deadlineMs: 20_000, what: 'prod to be called unreachable' },
    );
    hub.away.delete('prod');
    await hub.finish(commit);
  });

  it('is applied again where a person changed a set by hand', async () => {
    await hub
      .cell('prod')
      .patch(MachineComponentSets, { name: 'runtime' }, { merge: { spec: { version: '6.6.6' } } }, { fieldManager: 'kubectl-edit' });
    await waitFor(async () => (await hub.sets('prod'))['runtime'] === '1.0.0', { deadlineMs: 200_000 });
  });

  it('A7: never changes a version that is in a cluster', async () => {
    const main = hub.repository.git('show', 'HEAD:fleet/main.ts');
    const commit = hub.commit('Change a version in place', {
      'fleet/main.ts': main.replace('{ any: [] }, {}', '{ any: [] }, { healthDeadlineSeconds: 7 }'),
    });
    const condition = await hub.verdict('ImmutableChanged');
    expect(condition.message).toMatch(/fleet\/main\.ts:\d+:\d+: MachineComponent\/kubelet-1\.0\.0 in prod, test/);
    expect(await hub.rollout(commit)).toBeUndefined();
    expect((await hub.cell('test').get(MachineComponents, { name: 'kubelet-1.0.0' })).spec.healthDeadlineSeconds).not.toBe(7);
  });
});

describe('bad input changes nothing, is reported with its position, and recovers when it is corrected', () => {
  const cases: [string, () => Record<string, string>, string, RegExp][] = [
    [
      'a fleet that does not compile',
      () => ({ 'fleet/versions.ts': 'export const versions: = {};\n' }),
      'RenderSyntax',
      /fleet\/versions\.ts:1/,
    ],
    ['a fleet that renders nothing', () => ({ 'fleet/main.ts': 'export {};\n' }), 'RenderEmpty', /nothing|no cluster/i],
    [
      'an invalid object',
      () => ({
        'fleet/main.ts': mainWith(
          "new MachineComponentSet(cluster, 'bad', { component: release('bad', '1.0.0', { any: [] }, {}), maxFailed: 0 });",
        ),
      }),
      'SchemaInvalid',
      /fleet\/main\.ts:\d+.*MachineComponentSet\/bad.*`spec\.maxFailed`: must be >= 1/s,
    ],
    [
      'an object that is there twice',
      () => ({
        'fleet/main.ts': mainWith(
          "new MachineComponentSet(cluster, 'runtime', { component: release('runtime', '1.0.0', { any: [] }, {}) });",
        ),
      }),
      'Duplicate',
      /MachineComponentSet\/runtime/,
    ],
    [
      'a selector of a cluster that does not exist',
      () => ({ 'fleet/main.ts': mainWith('', "fleet.clusters({ stage: 'moon' }, () => {});") }),
      'NoSuchCluster',
      /fleet\/main\.ts:\d+.*moon/s,
    ],
  ];

  function mainWith(inside: string, after = ''): string {
    const main = hub.repository.git('show', 'HEAD:fleet/main.ts');
    return `${main.replace(/\}\);\s*$/, `  ${inside}\n});\n`)}\n${after}\n`;
  }

  it.each(cases)('%s', async (_, files, _code, message) => {
    const before = await Promise.all([hub.sets('test'), hub.sets('prod'), hub.hub.listAll(Rollouts).then((list) => list.items.length)]);
    const bad = hub.commit('An error', files());
    const condition = await waitFor(
      async () => {
        const { status } = await hub.fleet();
        return status?.head === bad ? status.conditions?.find((each) => each.type === 'Ready' && each.status === 'False') : undefined;
      },
      { deadlineMs: 200_000 },
    );
    expect(condition.message).toMatch(message);
    await waitFor(
      async () =>
        (await hub.hub.listAll(Events)).items.some((event) => event.involvedObject.kind === 'Fleet' && event.reason === condition.reason),
      { deadlineMs: 200_000 },
    );
    expect(await Promise.all([hub.sets('test'), hub.sets('prod'), hub.hub.listAll(Rollouts).then((list) => list.items.length)])).toEqual(
      before,
    );
    expect((await hub.fleet()).status?.commit).toBe(first);
    hub.repository.git('revert', '--no-edit', 'HEAD');
    await hub.accepted(hub.repository.git('rev-parse', 'HEAD'));
    await hub.verdict('Accepted');
  });

  it('a repository that is not there', async () => {
    const { renameSync } = await import('node:fs');
    renameSync(hub.repository.dir, `${hub.repository.dir}-away`);
    const condition = await waitFor(
      async () => (await hub.fleet()).status?.conditions?.find((each) => each.type === 'Ready' && each.status === 'False'),
      { deadlineMs: 200_000 },
    );
    expect(condition.message).toContain(hub.repository.dir);
    renameSync(`${hub.repository.dir}-away`, hub.repository.dir);
    await hub.verdict('Accepted');
  });

  it('E7: a rewritten history, until a human accepts exactly that head', async () => {
    const commit = bump({ runtime: '1.1.0', kubelet: '1.0.0' });
    await hub.finish(commit);
    hub.repository.git('reset', '--hard', 'HEAD~1');
    const forced = hub.commit('Another history', { 'fleet/versions.ts': versions({ runtime: '1.2.0', kubelet: '1.0.0' }) });
    const condition = await hub.verdict('HistoryRewritten');
    expect(condition.message).toContain(forced.slice(0, 10));
    expect((await hub.sets('test'))['runtime']).toBe('1.1.0');
    await hub.patchFleet({ acceptRewrittenHead: forced });
    await hub.finish(forced);
    expect((await hub.sets('prod'))['runtime']).toBe('1.2.0');
  });

  it('E7: unsigned commits where SSH signatures are asked for', async () => {
    await hub.patchFleet({ signatures: { allowedSigners: `ada@example.com ${newKey()}` } });
    const commit = bump({ runtime: '1.1.0', kubelet: '1.0.0' });
    const condition = await hub.verdict('Unsigned');
    expect(condition.message).toContain(commit.slice(0, 7));
    expect((await hub.sets('test'))['runtime']).toBe('1.0.0');
    await hub.patchFleet({ signatures: null });
    await hub.finish(commit);
  });

  it('invariant 8: more deletions than the budget', async () => {
    await hub.patchFleet({ prune: { maxDeletions: 1 } });
    hub.commit('Remove a component', { 'fleet/versions.ts': versions({ runtime: '1.0.0' }) });
    expect((await hub.verdict('PruneBudget')).message).toContain('MachineComponentSet/kubelet');
    expect(Object.keys(await hub.sets('prod'))).toContain('kubelet');
    await hub.patchFleet({ prune: { maxDeletions: 2 } });
    await waitFor(async () => (await hub.sets('prod'))['kubelet'] === undefined, { deadlineMs: 200_000 });
    expect((await hub.cell('prod').listAll(MachineComponents)).items.map((component) => component.metadata.name)).toContain(
      'kubelet-1.0.0',
    );
  });

  it('invariant 8: prune deletes only the very object that was applied', async () => {
    const prod = hub.cell('prod');
    const { metadata: _, ...rest } = await prod.get(MachineComponentSets, { name: 'kubelet' });
    hub.away.add('prod');
    await prod.delete(MachineComponentSets, { name: 'kubelet' });
    await prod.create(MachineComponentSets, { ...rest, metadata: { name: 'kubelet' } });
    hub.commit('Remove a component', { 'fleet/versions.ts': versions({ runtime: '1.0.0' }) });
    await waitFor(async () => (await hub.sets('test'))['kubelet'] === undefined, { deadlineMs: 200_000 });
    hub.away.delete('prod');
    const messages = async (): Promise<string[]> =>
      (await hub.hub.listAll(Rollouts)).items.flatMap(({ status }) =>
        (status?.units ?? []).flatMap(({ clusters = [] }) => clusters.flatMap(({ name, message = '' }) => `${name}: ${message}`)),
      );
    await waitFor(
      async () =>
        (await messages()).includes('prod: a user deleted it in its cell and made another one of its name: delete that one there'),
      { deadlineMs: 200_000 },
    );
    expect(Object.keys(await hub.sets('prod'))).toContain('kubelet');
    await prod.delete(MachineComponentSets, { name: 'kubelet' });
    await waitFor(
      async () =>
        (await hub.hub.get(Clusters, { name: 'prod' })).status?.units?.every((unit) => unit.unit !== 'MachineComponentSet/kubelet'),
      { deadlineMs: 200_000 },
    );
  });
});

it('E9: a revert that would let too many machines go arrives but for its MachineSet, names both, and lets them go once they may', async () => {
  const main = hub.repository.git('show', 'HEAD:fleet/main.ts');
  const content = (replicas: number, runtime: string): Record<string, string> => ({
    'fleet/main.ts': main
      .replace('import { fleet, MachineComponentSet,', 'import { fleet, MachineComponentSet, MachineSet,')
      .replace(
        '  for (const [name',
        `  new MachineSet(cluster.pool('web'), 'web', { replicas: ${replicas}, provider: 'local' });\n  for (const [name`,
      ),
    'fleet/versions.ts': versions({ runtime, kubelet: '1.0.0' }),
  });
  const web = { namespace: 'web', name: 'web' };
  /** The controllers of the cells are played here. */
  const settle = async (): Promise<void> => {
    for (const cell of ['test', 'prod']) {
      const client = hub.cell(cell);
      await hub.prove(cell);
      for (const { metadata, status } of (await client.listAll(MachineComponentSets)).items)
        if (status?.desired !== 1)
          await client.patch(MachineComponentSets, metadata, { merge: { status: { desired: 1 } } }, { subresource: 'status' });
      const set = await client.find(MachineSets, web);
      if (set === undefined || set.status?.observedGeneration === set.metadata.generation) continue;
      const { replicas = 0 } = set.spec;
      const status = { observedGeneration: set.metadata.generation, replicas, availableReplicas: replicas, readyReplicas: replicas };
      await client.patch(MachineSets, web, { merge: { status } }, { subresource: 'status' });
    }
  };
  const until = async (what: string, condition: () => Promise<boolean>): Promise<void> => {
    await waitFor(
      async () => {
        await settle();
        return await condition();
      },
      { deadlineMs: 60_000, what },
    );
  };
  const isDone = async (commit: string): Promise<boolean> => (await hub.rollout(commit))?.status?.phase === 'Done';
  const replicasIn = async (cell: string): Promise<number | undefined> => (await hub.cell(cell).find(MachineSets, web))?.spec.replicas;

  const small = hub.commit('A few machines', content(1, '1.0.0'));
  await until('the first machines', () => isDone(small));
  const large = hub.commit('More machines, another version', content(6, '1.1.0'));
  await until('more machines', () => isDone(large));

  const revert = hub.commit('Revert', content(1, '1.0.0'));
  await until('the revert', async () => ['1.0.0'].includes((await hub.sets('prod'))['runtime'] ?? '') && (await isDone(revert)));
  expect(await hub.sets('test')).toMatchObject({ runtime: '1.0.0' });
  expect([await replicasIn('test'), await replicasIn('prod')]).toEqual([6, 6]);
  const { message } = await hub.verdict('HeldBack');
  expect(message).toContain(revert.slice(0, 10));
  expect(message).toContain('MachineSet/web/web in prod: 6 → 1');
  expect(message).toContain('cluster "prod" of stage "prod": 5 of its 6 machines would go, 1 may (maxMachines 10%)');
  expect(message).toContain('set prune: { maxDeletions: 5, maxMachines: "84%" } for stage "prod"');
  expect((await hub.fleet()).status?.commit).toBe(revert);

  await hub.patchFleet({ prune: { maxDeletions: 10, maxMachines: '84%' } });
  await until('fewer machines', async () => (await replicasIn('test')) === 1 && (await replicasIn('prod')) === 1);
  await hub.verdict('Accepted');
});

it('invariant 7: a set that has no machine yet opens no gate while machines are being made', async () => {
  const main = hub.repository.git('show', 'HEAD:fleet/main.ts');
  const withMachines = main
    .replace('import { fleet, MachineComponentSet,', 'import { fleet, MachineComponentSet, MachineSet,')
    .replace('  for (const [name', "  new MachineSet(cluster.pool('web'), 'web', { replicas: 1, provider: 'local' });\n  for (const [name");
  const commit = hub.commit('Add machines', {
    'fleet/main.ts': withMachines,
    'fleet/versions.ts': versions({ runtime: '1.1.0', kubelet: '1.0.0' }),
  });
  const waiting = await waitFor(
    async () => {
      await hub.prove('test');
      const unit = (await hub.rollout(commit))?.status?.units?.find((each) => each.unit === 'MachineComponentSet/runtime');
      return unit?.message?.includes('no machine yet') === true ? unit : undefined;
    },
    { deadlineMs: 200_000 },
  );
  expect(waiting.message).toContain('MachineSet/web/web');
  expect((await hub.sets('prod'))['runtime']).toBe('1.0.0');
});
