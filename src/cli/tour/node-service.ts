import { request } from 'node:http';
import { readFile, readdir, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';

/** What a stand-in on a node answers on its socket; undefined when nothing answers. `root`: of the node. */
export async function askService(root: string, component: string): Promise<{ version: string; pid: number } | undefined> {
  // A socket's path may have some 100 bytes only, so it is named through this process' own view of the folder.
  const socketPath = await shortPath(join(root, 'run', `${component}.sock`));
  return await new Promise((resolve) => {
    const call = request({ socketPath, path: '/healthz', timeout: 2000 }, (response) => {
      let body = '';
      response.on('data', (chunk) => (body += String(chunk)));
      response.on('end', () => resolve(JSON.parse(body) as { version: string; pid: number }));
    });
    call.on('timeout', () => call.destroy());
    call.on('error', () => resolve(undefined));
    call.end();
  });
}

async function shortPath(path: string): Promise<string> {
  if (Buffer.byteLength(path) < 100) return path;
  const link = join(tmpdir(), `kn-${process.pid}-${links++}`);
  await symlink(dirname(path), link);
  setTimeout(() => void rm(link, { force: true }), 5000).unref();
  return join(link, basename(path));
}
let links = 0;

/** Pids of the supervised units of a node, by name, as the agent recorded them. */
export async function unitPids(root: string): Promise<Map<string, number>> {
  const dir = join(root, 'var/lib/kubenode/units');
  const pids = new Map<string, number>();
  for (const name of await readdir(dir).catch(() => [])) {
    if (!name.endsWith('.json')) continue;
    const { pid } = JSON.parse(await readFile(join(dir, name), 'utf8')) as { pid?: unknown };
    if (typeof pid === 'number') pids.set(name.slice(0, -'.json'.length), pid);
  }
  return pids;
}
