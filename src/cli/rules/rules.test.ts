import { mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { childBundle } from '../../sync/render/testing/child-bundle.ts';
import { reportCheck, reportTest } from '../commands/rules.ts';
import type { Output } from '../output.ts';
import { writeInto } from '../testing/tree.ts';
import { fleetRules } from './fleet-rules.ts';
import { runHistories } from './histories.ts';
import { HUNG_RULE } from './testing.ts';
import { unusedFiles } from './unused.ts';
import { DEFAULT_ENTRY, DEFAULT_INCLUDE } from '../../sync/fleet/entry.ts';

const MAIN = `import { fleet } from 'kubenode/constructs';
import '../rules/hung.ts';
fleet.cluster('prod');
fleet.cluster('test');
`;
const HEALS = {
  name: 'a boot repairs it',
  events: [
    { at: 0, conditions: { KernelDeadlock: 'False' } },
    { at: 60, conditions: { KernelDeadlock: 'True' } },
    { at: 120, boot: true, detectors: 'Restarted' },
    { at: 130, acted: 'Succeeded' },
  ],
  expect: [{ at: 90, action: 'Reboot', ends: 'Succeeded', endsAt: 490 }],
};

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'kubenode-rules-'));
  write('fleet/main.ts', MAIN);
  write('rules/hung.ts', HUNG_RULE);
});
afterEach(() => rmSync(root, { recursive: true }));

const write = (path: string, content: string | object): string =>
  writeInto(root, path, typeof content === 'string' ? content : JSON.stringify(content));

const history = (name: string, content: string | object) => write(`rules/histories/hung/${name}.json`, content);
const load = async () =>
  await fleetRules({ root, entry: DEFAULT_ENTRY, include: DEFAULT_INCLUDE }, await childBundle(), AbortSignal.timeout(30_000));

/** What a command prints on stdout and stderr, and its exit code. */
function printed(report: (output: Output) => number): string {
  const lines: string[] = [];
  const code = report({
    live: false,
    plain: true,
    print: (text) => void lines.push(text),
    report: (word, message) => void lines.push(`(${word}) ${message}`),
  });
  return `${lines.join('\n')}\n(exit ${code})\n`;
}
/** The first check of types after a change of the sources makes declarations of them. */
const TYPES_MS = 120_000;
const typed = async () =>
  await fleetRules({ root, entry: DEFAULT_ENTRY, include: DEFAULT_INCLUDE }, await childBundle(), AbortSignal.timeout(TYPES_MS), {
    types: true,
  });
const check = async (json = false) => {
  const rules = await load();
  return printed((output) => reportCheck(rules, json, output));
};
const test = async (json = false, names: string[] = []) => {
  const runs = await runHistories(root, (await load()).rules, names);
  return printed((output) => reportTest(runs, json, output, 'namespaces'));
};

