/** What the real server answered when it was last asked: kept, so that the embedded server can be compared with it everywhere. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Json } from '../../src/api/wire.ts';

const FOLDER = join(dirname(fileURLToPath(import.meta.url)), 'recorded');

export type Recordings = Map<string, Json[]>;

const fileOf = (suite: string): string => join(FOLDER, `${suite}.jsonl`);

/** One line a step: the sentence and what was seen. */
export function readRecordings(suite: string): Recordings {
  const out: Recordings = new Map();
  if (!existsSync(fileOf(suite))) return out;
  for (const line of readFileSync(fileOf(suite), 'utf8').split('\n')) {
    if (line === '') continue;
    const [sentence, step] = JSON.parse(line) as [string, Json];
    out.set(sentence, [...(out.get(sentence) ?? []), step]);
  }
  return out;
}

export function writeRecordings(suite: string, recordings: Recordings): void {
  mkdirSync(FOLDER, { recursive: true });
  const lines = [...recordings].flatMap(([sentence, steps]) => steps.map((step) => JSON.stringify([sentence, step])));
  writeFileSync(fileOf(suite), `${lines.join('\n')}\n`);
}
