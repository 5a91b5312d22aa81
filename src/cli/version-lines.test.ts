import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { versionLines } from './version-lines.ts';

it('finds every component of the reference fleet on a line of its own', () => {
  const text = readFileSync(new URL('../../fleet/versions.ts', import.meta.url), 'utf8');
  const lines = versionLines(text);
  expect(lines.map((line) => line.component).sort()).toEqual(['local-detector', 'local-kubelet', 'local-runtime']);
  for (const { line, text: one, version } of lines) {
    expect(text.split('\n')[line - 1]).toBe(one);
    expect(one).toContain(`'${version}'`);
  }
});
