import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** `tools/bundle.ts`, which a published package does not have. */
interface Tool {
  bundleAll: (options: { only: string[] }) => Promise<void>;
  bundlePath: (name: string) => string;
}

/** Path of a file that runs on its own. In a checkout it is made again when a source changed; a published package ships it. */
export async function bundleFor(name: 'agent' | 'agenttool' | 'render' | 'controllers'): Promise<string> {
  const shipped = fileURLToPath(new URL(`../bundles/${name}.mjs`, import.meta.url));
  if (existsSync(shipped)) return shipped;
  const tool: string = new URL('../../tools/bundle.ts', import.meta.url).href;
  const { bundleAll, bundlePath } = (await import(tool)) as Tool;
  await bundleAll({ only: [name] });
  return bundlePath(name);
}
