/**
 * What takes too long for every change: random or exhaustive, for minutes or hours. Its counts are published in docs/proof.md.
 *
 *   npm run test:long                      everything, one part after the other
 *   npm run test:long -- explorer dates    these parts
 *   npm run test:long -- --list            the parts, and what each of them does
 *
 * Prints a line for each part, then `N passed, N failed`. Exit code 0 when every part passed, else 1.
 */
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { findFieldManager } from '../../tools/field-manager/program.ts';
import { shiftedDates, whyNoShiftedDates } from './dates.ts';

const root = join(dirname(fileURLToPath(import.meta.url)), '../..');
const print = (line: string): void => void process.stderr.write(`${line}\n`);

type Environment = Readonly<Record<string, string>>;

interface Command {
  readonly args: readonly string[];
  readonly env?: Environment;
  /** It is vitest, whose tests are counted. */
  readonly counted: boolean;
}

interface Part {
  readonly about: string;
  /** Throws where the part cannot run here. */
  commands(): Promise<Command[]> | Command[];
}

const vitest = (env: Environment, ...args: string[]): Command => ({
  args: [join(root, 'node_modules/vitest/vitest.mjs'), 'run', ...args],
  env,
  counted: true,
});
const program = (env: Environment, ...args: string[]): Command => ({ args, env, counted: false });

/** Folders whose mutants are counted: those that decide, and those that write. */
const MUTATED = ['src/sync', 'src/agent', 'src/defender', 'src/rules', 'src/kube', 'src/providers', 'src/controllers/machine'].concat(
  ['machine-component-set', 'machine-set', 'remedy', 'remedy-job', 'identity'].map((name) => `src/controllers/${name}`),
);

/** Tests of another folder that prove something of a folder: the life of an agent's identity needs a cell. */
const PROVEN_ELSEWHERE: Readonly<Record<string, readonly string[]>> = { 'src/agent': ['--tests', 'src/controllers/identity/life.test.ts'] };

const PARTS: Readonly<Record<string, Part>> = {
  explorer: {
    about: 'every state of the large worlds of the explorer, each to its end',
    commands: () => [vitest({ KUBENODE_EXPLORE: 'large' }, '--project=unit', 'test/explorer')],
  },
  agent: {
    about: 'the agent ended at every change twice, names that reach the disk in any order, and 200 random lives',
    commands: () => [vitest({ KUBENODE_THOROUGH: '1' }, '--project=unit', 'src/agent')],
  },
  worlds: {
    about: 'random worlds of sets, machines, repairs and rollouts, far more than in each run',
    commands: () => [vitest({ KUBENODE_THOROUGH: '1' }, '--project=unit', 'property.test.ts', 'src/sync/rollout/model.test.ts')],
  },
  fieldmanager: {
    about: 'fresh random writes, compared with what Kubernetes’ own field manager makes of them (Go)',
    commands: async () => [
      vitest({ KUBENODE_FIELD_MANAGER: await findFieldManager(print) }, '--project=unit', 'packages/embedded/src/apply/recorded.test.ts'),
    ],
  },
  random: {
    about: 'every property with random input that no run had before; a failure prints its seed',
    commands: () => [vitest({ KUBENODE_RANDOM: 'fresh' }, '--project=unit')],
  },
  writes: {
    about: '2,000 fresh histories of random writes, on the embedded server and on kube-apiserver (Go)',
    commands: () => [
      program(
        { KUBENODE_RANDOM: 'fresh', KUBENODE_WRITES: '2000' },
        join(root, 'test/kubernetes/main.ts'),
        'test/conformance/random-writes.test.ts',
      ),
    ],
  },
  oldest: {
    about: 'the suites and the tour on the oldest Kubernetes that is supported (Go)',
    commands: () => [program({ KUBENODE_KUBERNETES: '1.30' }, join(root, 'test/kubernetes/main.ts'))],
  },
  dates: {
    about: 'unit and conformance tests a day, 400 days and up to the end of the year from now (libfaketime)',
    commands: () => {
      const why = whyNoShiftedDates();
      if (why !== undefined) throw new Error(why);
      // A Go program reads the kernel's clock past the library, and takes the certificates of a shifted server for ones of the future.
      const others = ['--exclude=test/kubernetes/client-go.test.ts', '--exclude=packages/embedded/src/serve/kubectl.test.ts'];
      return shiftedDates(new Date()).map((env) => vitest(env, '--project=unit', '--project=conformance', ...others));
    },
  },
  mutants: {
    about: 'random mutants of the folders that decide and write, at least 90 of 100 of them must be noticed',
    commands: () =>
      MUTATED.map((folder) => {
        const elsewhere = PROVEN_ELSEWHERE[folder] ?? [];
        return program({}, join(root, 'tools/mutate.ts'), folder, ...elsewhere, '--seed', '1', '--count', '30', '--least', '90');
      }),
  },
};

interface Outcome {
  readonly passed: number;
  readonly failed: number;
}

async function run({ args, env = {}, counted }: Command): Promise<Outcome> {
  const folder = mkdtempSync(join(tmpdir(), 'kubenode-long-'));
  const report = join(folder, 'report.json');
  try {
    const reporters = counted ? ['--reporter=dot', '--reporter=json', `--outputFile.json=${report}`] : [];
    const child = spawn(process.execPath, [...args, ...reporters], { cwd: root, stdio: ['ignore', 2, 2], env: { ...process.env, ...env } });
    const code = await new Promise<number>((done, failed) => {
      child.once('error', failed);
      child.once('exit', (exit) => done(exit ?? 1));
    });
    if (!counted) return { passed: code === 0 ? 1 : 0, failed: code === 0 ? 0 : 1 };
    // Written by vitest's JSON reporter.
    const { numPassedTests: passed, numFailedTests: failed } = JSON.parse(readFileSync(report, 'utf8')) as Record<string, number>;
    return { passed: passed ?? 0, failed: code === 0 ? 0 : Math.max(1, failed ?? 0) };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function runPart(name: string, part: Part): Promise<Outcome> {
  const begun = performance.now();
  const total = { passed: 0, failed: 0 };
  try {
    for (const command of await part.commands()) {
      const { passed, failed } = await run(command);
      total.passed += passed;
      total.failed += failed;
    }
  } catch (error) {
    total.failed += 1;
    print(`${name}: ${error instanceof Error ? error.message : String(error)}`);
  }
  print(`== ${name}: ${total.passed} passed, ${total.failed} failed, ${((performance.now() - begun) / 1000).toFixed(0)} s`);
  return total;
}

async function main(args: readonly string[]): Promise<number> {
  if (args.includes('--list')) {
    for (const [name, { about }] of Object.entries(PARTS)) process.stdout.write(`${name.padEnd(14)}${about}\n`);
    return 0;
  }
  const unknown = args.find((name) => PARTS[name] === undefined);
  if (unknown !== undefined) throw new Error(`there is no part "${unknown}"; the parts are ${Object.keys(PARTS).join(', ')}`);
  const chosen = Object.entries(PARTS).filter(([name]) => args.length === 0 || args.includes(name));
  let passed = 0;
  let failed = 0;
  for (const [name, part] of chosen) {
    const outcome = await runPart(name, part);
    passed += outcome.passed;
    failed += outcome.failed;
  }
  process.stdout.write(`${passed} passed, ${failed} failed\n`);
  return failed === 0 ? 0 : 1;
}

try {
  process.exitCode = await main(process.argv.slice(2));
} catch (error) {
  print(error instanceof Error ? error.message : String(error));
  process.exitCode = 2;
}