describe('kubenode rules check', () => {
  it('lists the rules of a fleet, once for all clusters that have them', async () => {
    await expect(await check()).toMatchFileSnapshot('golden/check.txt');
  });

  it(
    'checks types, which the hub does without',
    async () => {
      expect((await typed()).findings).toEqual([]);
      write('rules/hung.ts', HUNG_RULE.replace('holdsForSeconds: 30', 'holdsForSeconds: Number("30") as unknown as string'));
      const rules = await typed();
      const text = printed((output) => reportCheck(rules, false, output));
      expect(text).toMatch(/rules\/hung\.ts:6:5: .*string.*number/);
      expect(text).toContain('(failed) 1 error: the hub would not notice');
      const { findings, untyped } = await fleetRules(
        { root, entry: DEFAULT_ENTRY, include: DEFAULT_INCLUDE },
        await childBundle(),
        AbortSignal.timeout(TYPES_MS),
        { types: true, isolationAtLeast: 'namespaces' },
      );
      expect({ findings, untyped }).toEqual({ findings: [], untyped: 'the compiler runs behind no wall' });
      expect(printed((output) => reportCheck({ ...rules, findings: [], untyped: 'no compiler' }, false, output))).toContain(
        '(warning) types were not checked: no compiler',
      );
    },
    TYPES_MS,
  );

  it('names file and line, cluster, object, field and hint of each finding, once', async () => {
    write(
      'rules/hung.ts',
      HUNG_RULE.replace("'False', forSeconds: 300", "'True', forSeconds: 300").replace(
        'reboot()',
        "reboot(), { action: 'Reboot', attempts: 3 }",
      ),
    );
    await expect(await check()).toMatchFileSnapshot('golden/check-errors.txt');
    expect(JSON.parse((await check(true)).split('\n')[0] ?? '')).toMatchObject({
      ok: false,
      rules: [],
      findings: expect.arrayContaining([
        expect.objectContaining({
          code: 'RuleInvalid',
          file: 'rules/hung.ts',
          line: 4,
          path: 'spec.ladder[1]',
          clusters: ['prod', 'test'],
        }),
      ]) as unknown,
    });
  });

  it('leads to the very line of a fact that there is not', async () => {
    write(
      'rules/hung.ts',
      HUNG_RULE.replace("condition('KernelDeadlock').is('True')", "fact('machine.fase').equals('x')").replace('condition,', 'fact,'),
    );
    await expect(await check()).toMatchFileSnapshot('golden/check-fact.txt');
  });

  it('finds a rule that nothing imports, and any other file of the fleet that is never run', async () => {
    write('rules/lonely.ts', HUNG_RULE.replaceAll('hung', 'lonely'));
    write('fleet/old.ts', "import './older.ts';\n");
    write('fleet/older.ts', '');
    write('fleet/main.ts', `// import '../rules/lonely.ts';\n${MAIN}`);
    await expect(await check()).toMatchFileSnapshot('golden/check-unused.txt');
    expect(JSON.parse((await check(true)).split('\n')[0] ?? '')).toMatchObject({
      ok: false,
      findings: ['fleet/old.ts', 'fleet/older.ts', 'rules/lonely.ts'].map((file) => ({ code: 'FileUnused', file })),
    });
    write('fleet/main.ts', `${MAIN}import './old.ts';\nimport '../rules/lonely.ts';\n`);
    expect(await check()).toContain('2 rules in 2 clusters, no errors');
  });

  it('finds nothing wrong with tests, what they import, histories, declarations and files that are no code', async () => {
    history('heals', HEALS);
    write('rules/hung.test.ts', "import { it } from 'vitest';\nimport { help } from './testing/help.ts';\n");
    write('rules/testing/help.ts', '');
    for (const path of ['rules/hung.history.ts', 'rules/globals.d.ts', 'fleet/README.md', 'fleet/unused.json', 'fleet/vitest.config.ts'])
      write(path, '');
    expect(await check()).toContain('no errors');
  });

  it.each([
    "import {\n  a, // don't\n  b,\n} from './parts.ts';\nconsole.log(a, b);",
    "import { type C, a } from './parts.ts'; console.log(a);",
    'import parts, * as all from "./parts.ts"; console.log(all, parts);',
    "export * from './parts.ts';",
    "export { a } from '../fleet/./parts.ts';",
    "const glob = 'a/*'; import './parts.ts'; /* */",
    "/* first */ import './parts.ts';",
    "import './parts.ts' /* why */;",
    "import text from './parts.ts' with { type: 'text' }; console.log(text);",
  ])('sees an import however it is written: %s', async (line) => {
    write('fleet/parts.ts', 'export const a = 1;\nexport const b = 2;\nexport default 3;\n');
    write('fleet/main.ts', `${MAIN}${line}\n`);
    expect(await check()).toContain('no errors');
  });

  it.each(['import\n', '*/import ', '/*', '\n', ' ', 'import {\n', ';import', "'\n"])(
    'reads a text of nothing but %j in no time',
    (part) => {
      const began = performance.now();
      unusedFiles(new Map([['fleet/main.ts', part.repeat(300_000 / part.length)]]), 'fleet/main.ts');
      // Reading on from each part to the end would take a minute.
      expect(performance.now() - began).toBeLessThan(3000);
    },
  );

  it('reports that a fleet has no rules, and that a folder has no fleet', async () => {
    rmSync(join(root, 'rules'), { recursive: true });
    write('fleet/main.ts', "import { fleet } from 'kubenode/constructs';\nfleet.cluster('a').pool('web');\n");
    expect(await check()).toBe('(warning) the fleet has no repair rules\n(exit 0)\n');
    rmSync(join(root, 'fleet'), { recursive: true });
    await expect(load()).rejects.toMatchObject({ code: 'FleetNotFound', next: expect.stringContaining('--entry') as unknown });
  });
});

