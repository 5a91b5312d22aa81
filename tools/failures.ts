/**
 * Prints the failed tests of reports of vitest's JSON reporter, with the first lines of each failure: `node tools/failures.ts REPORT.json …`.
 * A log that keeps only its end still shows what failed. Exit code 0, also where a report cannot be read: that is printed.
 */
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { stripVTControlCharacters } from 'node:util';
import { readReport } from './report.ts';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const LINES = 12;
const WIDTH = 400;

const shortened = (message: string): string =>
  stripVTControlCharacters(message)
    .split('\n')
    .slice(0, LINES)
    .map((line) => `    ${line.slice(0, WIDTH)}\n`)
    .join('');

function failuresOf(path: string): string {
  let text = '';
  for (const { name, status, message, assertionResults } of readReport(path).testResults) {
    const failed = assertionResults.filter((each) => each.status === 'failed');
    for (const { fullName, failureMessages } of failed) {
      text += `FAILED ${relative(root, name)}: ${fullName.trim()}\n${shortened((failureMessages ?? []).join('\n'))}`;
    }
    if (status === 'failed' && failed.length === 0) text += `FAILED ${relative(root, name)}\n${shortened(message)}`;
  }
  return text;
}

for (const path of process.argv.slice(2)) {
  try {
    process.stdout.write(failuresOf(path));
  } catch (error) {
    process.stdout.write(`FAILED without a report: ${path} (${error instanceof Error ? error.message : String(error)})\n`);
  }
}
