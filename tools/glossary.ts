/**
 * Finds in code, comments, messages and pages the words that docs/glossary.md lists as not used (its last table, first column), also as a part of a name:
 * in the middle of a camel-case name. Prints each position with the word to use, and exits 1 then.
 *
 *   node tools/glossary.ts
 */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

const GLOSSARY = 'docs/glossary.md';
/** Records of what was, what others wrote, and programs whose digests are pinned in fleets. */
const EXEMPT =
  /^(CHANGELOG\.md|LICENSE|package-lock\.json|docs\/glossary\.md|rules\/histories\/|components\/lib\/|.*go\.(sum|mod)$|.*\.jsonl$)/;

const page = readFileSync(GLOSSARY, 'utf8');
const table = page.slice(page.indexOf('## Words that are not used'));
const words = [...table.matchAll(/^\| ([a-z][a-z, ]*) \| ([^|]+) \|$/gm)]
  .filter(([, not]) => not !== 'not')
  .flatMap(([, not = '', but = '']) => not.split(', ').map((word) => ({ word, but })));
if (words.length === 0) throw new Error(`${GLOSSARY} has no table of words that are not used`);

const problems: string[] = [];
/** Options and log levels of other programs (`--quiet`, `level: 'silent'`) are their words. */
const pattern = new RegExp(
  `(?<![A-Za-z]|--|[Ll]evel: ')(?:${words.map(({ word }) => `${word}|${word[0]?.toUpperCase()}${word.slice(1)}`).join('|')})(?:s|ed)?(?![a-z])`,
  'g',
);
const inName = new RegExp(`(?<=[a-z])(?:${words.map(({ word }) => `${word[0]?.toUpperCase()}${word.slice(1)}`).join('|')})(?![a-z])`, 'g');
for (const file of execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard', '-z'], { encoding: 'utf8' }).split(
  '\0',
)) {
  if (file === '' || EXEMPT.test(file)) continue;
  const lines = readFileSync(file, 'utf8').split('\n');
  for (const [index, line] of lines.entries())
    for (const [found] of [...line.matchAll(pattern), ...line.matchAll(inName)]) {
      const rule = words.find(({ word }) => found.toLowerCase().startsWith(word));
      problems.push(`${file}:${index + 1}: "${found}" is not used; write ${rule?.but ?? 'another word'} (${GLOSSARY})`);
    }
}
for (const problem of problems) process.stderr.write(`${problem}\n`);
process.exit(problems.length === 0 ? 0 : 1);
