import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { KubeObject } from '../api/wire.ts';

/** As `deploy/options.ts`, which a published package does not have as a source. */
export interface InstallOptions {
  role: 'hub' | 'cell';
  namespace: string;
  image: string;
  replicas: number;
  server?: string;
  mirror?: string;
  isolation?: 'process' | 'namespaces';
  seccompProfile?: string;
}

interface Deploy {
  manifests: (options: InstallOptions) => KubeObject[];
}

/** In a checkout the manifests are made by its own `deploy/`; a published package ships it as one file. */
export async function manifests(options: InstallOptions): Promise<KubeObject[]> {
  const shipped = new URL('../bundles/deploy.mjs', import.meta.url);
  const source: string = existsSync(fileURLToPath(shipped)) ? shipped.href : new URL('../../deploy/main.ts', import.meta.url).href;
  const deploy = (await import(source)) as Deploy;
  return deploy.manifests(options);
}
