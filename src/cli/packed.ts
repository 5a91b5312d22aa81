import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** Folder with the stand-ins' artifacts. In a checkout they are packed when asked for; a published package ships them. */
export async function artifactFolder(): Promise<string> {
  const shipped = fileURLToPath(new URL('../artifacts', import.meta.url));
  if (existsSync(shipped)) return shipped;
  const tool: string = new URL('../../tools/pack.ts', import.meta.url).href;
  const { packAll, ARTIFACTS } = (await import(tool)) as { packAll: () => unknown; ARTIFACTS: string };
  packAll();
  return ARTIFACTS;
}
