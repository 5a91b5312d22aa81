/** Random mutants of the sources, each against the tests of its folder; `--help` prints how to use it. */
import { execFileSync, spawn } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { applied, mutantsOf, type Mutant } from './mutants.ts';
import { stagesOf } from './test-stages.ts';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');

const HELP = `usage: node tools/mutate.ts <folder or file> [options]

Changes the sources of a folder, one small change (mutant) at a time, and runs the tests of that folder against each. Prints each mutant
that survives, with its line: no test notices that change. Works on a copy of the tree.

  --seed N         which mutants are chosen (default 1): the same seed and tree give the same mutants
  --count N        how many (default 30)
  --all            every mutant, instead of --count
  --quick          only the quick tests: a tenth of the time, and more mutants survive than with all tests
  --tests FOLDER   with the tests of this folder too; may be given several times
  --least N        exit code 1 where fewer than N of 100 were killed (default 0)
  --help           this text

A mutant meets the quick tests that import its file first, and the others only if it survives them. A mutant whose tests do not end within
three times what they took unchanged counts as killed, and is marked "killed (time)". Exit code 2: nothing was tried.

examples
  node tools/mutate.ts src/sync/git
  node tools/mutate.ts src/agent --seed 7 --count 60
  node tools/mutate.ts src/agent/generation/tar.ts --all --quick
  node tools/mutate.ts src/defender --tests src/controllers/machine
`;

interface FileMutant {
  readonly file: string;
  readonly mutant: Mutant;
}

type Outcome = 'killed' | 'killed (time)' | 'survived';

