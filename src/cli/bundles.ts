import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { Bundle } from '../../tools/bundle.ts';

/** Path of a file that runs on its own. In a checkout it is made anew when a source changed; a published package ships it. */
export async function bundleFor(name: Bundle): Promise<string> {
  const shipped = fileURLToPath(new URL(`../bundles/${name}.mjs`, import.meta.url));
  if (existsSync(shipped)) return shipped;
  const tool: string = new URL('../../tools/bundle.ts', import.meta.url).href;
  const { bundleAll, bundlePath } = (await import(tool)) as typeof import('../../tools/bundle.ts');
  await bundleAll({ only: [name] });
  return bundlePath(name);
}
