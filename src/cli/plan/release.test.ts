/** A release is immutable (docs/protocols.md#e19), and a plan refuses what the hub refuses. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { acceptedBy, planHub, type PlanHub } from './testing/hub.ts';

const tool = (sha: string) => `
const tool = (version) => release('tool', version, { 'linux/amd64': { url: 'http://127.0.0.1/tool', sha256: (version === '1.0.1' ? '${sha}' : 'a').repeat(64) } }, {
  units: [{ name: 'tool', exec: ['/bin/true'] }],
  probes: [{ name: 'running', unit: 'tool' }],
});`;
const text = (
  version: string,
  sha = 'b',
  more = '',
) => `import { fleet, MachineComponentSet, MachineSet, release } from 'kubenode/constructs';${tool(sha)}
fleet.cluster('p', { labels: { stage: 'prod' } });
fleet.allClusters((cluster) => {
  new MachineSet(cluster.pool('web'), 'web', { replicas: 4, provider: 'local' });
  ${version === '' ? '' : `new MachineComponentSet(cluster, 'tool', { component: tool('${version}') });`}${more}
});
`;
let hub: PlanHub;
beforeEach(async () => {
  hub = await planHub();
});
afterEach(async () => await hub.close());
const toolIn = (of: PlanHub) => of.cluster('p').status?.units?.find(({ unit }) => unit === 'MachineComponentSet/tool');

/** What the plan shows of this fleet, and what the hub does with its commit. */
async function both(fleet: string): Promise<{ plan: string; hub: string | undefined; warnings: string[] }> {
  hub.write(fleet);
  const { result, warnings } = await hub.plan();
  await hub.judged(await hub.commit(fleet));
  return { plan: result.state === 'Refused' ? result.code : result.state, hub: hub.ready()?.reason, warnings };
}

describe('E19: a plan', { timeout: 280_000 }, () => {
  it('refuses a release that was left, and comes back with other content, as the hub does', async () => {
    for (const version of ['1.0.0', '1.0.1', '1.0.0']) {
      await acceptedBy(hub, text(version));
      hub.prove();
    }
    expect(await both(text('1.0.1', 'c'))).toEqual({ plan: 'ImmutableChanged', hub: 'ImmutableChanged', warnings: [] });
    expect(await both(text('1.0.1', 'b'))).toEqual({ plan: 'Planned', hub: 'Accepted', warnings: [] });
  });

  it('of the release as the cluster has it, where other content of it began and was refused there', async () => {
    for (const version of ['1.0.0', '1.0.1', '1.0.0']) {
      await acceptedBy(hub, text(version));
      hub.prove();
    }
    // A hub of an earlier version accepted it.
    const earlier = await planHub();
    await acceptedBy(earlier, text('1.0.1', 'c'));
    const [begun, unit] = [...earlier.kept].find(([, { key }]) => key === 'MachineComponentSet/tool') ?? [];
    await earlier.close();
    hub.update('p', (cluster) => {
      const record = cluster.status?.units?.find((each) => each.unit === unit?.key);
      if (record === undefined || begun === undefined || unit === undefined) throw new Error('no record');
      record.begun = begun;
      hub.kept.set(begun, unit);
    });
    expect(await both(text('1.0.1', 'b'))).toMatchObject({ plan: 'Planned', hub: 'Accepted' });
  });

  it('warns of a release of another Fleet, whose content is not known there', async () => {
    await acceptedBy(hub, text('', 'b'));
    hub.prove();
    const other = await planHub();
    await acceptedBy(other, text('1.0.1', 'b'));
    other.prove();
    const record = toolIn(other);
    const unit = other.kept.get(record?.digest ?? '');
    await other.close();
    if (record === undefined || unit === undefined) throw new Error('no record');
    hub.kept.set(record.digest ?? '', unit);
    hub.update('p', (cluster) => {
      const units = [...(cluster.status?.units ?? []), { ...record, unit: 'MachineComponentSet/theirs', fleet: 'theirs' }];
      cluster.status = { ...cluster.status, units };
    });
    expect(await both(text('1.0.1', 'c'))).toEqual({
      plan: 'Planned',
      hub: 'ImmutableChanged',
      warnings: [
        'releases of Fleet theirs are not known here: where a cluster has one of them with other content, the hub refuses the commit (ImmutableChanged)',
      ],
    });
  });
});
