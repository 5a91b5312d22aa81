import { syncError } from './errors.ts';
import { mkdir, readFile, rename, writeFile, readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { unitDigest } from '../api/digest.ts';
import type { KubeObject } from '../api/wire.ts';

/** The objects of a unit, and where in the fleet each was made (`file:line:column`), in the order they are applied. */
export interface StoredUnit {
  key: string;
  objects: KubeObject[];
  origins: (string | undefined)[];
}

/** Rendered units by digest, on disk. A cache: what is lost or damaged is rendered again from its commit (docs/protocols.md#e8). */
export interface Bundles {
  get(digest: string): Promise<StoredUnit | undefined>;
  put(digest: string, unit: StoredUnit): Promise<void>;
  /** Forgets what is not in `keep` and older than `ageMs`. */
  sweep(keep: ReadonlySet<string>, ageMs: number): Promise<void>;
}

/** What was read is believed only when its digest is the one asked for. */
export function openBundles(dir: string): Bundles {
  const memory = new Map<string, StoredUnit>();
  const fileOf = (digest: string): string => {
    if (!/^v\d+:[a-f0-9]{64}$/.test(digest)) throw syncError('InvalidDigest', `"${digest}" is not a unit digest`);
    return join(dir, `${digest.replace(':', '-')}.json`);
  };

  return {
    async get(digest) {
      const known = memory.get(digest);
      if (known !== undefined) return known;
      let parsed: unknown;
      try {
        parsed = JSON.parse(await readFile(fileOf(digest), 'utf8'));
      } catch {
        return undefined;
      }
      const unit = asUnit(parsed);
      if (unit === undefined || unitDigest(unit.objects) !== digest) return undefined;
      memory.set(digest, unit);
      return unit;
    },

    async put(digest, unit) {
      if (unitDigest(unit.objects) !== digest) throw syncError('InvalidDigest', `unit ${unit.key} does not have the digest ${digest}`);
      if (memory.has(digest)) return;
      memory.set(digest, unit);
      await mkdir(dir, { recursive: true });
      const beside = `${fileOf(digest)}.${process.pid}`;
      await writeFile(beside, JSON.stringify(unit));
      await rename(beside, fileOf(digest));
    },

    async sweep(keep, ageMs) {
      for (const digest of memory.keys()) if (!keep.has(digest)) memory.delete(digest);
      const nowMs = await fileTime(dir);
      if (nowMs === undefined) return;
      const files = new Set([...keep].map(fileOf));
      for (const name of await readdir(dir).catch(() => [])) {
        const path = join(dir, name);
        if (files.has(path)) continue;
        const found = await stat(path).catch(() => undefined);
        if (found !== undefined && nowMs - found.mtimeMs > ageMs) await rm(path, { force: true });
      }
    },
  };
}

/** What time it is for the file system, whose dates are compared with nothing else (docs/protocols.md#h5); undefined where there is no folder yet. */
async function fileTime(dir: string): Promise<number | undefined> {
  const mark = join(dir, '.swept');
  try {
    await writeFile(mark, '');
    return (await stat(mark)).mtimeMs;
  } catch {
    return undefined;
  }
}

function asUnit(value: unknown): StoredUnit | undefined {
  if (value === null || typeof value !== 'object') return undefined;
  const { key, objects, origins } = value as Partial<Record<keyof StoredUnit, unknown>>;
  if (typeof key !== 'string' || !Array.isArray(objects) || !Array.isArray(origins) || objects.length !== origins.length) return undefined;
  const whole = objects.every(
    (object: unknown) =>
      typeof (object as Partial<KubeObject> | null)?.kind === 'string' && typeof (object as KubeObject).metadata?.name === 'string',
  );
  return whole ? { key, objects: objects as KubeObject[], origins: origins as (string | undefined)[] } : undefined;
}
