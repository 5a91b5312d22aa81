import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';

/** What a process loads that imports these files. */
async function loadedBy(...files: string[]): Promise<string[]> {
  const program = `
    import { registerHooks } from 'node:module';
    const seen = new Set();
    registerHooks({ resolve: (name, context, next) => (seen.add(name), next(name, context)) });
    for (const file of ${JSON.stringify(files.map((file) => new URL(file, import.meta.url).href))}) await import(file);
    console.log(JSON.stringify([...seen]));
  `;
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', program]);
  return JSON.parse(stdout) as string[];
}

/** Packages from outside this repository; its own are seen by what they import. */
const isForeign = (name: string): boolean => !/^(node:|file:|\.|@kubenode\/)/.test(name);

test('what the agent uses loads no package of others at all', async () => {
  const files = ['https-transport.ts', 'http-client.ts', 'reflector.ts', 'backoff.ts', 'clock.ts', 'conditions.ts', 'apply.ts'];
  const packages = (await loadedBy(...files.map((file) => `./${file}`))).filter(isForeign);
  expect(packages).toEqual([]);
});

test('reading a kubeconfig loads no more than a YAML parser', async () => {
  const packages = (await loadedBy('./kubeconfig.ts')).filter(isForeign);
  expect(packages).toContain('yaml');
  expect(packages).not.toContain('@kubernetes/client-node');
  expect(packages).not.toContain('undici');
});