describe('kubenode rules test', () => {
  it('reports what happened in each history', async () => {
    history('heals', HEALS);
    history('never', { name: 'must not fire', events: HEALS.events.slice(0, 1), expect: [] });
    await expect(await test()).toMatchFileSnapshot('golden/test.txt');
  });

  it('fails where something else happened than is expected, and where something is wrong with a history', async () => {
    history('differs', { ...HEALS, expect: [{ at: 90, action: 'Replace' }] });
    history('no-expect', { name: 'nothing', events: HEALS.events });
    history('no-json', '{');
    history('typo', { ...HEALS, events: [{ at: 0, condition: {} }] });
    write('rules/histories/gone/heals.json', HEALS);
    await expect(await test()).toMatchFileSnapshot('golden/test-failed.txt');
  });

  it('does not pass a rule without a history, nor a fleet without rules', async () => {
    expect(await test()).toContain('FAIL  it has no history: write rules/histories/hung/heals.json');
    rmSync(join(root, 'rules'), { recursive: true });
    write('fleet/main.ts', "import { fleet } from 'kubenode/constructs';\nfleet.cluster('a').pool('web');\n");
    expect(await test()).toBe('(failed) there is nothing to test: the fleet has no repair rules\n(exit 1)\n');
  });

  it('tests the rules that are named, and knows those that are not', async () => {
    history('heals', HEALS);
    write('rules/histories/gone/heals.json', HEALS);
    const { passed, failed } = JSON.parse((await test(true, ['hung'])).split('\n')[0] ?? '') as { passed: number; failed: number };
    expect([passed, failed]).toEqual([1, 0]);
    await expect(test(false, ['hang'])).rejects.toMatchObject({ code: 'NotFound', message: 'the fleet has no rule "hang"; it has hung' });
  });

  it('tests each variant of a rule that differs between clusters', async () => {
    write('rules/hung.ts', HUNG_RULE.replace('holdsForSeconds: 30', "holdsForSeconds: cluster.name === 'prod' ? 30 : 60"));
    history('heals', HEALS);
    const text = await test();
    expect(text).toContain('ok    heals.json (prod): a boot repairs it');
    expect(text).toContain('FAIL  heals.json (test): a boot repairs it');
  });
});

describe('the files of a folder', () => {
  it.each([
    ['TreeLfsPointer', 'fleet/big.bin', 'version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n'],
    ['TreeDuplicateName', 'fleet/MAIN.ts', 'export {}'],
  ])('are refused for %s, as by the hub', async (code, path, text) => {
    write(path, text);
    await expect(load()).rejects.toMatchObject({ code, message: expect.stringContaining('fleet/') as unknown });
  });
});

describe('security 4: a pull request cannot show what the checking machine has', () => {
  it.each(['fleet/env.txt', 'rules/env.ts', 'fleet/sub'])('by a link at %s', async (at) => {
    symlinkSync(at.endsWith('sub') ? '/proc/self' : '/proc/self/environ', join(root, at));
    await expect(load()).rejects.toMatchObject({ code: 'TreeSymlink', message: expect.stringContaining(`${at}:`) as unknown });
  });

  it('by a link among the histories', async () => {
    history('heals', HEALS);
    const { rules } = await load();
    symlinkSync('/proc/self/environ', join(root, 'rules/histories/hung/leak.json'));
    await expect(runHistories(root, rules, [])).rejects.toMatchObject({ code: 'TreeSymlink' });
  });
});
