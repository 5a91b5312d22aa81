import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { CodedError, messageOf } from '../../api/errors.ts';
import { cliError } from '../errors.ts';

/** Format of the folder that `kubenode start` keeps. Raised when an older KubeNode could not read what a newer one wrote. */
const FORMAT = 1;

export interface StateFolder {
  dir: string;
  server: string;
  nodes: string;
  cache: string;
  logs: string;
  kubeconfig: string;
  /** A fleet repository of its own, where the checkout is none. */
  repository: string;
  /** Ports that were chosen once and are kept, since nodes remember them. */
  ports: { server: number; artifacts: number };
}

type Ports = StateFolder['ports'];
/** Addresses by context. */
type Servers = Readonly<Record<string, string>>;

interface State {
  format: number;
  ports: Ports;
  /** Where others run the API servers. */
  servers?: Servers;
}

/** The ports that an existing folder uses; undefined when there is none yet. Refuses as `openState` does. */
export function readPorts(dir: string): Ports | undefined {
  return read(dir)?.ports;
}

/**
 * Nodes and cache of a folder belong to the API servers that it was made with. `servers` undefined: those of its own. Errors: `OtherServers`, and
 * as `openState`.
 */
export function requireServers(dir: string, servers: Servers | undefined): void {
  const found = read(dir);
  if (found === undefined || words(found.servers) === words(servers)) return;
  throw cliError('OtherServers', `${dir} was made with ${words(found.servers)}, not with ${words(servers)}; nothing was changed`, {
    next:
      found.servers === undefined
        ? 'start without --control-planes, or with another folder: --state DIR'
        : 'use another folder: --state DIR',
  });
}

const words = (servers: Servers | undefined): string =>
  servers === undefined
    ? 'API servers of its own'
    : Object.entries(servers)
        .map(([name, server]) => `${name} at ${server}`)
        .join(', ');

/** Opens or makes the folder; refuses one of a newer format, or one that is not ours. Changes nothing in what it refuses. */
export function openState(dir: string, ports: Ports, servers?: Servers): StateFolder {
  const file = join(dir, 'kubenode.json');
  const found = read(dir);
  const state = found ?? { format: FORMAT, ports, ...(servers === undefined ? {} : { servers }) };
  const folder: StateFolder = {
    dir,
    server: join(dir, 'server'),
    nodes: join(dir, 'nodes'),
    cache: join(dir, 'cache'),
    logs: join(dir, 'logs'),
    kubeconfig: join(dir, 'kubeconfig'),
    repository: join(dir, 'fleet'),
    ports: state.ports,
  };
  for (const each of [folder.nodes, folder.cache, folder.logs]) mkdirSync(each, { recursive: true, mode: 0o700 });
  if (found === undefined) {
    writeFileSync(`${file}.new`, `${JSON.stringify(state)}\n`, { mode: 0o600, flush: true });
    renameSync(`${file}.new`, file);
  }
  return folder;
}

function read(dir: string): State | undefined {
  const file = join(dir, 'kubenode.json');
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw cliError('StateDamaged', `${file} cannot be read: ${messageOf(error)}`, {
      cause: error,
      next: `use another folder: --state DIR`,
    });
  }
  try {
    return parse(JSON.parse(text), file, dir);
  } catch (error) {
    if (error instanceof CodedError) throw error;
    throw cliError('StateDamaged', `${file} is not JSON: ${messageOf(error)}`, {
      cause: error,
      next: `move ${dir} away to start again, or use another folder: --state DIR`,
    });
  }
}

function parse(found: unknown, file: string, dir: string): State {
  const { format, ports, servers } = (found ?? {}) as {
    format?: unknown;
    ports?: { server?: unknown; artifacts?: unknown };
    servers?: unknown;
  };
  if (typeof format === 'number' && format > FORMAT) {
    throw cliError(
      'StateTooNew',
      `${dir} was written by a newer KubeNode (format ${format}, this one reads up to ${FORMAT}); nothing was changed`,
      {
        next: 'run the newer version, or start with another folder: --state DIR',
      },
    );
  }
  if (typeof format !== 'number' || typeof ports?.server !== 'number' || typeof ports.artifacts !== 'number' || !isServers(servers)) {
    throw cliError('StateDamaged', `${file} is not what KubeNode wrote`, {
      next: `move ${dir} away to start again, or use another folder: --state DIR`,
    });
  }
  return { format, ports: { server: ports.server, artifacts: ports.artifacts }, ...(servers === undefined ? {} : { servers }) };
}

function isServers(value: unknown): value is Servers | undefined {
  if (value === undefined) return true;
  return value !== null && typeof value === 'object' && Object.values(value).every((each) => typeof each === 'string');
}
