import { join } from 'node:path';
import type { Durable } from '../disk/durable.ts';

/** What the agent is to the API server. The file may be read by what runs on the node as its agent does; its secrets stay on this disk. */
export type Current =
  | { kind: 'Certificate'; machineUID: string; key: string; certificate: string; admittedBy: string }
  /** Where the cluster signs no certificates. Times in wall ms. */
  | { kind: 'Token'; machineUID: string; token: string; since: number; until: number; admittedBy: string };

/** A request that was made, or is about to be. It is on the disk before the API server gets it, so that no key is lost with the process. */
export interface PendingRequest {
  machineUID: string;
  /** PEM. */
  key: string;
  /** Base64 of the request's PEM: two signatures of one request differ. */
  request: string;
  /** Name of the CertificateSigningRequest. */
  name: string;
  /** SHA-256 of the bootstrap token it is asked with; absent: with the identity that it renews. */
  admittedBy?: string;
  voucher?: string;
}

export interface IdentityState {
  current(): Promise<Current | undefined>;
  pending(): Promise<PendingRequest | undefined>;
  /** Key and certificate change together: they are one file. What led to it is done with. */
  adopt(current: Current, keepPending?: boolean): Promise<void>;
  begin(pending: PendingRequest): Promise<void>;
  drop(): Promise<void>;
}

/** Where the agent keeps its identity, below its own folder: `current.json` and `pending.json`. */
export function identityState(durable: Durable, stateFolder: string, machineUID: string): IdentityState {
  const folder = join(stateFolder, 'identity');
  const [currentPath, pendingPath] = [join(folder, 'current.json'), join(folder, 'pending.json')];

  /** What cannot be read, or is of another machine, counts as none: the agent can request it again. */
  async function read(path: string, fields: readonly string[]): Promise<Record<string, unknown> | undefined> {
    const bytes = await durable.files.read(path);
    if (bytes === undefined) return undefined;
    try {
      const value: unknown = JSON.parse(bytes.toString('utf8'));
      if (value === null || typeof value !== 'object') return undefined;
      const record = value as Record<string, unknown>;
      if (record['machineUID'] !== machineUID) return undefined;
      return fields.every((field) => typeof record[field] === 'string') ? record : undefined;
    } catch {
      return undefined;
    }
  }

  const write = async (path: string, value: object): Promise<void> => {
    await durable.folder(folder);
    await durable.replace(path, `${JSON.stringify(value, undefined, 2)}\n`, 0o600);
  };

  return {
    async current() {
      const found = await read(currentPath, ['kind', 'admittedBy']);
      if (found?.['kind'] === 'Certificate') return (await read(currentPath, ['key', 'certificate'])) as Current | undefined;
      const isToken = found?.['kind'] === 'Token' && typeof found['until'] === 'number' && typeof found['since'] === 'number';
      return isToken ? ((await read(currentPath, ['token'])) as Current | undefined) : undefined;
    },
    async pending() {
      return (await read(pendingPath, ['key', 'request', 'name'])) as PendingRequest | undefined;
    },
    async adopt(current, keepPending = false) {
      await write(currentPath, current);
      if (!keepPending) await durable.remove(pendingPath);
    },
    begin: (pending) => write(pendingPath, pending),
    drop: () => durable.remove(pendingPath),
  };
}
