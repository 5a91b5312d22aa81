import { expect, test } from 'vitest';
import { createLog } from './log.ts';

test('no text of others makes a line of the log long, nor reorders it', () => {
  const lines: string[] = [];
  const log = createLog('info', { write: (line: string) => void lines.push(line) });
  log.warn({ cluster: 'prod', error: `a\n\u202e${'x'.repeat(1_000_000)}`, failures: 3, deep: { texts: ['y'.repeat(20_000)] } }, 'words');
  log.debug({ error: 'b' }, 'nothing of this');
  expect(lines).toHaveLength(1);
  const line = JSON.parse(lines[0] ?? '') as { error: string; deep: { texts: string[] } };
  expect(line).toMatchObject({ cluster: 'prod', failures: 3, msg: 'words', level: 40, pid: process.pid });
  expect(line.error.length).toBe(8192);
  expect(line.error.startsWith(String.raw`a \u202exxx`)).toBe(true);
  expect(line.deep.texts[0]?.length).toBe(8192);
});
