import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { systemClock } from '../kube/clock.ts';
import { newMemory } from './context.ts';

/** `upkeep.drift.set(`, `records.journal =`, `transaction.switching.invocations.clear(`: what writes to a part of the memory. */
const writesTo = (part: string): RegExp =>
  new RegExp(
    `\\b${part}(?:\\.\\w+)+(?:\\.(?:set|add|delete|clear)\\(| (?:[-+|&?]{0,2})=(?!=)|\\+\\+|--)|Object\\.assign\\([\\w.]*\\b${part}\\b`,
    'm',
  );

test('each part of the memory is written only in the folder that has its name', () => {
  const parts = Object.keys(newMemory(systemClock()));
  const folders = readdirSync(import.meta.dirname, { withFileTypes: true }).filter((each) => each.isDirectory());
  const sources = folders
    .filter(({ name }) => name !== 'testing')
    .flatMap(({ name }) => readdirSync(join(import.meta.dirname, name)).map((file) => ({ folder: name, file: join(name, file) })))
    .filter(({ file }) => !file.endsWith('.test.ts'));
  const wrong: string[] = [];
  const writers = new Map<string, number>();
  for (const { folder, file } of sources) {
    const text = readFileSync(join(import.meta.dirname, file), 'utf8');
    for (const part of parts) {
      if (!writesTo(part).test(text)) continue;
      if (folder === part) writers.set(part, (writers.get(part) ?? 0) + 1);
      else wrong.push(`${file} writes to ${part}`);
    }
  }
  expect(wrong).toEqual([]);
  // Each part is seen to be written by its own folder: the search finds what it is for.
  expect([...writers.keys()].toSorted()).toEqual(parts.toSorted());
});
