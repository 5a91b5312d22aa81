/**
 * File and folder names are words with hyphens between them: `decide-transaction.ts`. Every word stands in `tools/words.txt`, one a line, sorted, so that two words
 * written as one are noticed when a file is added. In a package a type that is exported has one meaning, and its name no other type. Prints what is wrong, and exits 1 then.
 *
 *   node tools/names.ts
 */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

const WORDS = 'tools/words.txt';
const FOLDERS = ['src', 'packages', 'test', 'tools', 'bench'];

const known = readFileSync(WORDS, 'utf8').trimEnd().split('\n');
const problems: string[] = [];
if (known.some((word, index) => index > 0 && word <= (known[index - 1] ?? ''))) problems.push(`${WORDS}: sort the words, each once`);

const used = new Set<string>();
for (const file of execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard', '-z', ...FOLDERS], {
  encoding: 'utf8',
}).split('\0'))
  for (const segment of file.split('/').filter((each) => each !== 'README.md'))
    for (const word of (segment.split('.')[0] ?? '').split('-').filter((each) => each !== '')) {
      if (!known.includes(word) && !used.has(word))
        problems.push(`${file}: "${word}" is not in ${WORDS}. Join words with hyphens; add it there if it is one word`);
      used.add(word);
    }
for (const word of known) if (!used.has(word)) problems.push(`${WORDS}: no file has the word "${word}" in its name; remove it`);

/** What constructs make bears the name of the kind; what a controller's `decide` returns, and its parts, are named alike in each. */
const SHARED = new Set([
  'Artifact',
  'Cluster',
  'DefenderPolicy',
  'Digests',
  'Fleet',
  'MachineComponentSet',
  'MachineSet',
  'NodeRemedier',
  'Term',
]);
const OF_DECISIONS = new Set(['Decision', 'Step', 'Stores']);

/** Each package has its own names. */
const packageOf = (file: string): string => /^(src|packages\/[^/]+)/.exec(file)?.[1] ?? '';
const exported = new Map<string, string[]>();
const sources = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard', '-z', 'src', 'packages'], {
  encoding: 'utf8',
});
for (const file of sources.split('\0').filter((each) => each.endsWith('.ts') && !each.endsWith('.test.ts') && !each.includes('testing/')))
  for (const [, name = ''] of readFileSync(file, 'utf8').matchAll(/^export (?:abstract )?(?:interface|type|class) ([A-Z]\w*)/gm)) {
    const key = `${packageOf(file)} ${name}`;
    exported.set(key, [...(exported.get(key) ?? []), file]);
  }
for (const [key, files] of exported) {
  const name = key.split(' ')[1] ?? '';
  const isConstruct = SHARED.has(name) && files.length === 2 && files.some((file) => file.startsWith('src/constructs/'));
  if (files.length > 1 && !isConstruct && !OF_DECISIONS.has(name))
    problems.push(`${files.join(', ')}: "${name}" is the name of more than one exported type; name each by what it is of`);
}

for (const problem of problems) process.stderr.write(`${problem}\n`);
process.exit(problems.length === 0 ? 0 : 1);
