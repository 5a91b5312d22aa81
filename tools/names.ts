/**
 * File and folder names are words with hyphens between them: `decide-transaction.ts`. Every word stands in `tools/words.txt`, one a line, sorted, so that two words
 * written as one are noticed when a file is added. Prints what is wrong, and exits 1 then.
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

for (const problem of problems) process.stderr.write(`${problem}\n`);
process.exit(problems.length === 0 ? 0 : 1);
