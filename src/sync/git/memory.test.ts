import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import { defaultHttpLimits } from './http.ts';
import { remoteWorld } from './testing/remote.ts';
import { hasGit } from './testing/repository.ts';

const world = remoteWorld();
const MIB = 2 ** 20;
/** docs/security.md reports it. A hub has 2 GiB. */
const PROMISED_MIB = 512;

/** Fetches in a process of its own, and prints the most memory that it ever had, in MiB. */
const FETCH = `
  import fs from 'node:fs';
  import { systemClock } from ${JSON.stringify(new URL('../../kube/clock.ts', import.meta.url).href)};
  import { openSource } from ${JSON.stringify(new URL('index.ts', import.meta.url).href)};
  const [url, cacheDir] = process.argv.slice(1);
  const source = openSource({ kind: 'http', url, branch: 'main', cacheDir, signed: true }, { fs, fetch, clock: systemClock() });
  const { signal } = new AbortController();
  await source.head(signal);
  await source.fetch(undefined, signal);
  console.log(process.resourceUsage().maxRSS / 1024);
`;

async function mostMemory(files: Record<string, Buffer>): Promise<number> {
  const { url, commit } = world.repository();
  commit('all', files);
  const { stdout } = await promisify(execFile)(process.execPath, [
    ...process.execArgv,
    '--input-type=module',
    '-e',
    FETCH,
    url,
    world.folder(),
  ]);
  return Number(stdout);
}

it.skipIf(!hasGit)(
  'security 9: the worst fetches that are taken stay below the memory that is promised (skipped without git)',
  async () => {
    const { responseBytes, objectBytes, inflatedBytes } = defaultHttpLimits;
    // Nothing of it can be compressed, and it is almost all that may be sent.
    const sent = { a: randomBytes(objectBytes - MIB), b: randomBytes(responseBytes - objectBytes - MIB) };
    expect(await mostMemory(sent)).toBeLessThan(PROMISED_MIB);
    // Next to nothing is sent, and it is almost all that may come of it.
    const count = Math.floor(inflatedBytes / objectBytes) - 1;
    const unpacked = Array.from({ length: count }, (_, index) => [`${index}`, Buffer.alloc(objectBytes - index - 1)] as const);
    expect(await mostMemory(Object.fromEntries(unpacked))).toBeLessThan(PROMISED_MIB);
  },
  240_000,
);
