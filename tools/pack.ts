/**
 * Packs the stand-ins of `components/` into tar.gz artifacts and writes `fleet/artifacts.lock.json`.
 * The bytes depend on nothing but the sources: names sorted, no owners, no times, and gzip without compression, since
 * compressed bytes differ between processor architectures.
 *
 *   node tools/pack.ts [--check]   --check: fail when the lock file does not match
 */
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, readdirSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { archiveOf } from '../src/cli/agent-package/archive.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
export const ARTIFACTS = join(ROOT, '.build', 'artifacts');
export const LOCK = join(ROOT, 'fleet', 'artifacts.lock.json');

export type Lock = Record<string, Record<string, { sha256: string; path: string }>>;

function gzipStored(data: Buffer): Buffer {
  const zipped = gzipSync(data, { level: 0 });
  zipped[9] = 255; // "unknown" operating system: the library writes the one it runs on
  return zipped;
}

function pack(component: string, version: string, options: object): Buffer {
  const files = new Map<string, Buffer>();
  for (const folder of ['lib', component]) {
    const dir = join(ROOT, 'components', folder);
    for (const name of readdirSync(dir)) files.set(name, readFileSync(join(dir, name)));
  }
  files.set('release.json', Buffer.from(`${JSON.stringify({ name: component, version, ...options })}\n`));
  files.set('package.json', Buffer.from('{"type":"module"}\n'));
  const entries = archiveOf([...files].map(([name, content]) => ({ name, content, mode: name === 'main.js' ? 0o755 : 0o644 })));
  return gzipStored(Buffer.concat(entries));
}

/** Writes the artifacts and returns what the lock file should contain. Safe to run while others do. */
export function packAll(): Lock {
  const versions = JSON.parse(readFileSync(join(ROOT, 'components', 'versions.json'), 'utf8')) as Record<string, Record<string, object>>;
  mkdirSync(ARTIFACTS, { recursive: true });
  const lock: Lock = {};
  for (const [component, releases] of Object.entries(versions)) {
    lock[component] = {};
    for (const [version, options] of Object.entries(releases)) {
      const name = `${component}-${version}.tgz`;
      const bytes = pack(component, version, options);
      const beside = join(ARTIFACTS, `.${name}.${process.pid}`);
      writeFileSync(beside, bytes);
      renameSync(beside, join(ARTIFACTS, name));
      lock[component][version] = { sha256: createHash('sha256').update(bytes).digest('hex'), path: `artifacts/${name}` };
    }
  }
  return lock;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const text = `${JSON.stringify(packAll(), null, 2)}\n`;
  if (process.argv.includes('--check')) {
    if (readFileSync(LOCK, 'utf8') !== text) {
      process.stderr.write('fleet/artifacts.lock.json does not match components/\nnext: npm run pack\n');
      process.exit(1);
    }
  } else {
    writeFileSync(LOCK, text);
  }
}