/** A generator of numbers in [0, 1) that depends on the seed alone (mulberry32). */
function seeded(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

function trackedFiles(): string[] {
  return execFileSync('git', ['ls-files', '-co', '--exclude-standard', '-z'], { cwd: root, encoding: 'utf8' })
    .split('\0')
    .filter((file) => file !== '' && existsSync(join(root, file)));
}

/** Production code: no test, nothing that only tests use. */
const isSource = (file: string): boolean =>
  file.endsWith('.ts') && !file.endsWith('.test.ts') && !file.endsWith('.d.ts') && !/testing(\/|\.ts$)/.test(file);

/** The installed packages are those of the tree; what npm links to folders of the tree leads to the copy's folders instead. */
function linkPackages(folder: string): void {
  const installed = join(root, 'node_modules');
  mkdirSync(join(folder, 'node_modules'));
  for (const name of readdirSync(installed)) {
    if (name !== SCOPE) symlinkSync(join(installed, name), join(folder, 'node_modules', name));
  }
  cpSync(join(installed, SCOPE), join(folder, 'node_modules', SCOPE), { recursive: true, verbatimSymlinks: true });
}

/** What is in it are relative links, all of them. */
const SCOPE = '@kubenode';

function copyOf(files: readonly string[]): string {
  const folder = mkdtempSync(join(tmpdir(), 'kubenode-mutants-'));
  for (const file of files) {
    mkdirSync(join(folder, dirname(file)), { recursive: true });
    cpSync(join(root, file), join(folder, file), { verbatimSymlinks: true });
  }
  linkPackages(folder);
  return folder;
}

/** Of one test: a machine that is busy with other things is no reason to call a mutant killed. */
const TEST_LIMIT_MS = 90_000;

/** Whether the tests pass in the copy; undefined when they did not end in time. */
async function passes(folder: string, tests: readonly string[], limitMs: number, ...options: string[]): Promise<boolean | undefined> {
  const args = [
    join(root, 'node_modules/vitest/vitest.mjs'),
    'run',
    '--bail=1',
    '--project=unit',
    `--testTimeout=${TEST_LIMIT_MS}`,
    ...options,
    ...tests,
  ];
  const child = spawn(process.execPath, args, { cwd: folder, stdio: 'ignore', detached: true });
  const { pid } = child;
  let late = false;
  const timer = setTimeout(() => {
    late = true;
    if (pid !== undefined) process.kill(-pid, 'SIGKILL');
  }, limitMs);
  const code = await new Promise<number | null>((done, failed) => {
    child.once('error', failed);
    child.once('exit', done);
  });
  clearTimeout(timer);
  return late ? undefined : code === 0;
}

/** A process that runs many files is several times as fast as one for each; where the tests need one each, they get it. */
const POOLS = [['--no-isolate'], []];

/** What vitest's JSON reporter writes. */
interface Report {
  readonly testResults: readonly {
    readonly name: string;
    readonly startTime: number;
    readonly endTime: number;
    readonly assertionResults: readonly { readonly fullName: string; readonly status: string }[];
  }[];
}

/** How many milliseconds each test file takes before anything is changed, and with which options of vitest. */
async function unchanged(folder: string, tests: readonly string[]): Promise<{ durations: Map<string, number>; pool: readonly string[] }> {
  const report = join(folder, 'unchanged.json');
  let why = '';
  for (const pool of POOLS) {
    rmSync(report, { force: true });
    const passed = await passes(folder, tests, 900_000, ...pool, '--reporter=json', `--outputFile=${report}`);
    const { testResults } = existsSync(report) ? (JSON.parse(readFileSync(report, 'utf8')) as Report) : { testResults: [] };
    const durations = new Map(testResults.map((file) => [relative(realpathSync(folder), file.name), file.endTime - file.startTime]));
    if (passed === true) return { durations, pool };
    const failed = testResults.flatMap((file) => file.assertionResults.filter(({ status }) => status === 'failed'));
    why = passed === undefined ? 'they do not end' : failed.map(({ fullName }) => fullName).join('; ');
  }
  throw new Error(`the tests of ${tests.join(', ')} do not pass before anything is changed: ${why}`);
}

/** A mutant that hangs ends after this: vitest's start, and three times what two workers need for the files. */
const limitOf = (stage: readonly string[], durations: ReadonlyMap<string, number>): number =>
  20_000 + 1.5 * stage.reduce((sum, file) => sum + (durations.get(file) ?? 0), 0);

const lineOf = (source: string, offset: number): number => source.slice(0, offset).split('\n').length;

function shown({ file, mutant }: FileMutant, source: string): string {
  const was = source.slice(mutant.start, mutant.end).replaceAll(/\s+/g, ' ').slice(0, 80);
  return `${file}:${lineOf(source, mutant.start)}  ${mutant.operator}: \`${was}\` → \`${mutant.replacement.replaceAll(/\s+/g, ' ').slice(0, 80)}\``;
}

async function main(): Promise<number> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      seed: { type: 'string', default: '1' },
      count: { type: 'string', default: '30' },
      least: { type: 'string', default: '0' },
      all: { type: 'boolean', default: false },
      quick: { type: 'boolean', default: false },
      tests: { type: 'string', multiple: true, default: [] },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) {
    process.stdout.write(HELP);
    return 0;
  }
  const begun = performance.now();
  const [target] = positionals;
  if (target === undefined || positionals.length > 1)
    throw new Error('name one folder or file: node tools/mutate.ts src/sync/git; --help prints all options');
  const within = relative(root, resolve(target));
  if (!existsSync(join(root, within))) throw new Error(`${target} is not there`);
  const files = trackedFiles();
  const sources = files.filter((file) => isSource(file) && (file === within || file.startsWith(`${within}/`)));
  const all = sources.flatMap((file) =>
    mutantsOf(file, readFileSync(join(root, file), 'utf8')).map((mutant): FileMutant => ({ file, mutant })),
  );
  if (all.length === 0) throw new Error(`nothing in ${target} can be changed`);
  const random = seeded(Number(values.seed));
  const order = all.map((mutant) => ({ mutant, key: random() })).toSorted((a, b) => a.key - b.key);
  const chosen = values.all ? all : order.slice(0, Number(values.count)).map(({ mutant }) => mutant);

  // With its slash: vitest takes it as a part of paths, and one folder's name may begin another's.
  const testsFolder = `${statSync(join(root, within)).isDirectory() ? within : dirname(within)}/`;
  const tests = [testsFolder, ...values.tests];
  const folder = copyOf(files);
  const survivors: string[] = [];
  let late = 0;
  try {
    const { durations, pool } = await unchanged(folder, tests);
    const texts = new Map(files.filter((file) => file.endsWith('.ts')).map((file) => [file, readFileSync(join(folder, file), 'utf8')]));
    for (const [at, next] of chosen.entries()) {
      const source = texts.get(next.file) ?? '';
      const stages = stagesOf(durations, next.file, texts);
      writeFileSync(join(folder, next.file), applied(source, next.mutant));
      let outcome: Outcome = 'survived';
      for (const stage of values.quick && stages.length > 1 ? stages.slice(0, -1) : stages) {
        const passed = await passes(folder, stage, limitOf(stage, durations), ...pool);
        outcome = passed === undefined ? 'killed (time)' : passed ? 'survived' : 'killed';
        if (outcome !== 'survived') break;
      }
      writeFileSync(join(folder, next.file), source);
      if (outcome === 'survived') survivors.push(shown(next, source));
      if (outcome === 'killed (time)') late += 1;
      process.stdout.write(`${String(at + 1).padStart(3)}/${chosen.length} ${outcome.padEnd(14)} ${shown(next, source)}\n`);
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
  const killed = chosen.length - survivors.length;
  const percent = (100 * killed) / chosen.length;
  const seconds = ((performance.now() - begun) / 1000).toFixed(0);
  process.stdout.write(
    `\n${within}: seed ${values.seed}: ${killed} of ${chosen.length} killed (${percent.toFixed(0)} %, ${late} by time), of ${all.length} mutants, in ${seconds} s\n`,
  );
  for (const survivor of survivors) process.stdout.write(`  survived ${survivor}\n`);
  return percent >= Number(values.least) ? 0 : 1;
}

try {
  process.exitCode = await main();
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 2;
}
