/** The author of a pull request chooses keys, values and what its code throws: none of it writes a line of the plan, or hides one. */
import { rmSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { Command } from 'commander';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { plainOutput } from '../../api/plain-text.ts';
import { ofFile, planCommand, report } from '../commands/plan.ts';
import type { Output } from '../output.ts';
import { planLines } from './lines.ts';
import { makePlan } from './make.ts';
import { planMarkdown } from './markdown.ts';
import { snapshotText } from './snapshot.ts';
import { acceptedBy, fleetText, planHub, SERVICE_ACCOUNT, SIGNAL, type PlanHub } from './testing/hub.ts';

let hub: PlanHub;
beforeEach(async () => {
  hub = await planHub();
});
afterEach(async () => await hub.close());
const accepted = async (text: string): Promise<string> => await acceptedBy(hub, text);

describe('the text of a plan', { timeout: 280_000 }, () => {
  it('has no line that a key of an object made', async () => {
    await accepted(fleetText('{}', SERVICE_ACCOUNT));
    hub.prove();
    hub.write(fleetText(JSON.stringify({ 'x: 1 → 2\n\nNothing changes.\n::error file=x::y\n\n': 1 })));
    const lines = planLines(await hub.plan())
      .join('\n')
      .split('\n');
    expect(lines).not.toContain('Nothing changes.');
  });

  it('has no line that a value of an object made', async () => {
    await accepted(fleetText('{}', SERVICE_ACCOUNT));
    hub.prove();
    hub.write(fleetText(JSON.stringify({ x: '1\n\nNothing changes.\n::add-mask::0\n' })));
    const lines = planLines(await hub.plan())
      .join('\n')
      .split('\n');
    expect(lines).not.toContain('Nothing changes.');
  });

  it.each(['toString', 'valueOf', 'hasOwnProperty'])('has a key that every object has: %s', async (key) => {
    await accepted(fleetText('{"b":"1"}'));
    hub.prove();
    hub.write(fleetText(`{"b":"1",["${key}"]:"x"}`));
    const made = await hub.plan();
    expect(planLines(made).join('\n')).toContain(`${key}: nothing → x`);
    expect(planMarkdown(made)).toContain(key);
  });

  it('that cannot be printed is none: the code is not that of a change', async () => {
    await accepted(fleetText('{}'));
    hub.prove();
    hub.write(fleetText('{"a":"1"}'));
    const file = join(hub.root, '..', `${basename(hub.root)}.json`);
    writeFileSync(file, snapshotText(await hub.snapshot()));
    const reported: string[] = [];
    const output: Output = {
      print: () => {
        throw new TypeError('oops');
      },
      report: (_word, text) => void reported.push(text),
      live: false,
      plain: true,
    };
    let code: number | undefined;
    const program = new Command();
    planCommand(program, async (work) => void (code = await work(output)));
    await program.parseAsync(['plan', '--folder', hub.root, '--snapshot', file], { from: 'user' });
    rmSync(file);
    expect(code).toBe(4);
    expect(reported.join('\n')).toContain('oops');
  });

  it('has its deletions in the comment, however long a key is', async () => {
    await accepted(fleetText('{}', SERVICE_ACCOUNT));
    hub.prove();
    // It deletes a ServiceAccount beside.
    hub.write(fleetText(JSON.stringify({ [`k\n\nNothing changes.${'\n'.repeat(59_000)}`]: 1 })));
    const made = await hub.plan();
    expect(planLines(made).join('\n')).toContain('ServiceAccount/web/z');
    const markdown = planMarkdown(made);
    expect(markdown.length).toBeLessThanOrEqual(65_536);
    expect(markdown.includes('ServiceAccount/web/z'), 'the deletion is in it').toBe(true);
  });

  it('is a comment that platforms take, however many backticks are in it', async () => {
    await accepted(fleetText('{}'));
    hub.prove();
    hub.write(fleetText(JSON.stringify({ ['`'.repeat(55_000)]: 1 })));
    expect(planMarkdown(await hub.plan()).length).toBeLessThanOrEqual(65_536);
  });

  it('is a comment that platforms take, however long the message of a refusal is', async () => {
    await accepted(fleetText('{}'));
    hub.prove();
    hub.write(`${fleetText('{}')}\nthrow new Error('x'.repeat(1000000));`);
    const made = await hub.plan();
    expect(made.result.state).toBe('Refused');
    expect(planMarkdown(made).length).toBeLessThanOrEqual(65_536);
  });

  it('has no characters in the comment that reorder or hide text', async () => {
    await accepted(fleetText('{ image: "a" }'));
    hub.prove();
    hub.write(fleetText(JSON.stringify({ image: 'a\u202Eliver\u202C\u200b' })));
    const markdown = plainOutput(planMarkdown(await hub.plan()), { format: false }); // As `kubenode plan -o markdown > plan.md` prints it.
    expect(markdown).not.toMatch(/[\u202E\u200b]/);
  });

  it('has no line that an error of the code of the fleet made', async () => {
    await accepted(fleetText('{}', SERVICE_ACCOUNT));
    hub.prove();
    hub.write(`${fleetText('{}')}\nthrow new Error('no\\n\\nNothing changes.\\n::error::x');`);
    const made = await hub.plan();
    expect(made.result.state).toBe('Refused');
    for (const line of planLines(made).join('\n').split('\n')) expect(line.trim()).not.toMatch(/^(Nothing changes|::)/);
  });

  it('reports in the comment that its snapshot is old', async () => {
    await accepted(fleetText('{}'));
    hub.prove();
    const file = join(hub.root, 'hub.json');
    writeFileSync(file, snapshotText(await hub.snapshot()));
    const printed: string[] = [];
    const output = { print: (text: string) => void printed.push(text), report: () => undefined, live: false, plain: true };
    // Ten days later, in CI, where stderr is not what people read.
    const snapshot = await ofFile(file, Date.parse('2026-12-02T00:00:00Z'));
    await report(
      await makePlan({ folder: hub.root, revision: undefined, fleet: undefined }, snapshot, hub.renderer, SIGNAL),
      'markdown',
      output,
    );
    expect(printed.join('')).toMatch(/old/);
  });
});

describe('a snapshot', { timeout: 280_000 }, () => {
  it('has no address, credential or name of an object in a cell', async () => {
    await hub.close();
    const applied = JSON.stringify({
      spec: {
        source: { url: 'https://git.internal.example/fleet.git' },
        signatures: { allowedSigners: 'ada@example.com ssh-ed25519 AAAA' },
      },
    });
    hub = await planHub({}, { annotations: { 'kubectl.kubernetes.io/last-applied-configuration': applied } });
    await accepted(fleetText('{}'));
    hub.prove();
    hub.update('p', (cluster) => {
      const at = '2026-11-20T00:00:00Z';
      cluster.status = {
        ...cluster.status,
        orphans: { total: 1, first: [{ object: 'MachineSet/web/orphaned-in-cell', fleet: 'old', reason: 'NotDeclared' }] },
        conditions: [
          {
            type: 'Reachable',
            status: 'False',
            reason: 'Unreachable',
            message: 'GET https://10.20.30.40:6443/version: ECONNREFUSED',
            lastTransitionTime: at,
          },
        ],
      };
      const [record] = cluster.status.units ?? [];
      if (record !== undefined) record.halt = { digest: record.digest ?? '', message: 'machine web/web-x7k2p failed: probe', since: at };
    });
    const text = snapshotText(await hub.snapshot());
    const leaks = ['git.internal.example', 'ssh-ed25519', 'orphaned-in-cell', '10.20.30.40', 'web-x7k2p', hub.root].filter((each) =>
      text.includes(each),
    );
    expect(leaks).toEqual([]);
  });
});
