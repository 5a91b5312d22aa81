/** What a plan prints is what the hub does after the merge: each test asks the plan, merges, and compares. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { planHub, type PlanHub } from './testing/hub.ts';
import { disruptionOf } from '../../api/disruption.ts';
import { Rollouts } from '../../api/rollout.ts';
import { report } from '../commands/plan.ts';

const TOOL = `
const tool = (version) => release('tool', version, { 'linux/amd64': { url: 'http://127.0.0.1/tool', sha256: '${'a'.repeat(64)}' } }, {
  units: [{ name: 'tool', exec: ['/bin/true'] }],
  probes: [{ name: 'running', unit: 'tool' }],
});`;
const IMPORT = `import { fleet, MachineComponentSet, MachineSet, release } from 'kubenode/constructs';${TOOL}`;
const T = "fleet.cluster('t', { labels: { stage: 'test' } });";
const P = "fleet.cluster('p', { labels: { stage: 'prod' } });";
const BOTH = `${IMPORT}\n${T}\n${P}\n`;
const machines = (count: number, labels = '{}') =>
  `new MachineSet(cluster.pool('web'), 'web', { replicas: ${count}, provider: 'local', template: { metadata: { labels: ${labels} } } });`;
const set = (version: string, more = '') => `new MachineComponentSet(cluster, 'tool', { component: tool('${version}'), ${more} });`;
const all = (...lines: string[]) => `fleet.allClusters((cluster) => {\n${lines.join('\n')}\n});\n`;

let hub: PlanHub;
beforeEach(async () => {
  hub = await planHub();
});
afterEach(async () => await hub.close());

const NOW = Date.parse('2026-11-22T00:00:00Z');
async function accepted(text: string): Promise<string> {
  const head = await hub.commit(text);
  await hub.judged(head);
  expect(hub.ready()?.status, JSON.stringify(hub.ready())).toBe('True');
  return head;
}
async function exitCode(revision?: string): Promise<number> {
  return await report(await hub.plan(revision), undefined, { print: () => undefined, report: () => undefined, live: false, plain: true });
}
const newest = () => hub.rollouts().at(-1);

describe('a plan', { timeout: 280_000 }, () => {
  it('does not call a removal that goes on an addition', async () => {
    await accepted(BOTH + all(machines(4), set('1.0.0')));
    hub.prove();
    // Removed everywhere, stage by stage: `p` still has it.
    await accepted(BOTH + all(machines(4)));
    hub.write(BOTH + all(machines(4)) + `fleet.clusters({ stage: 'test' }, (cluster) => { ${set('1.0.1')} });`);
    const text = await hub.text();
    await accepted(BOTH + all(machines(4)) + `fleet.clusters({ stage: 'test' }, (cluster) => { ${set('1.0.1')} });`);
    const its = newest()?.spec.units.find(({ unit }) => unit === 'MachineComponentSet/tool')?.clusters;
    // The hub goes on removing it from p.
    expect(its?.find(({ name }) => name === 'p')?.digest).toBeUndefined();
    expect(text).not.toMatch(/added in p/);
  });

  it('reports that a set which is removed uninstalls nothing, and that action Remove does', async () => {
    await accepted(BOTH + all(machines(4), set('1.0.0')));
    hub.prove();
    hub.write(BOTH + all(machines(4)));
    expect(await hub.text()).toContain('removed in p, what it installed stays on the machines');
    hub.write(BOTH + all(machines(4), set('1.0.0', "action: 'Remove'")));
    const text = await hub.text();
    expect(text).toMatch(/changed in p, uninstalled from 4 machines, \w+/);
    expect(text).not.toContain('stays on the machines');
  });

  it('reports that a cluster which comes back is taken over', async () => {
    await accepted(BOTH + all(machines(4), set('1.0.0')));
    hub.prove();
    await accepted(`${IMPORT}\n${T}\n` + all(machines(4), set('1.0.1')));
    hub.prove();
    await accepted(`${IMPORT}\n${T}\n` + all(machines(4), set('1.0.0')));
    hub.prove();
    const before = hub.rollouts().length;
    hub.write(BOTH + all(machines(4), set('1.0.0')));
    const code = await exitCode();
    const text = await hub.text();
    await accepted(BOTH + all(machines(4), set('1.0.0')));
    expect(hub.rollouts().length, 'the hub makes a Rollout').toBe(before + 1);
    expect(code, text).toBe(1);
  });

  it('reports that a cluster is paused, or goes on, by the commit', async () => {
    await accepted(BOTH + all(machines(4), set('1.0.0')));
    hub.prove();
    hub.write(
      BOTH.replace("{ labels: { stage: 'prod' } }", "{ labels: { stage: 'prod' }, paused: true }") + all(machines(4), set('1.0.0')),
    );
    const [code, text] = [await exitCode(), await hub.text()];
    await accepted(
      BOTH.replace("{ labels: { stage: 'prod' } }", "{ labels: { stage: 'prod' }, paused: true }") + all(machines(4), set('1.0.0')),
    );
    expect(hub.cluster('p').spec.paused, 'the hub pauses it').toBe(true);
    expect(code, text).toBe(1);
  });

  it('reports that something changes where a commit releases a cluster', async () => {
    await accepted(BOTH + all(machines(4), set('1.0.0')));
    hub.prove();
    hub.write(`${IMPORT}\n${T}\n` + all(machines(4), set('1.0.0')));
    const [code, text] = [await exitCode(), await hub.text()];
    await accepted(`${IMPORT}\n${T}\n` + all(machines(4), set('1.0.0')));
    expect(hub.fleet().status?.clusters).toEqual(['t']);
    expect(text).not.toContain('Nothing changes');
    expect(code, text).toBe(1);
  });

  it('counts the machines of a set whose own scaling is blocked', async () => {
    await accepted(BOTH + all(machines(40), set('1.0.0')));
    hub.prove();
    hub.write(BOTH + all(machines(2), set('1.0.1')));
    const text = await hub.text();
    const head = await hub.commit(BOTH + all(machines(2), set('1.0.1')));
    await hub.judged(head);
    expect(hub.ready()?.reason).toBe('HeldBack');
    expect(text, 'the sets keep their 40 machines, and each of them is restarted').toMatch(/restart of 40 machines/);
  });

  it('counts the machines that a wider selector or pool list adds', async () => {
    const two = (version: string, more: string) =>
      all(machines(4), "new MachineSet(cluster.pool('db'), 'db', { replicas: 30, provider: 'local' });", set(version, more));
    await accepted(BOTH + two('1.0.0', "pools: ['web']"));
    hub.prove();
    hub.write(BOTH + two('1.0.0', "pools: ['web', 'db']"));
    const made = await hub.plan();
    const effect = made.result.state === 'Planned' ? made.result.forecast.units[0]?.clusters[0]?.effect : undefined;
    expect(effect, await hub.text()).toMatchObject({ effect: 'Change' });
  });

  it('reports that a revert of a revert goes through the stages', async () => {
    await accepted(BOTH + all(machines(4), set('1.0.0')));
    hub.prove('2026-11-18T00:00:00Z');
    await accepted(BOTH + all(machines(4), set('1.0.1')));
    hub.prove();
    hub.write(BOTH + all(machines(4), set('1.0.0')));
    const text = await hub.text();
    expect(text).toContain('at once, in all stages');
    await accepted(BOTH + all(machines(4), set('1.0.0')));
    const revoked = hub.decide(NOW).steps.filter((step) => step.do === 'Revoke');
    expect([...new Set(revoked.map(({ cluster }) => cluster))].sort(), 'what it leaves is revoked').toEqual(['p', 't']);
    expect(text, 'so it goes back through the stages').toContain('git revert: goes through the stages again');
  });

  it('reports that a revert of a removal goes through the stages', async () => {
    await accepted(BOTH + all(machines(4), set('1.0.0')));
    hub.prove();
    hub.write(BOTH + all(machines(4)));
    const text = await hub.text();
    await accepted(BOTH + all(machines(4)));
    hub.prove(); // It is gone from both clusters, and its record with it.
    await accepted(BOTH + all(machines(4), set('1.0.0')));
    const applies = hub.decide(NOW).steps.filter((step) => step.do === 'Apply');
    expect(applies.map(({ cluster, lane }) => `${cluster} ${lane}`)).toEqual(['t Forward']);
    expect(text, 'git revert is no way back at once').not.toContain('git revert: goes back at once');
  });

  it('reports what the limits of deletions do to a revert of an addition', async () => {
    await accepted(BOTH + all(machines(4)));
    hub.prove();
    const more = Array.from(
      { length: 5 },
      (_, index) =>
        `new MachineComponentSet(cluster, 's${index}', { component: tool('1.${index}.0'), pools: ['web'], selector: { s: '${index}' } });`,
    );
    hub.write(BOTH + all(machines(4), ...more));
    const text = await hub.text();
    await accepted(BOTH + all(machines(4), ...more));
    const head = await hub.commit(BOTH + all(machines(4)));
    await hub.judged(head);
    expect(hub.ready()?.reason, 'git revert is refused').toBe('PruneBudget');
    expect(text).not.toContain('git revert: takes it away again, at once');
  });

  it('reports that git revert of a pool leaves its Namespace', async () => {
    await accepted(BOTH + all(machines(4)));
    hub.prove();
    hub.write(BOTH + all(machines(4), "cluster.pool('extra');"));
    const text = await hub.text();
    await accepted(BOTH + all(machines(4), "cluster.pool('extra');"));
    await accepted(BOTH + all(machines(4)));
    const removes = hub
      .rollouts()
      .flatMap(({ spec }) =>
        spec.units.flatMap(({ unit, clusters }) => (clusters.some(({ digest }) => digest === undefined) ? [unit] : [])),
      );
    expect(removes, 'no Rollout removes it').toEqual([]);
    expect(text.slice(text.indexOf('Namespace/extra'))).not.toContain('takes it away again, at once');
  });

  it('goes by the age of what was added, as the hub does', async () => {
    await accepted(BOTH + all(machines(4), set('1.0.0')));
    hub.prove();
    for (const name of ['t', 'p'])
      hub.update(name, (cluster) => {
        for (const record of cluster.status?.units ?? [])
          if (record.unit === 'MachineComponentSet/tool')
            record.added = { commit: record.commit ?? '', verifiedAt: '2026-11-10T00:00:00Z' };
      });
    hub.write(BOTH + all(machines(4)));
    const text = await hub.text();
    await accepted(BOTH + all(machines(4)));
    const removes = hub.decide(NOW).steps.filter((step) => step.do === 'Remove');
    expect(removes.map(({ cluster, lane }) => `${cluster} ${lane}`)).toEqual(['t Forward']);
    expect(text).not.toContain('at once, in all stages');
  });

  it('reports that a paused rollout blocks what the commit wants', async () => {
    await accepted(BOTH + all(machines(4), set('1.0.0')));
    hub.prove();
    await accepted(BOTH + all(machines(4), set('1.0.1')));
    const paused = structuredClone(newest());
    if (paused === undefined) throw new Error('no Rollout');
    paused.spec.paused = true;
    hub.server.put(Rollouts, paused);
    await accepted(BOTH + all(machines(4), set('1.0.0')));
    const again = BOTH + all(machines(4), set('1.0.1'));
    hub.write(again);
    const text = await hub.text();
    await accepted(again);
    // The pause of the former Rollout blocks the same content in this one (docs/protocols.md#e12): the hub begins nothing.
    const { steps, statuses } = hub.decide(NOW + 86_400_000);
    expect(steps.filter((step) => step.do === 'Apply')).toEqual([]);
    expect(JSON.stringify([...statuses.values()])).toContain('is paused');
    expect(text).toMatch(/paused/);
  });

  it('reports that its machines block a revert of a new MachineSet', async () => {
    await accepted(BOTH + all(machines(4)));
    hub.prove();
    const more = "new MachineSet(cluster.pool('db'), 'db', { replicas: 10, provider: 'local' });";
    hub.write(BOTH + all(machines(4), more));
    const text = await hub.text();
    await accepted(BOTH + all(machines(4), more));
    hub.prove('2026-11-21T23:59:00Z');
    const head = await hub.commit(BOTH + all(machines(4)));
    await hub.judged(head);
    expect(hub.ready()?.reason, 'git revert takes no machine away').toBe('HeldBack');
    expect(text.slice(text.indexOf('MachineSet/db/db'))).not.toContain('git revert: takes it away again, at once');
  });

  it('counts the machines that a label of a MachineSet adds to a component set', async () => {
    const gold = (labels: string) => all(machines(4, labels), set('1.0.0', "selector: { tier: 'gold' }"));
    await accepted(BOTH + gold('{}'));
    hub.prove();
    hub.write(BOTH + gold("{ tier: 'gold' }"));
    const made = await hub.plan();
    const units = made.result.state === 'Planned' ? made.result.forecast.units : [];
    // The labels of the template reach the machines that are there (src/controllers/machine-set/template.ts), so the set selects all four.
    expect(units.map(({ unit }) => unit)).toEqual(['MachineSet/web/web']);
    expect(
      units.flatMap(({ clusters }) => clusters.flatMap(({ effect }) => effect ?? [])),
      await hub.text(),
    ).toMatchObject([{ effect: 'Change' }, { effect: 'Change' }]);
  });

  it('counts the machines that are there, where they are more than Git has', async () => {
    const gold = (version: string, count: number) => all(machines(count, "{ tier: 'gold' }"), set(version, "selector: { tier: 'gold' }"));
    await accepted(BOTH + gold('1.0.0', 4));
    hub.prove();
    // A user scaled it in the cell, or it grows: what is there is more than Git has.
    for (const name of ['t', 'p'])
      hub.update(name, (cluster) => {
        const [its] = cluster.status?.machines?.sets ?? [];
        if (its !== undefined && cluster.status?.machines !== undefined) {
          its.replicas = 40;
          cluster.status.machines.total = 40;
        }
      });
    hub.write(BOTH + gold('1.0.1', 4));
    // 36 machines go, a tenth at a time, and get the new version meanwhile as all others.
    expect(await hub.text()).toMatch(/restart of 40 machines/);
  });

  it('reports how a commit disrupts machines that have not got the one before it yet', async () => {
    await accepted(BOTH + all(machines(4), set('1.0.0')));
    hub.prove();
    // 2.0.0 is accepted, and waits for the soak of stage test: no cell has it yet.
    await accepted(BOTH + all(machines(4), set('2.0.0')));
    hub.write(BOTH + all(machines(4), set('2.0.1')));
    const text = await hub.text();
    await accepted(BOTH + all(machines(4), set('2.0.1')));
    const [apply] = hub.decide(NOW).steps.filter((step) => step.do === 'Apply');
    expect(apply).toMatchObject({
      cluster: 't',
      over: { digest: hub.cluster('t').status?.units?.find(({ unit }) => unit.endsWith('/tool'))?.digest },
    });
    // What is on the machines is 1.0.0: another major version drains (docs/fleet.md).
    expect(disruptionOf({ version: '1.0.0' }, { version: '2.0.1', disruption: {} })).toBe('Drain');
    expect(text).toMatch(/drain of 4 machines/);
  });

  it('names what keeps a change from beginning in an earlier stage that it does not change', async () => {
    const both = (t: string, p: string) =>
      `${BOTH}${all(machines(4))}fleet.clusters({ stage: 'test' }, (cluster) => { ${set(t)} });fleet.clusters({ stage: 'prod' }, (cluster) => { ${set(p)} });`;
    await accepted(both('1.0.0', '1.0.0'));
    hub.prove();
    // In t it was never proven, and t is away.
    hub.update('t', (cluster) => {
      for (const record of cluster.status?.units ?? [])
        if (record.unit.endsWith('/tool')) {
          delete record.evidence;
          delete record.verified;
        }
      for (const condition of cluster.status?.conditions ?? []) Object.assign(condition, { status: 'False', message: 'no route' });
    });
    const next = both('1.0.0', '1.0.1');
    hub.write(next);
    const text = await hub.text();
    await accepted(next);
    hub.update('t', (cluster) => void (cluster.spec.paused = true));
    expect(
      hub.decide(NOW + 90 * 86_400_000).steps.filter((step) => step.do === 'Apply'),
      'the hub begins nothing in p',
    ).toEqual([]);
    expect(text).toContain('no route');
  });

  it('reports that a unit cannot begin where another Fleet has it', async () => {
    await accepted(BOTH + all(machines(4)));
    hub.prove();
    hub.update('p', (cluster) => {
      cluster.status = {
        ...cluster.status,
        units: [
          ...(cluster.status?.units ?? []),
          {
            unit: 'MachineComponentSet/tool',
            fleet: 'other',
            digest: 'v1:x',
            commit: 'c',
            evidence: 'v1:x',
            verified: [{ digest: 'v1:x', commit: 'c', at: '2026-11-20T00:00:00Z', order: 1 }],
          },
        ],
      };
    });
    const next = BOTH + all(machines(4)) + `fleet.clusters({ stage: 'prod' }, (cluster) => { ${set('1.0.0')} });`;
    hub.write(next);
    const text = await hub.text();
    await accepted(next);
    const { steps, statuses } = hub.decide(NOW + 90 * 86_400_000);
    expect(steps.filter((step) => step.do === 'Apply')).toEqual([]);
    expect(JSON.stringify([...statuses.values()])).toContain('belongs to fleet');
    expect(text).toMatch(/other/);
  });
});
