import { chmodSync, closeSync, mkdirSync, openSync, renameSync, rmSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { CodedError, messageOf } from '@kubenode/api-machinery/errors';
import { embeddedError } from '../errors.ts';

/** Version of the state folder's format. A folder of a newer one is refused; older ones would be migrated here. */
export const FORMAT = 1;

/** 'KNES' in the header of the file, so that another program's database is not taken for ours. */
const APPLICATION_ID = 0x4b4e4553;

interface Row {
  readonly resource: string;
  readonly key: string;
  readonly rv: number;
  readonly json: string;
}

/** Where a cluster's state survives its process. Every call returns when the operating system has the bytes. */
export interface StoreDisk {
  /** The resourceVersion reached. */
  readonly rv: number;
  /** By resource and key. */
  rows(): Iterable<Row>;
  put(row: Row): void;
  remove(resource: string, key: string, rv: number): void;
  /** Small secrets of the cluster: keys and tokens. */
  secret(name: string): string | undefined;
  keepSecret(name: string, value: string): void;
  close(): void;
}

/** Keeps nothing. */
export function memoryDisk(): StoreDisk {
  const secrets = new Map<string, string>();
  return {
    rv: 0,
    rows: () => [],
    put: () => undefined,
    remove: () => undefined,
    secret: (name) => secrets.get(name),
    keepSecret: (name, value) => void secrets.set(name, value),
    close: () => undefined,
  };
}

/** As `mkdirSync` with `recursive`, which never returns where a file system reports for every new folder that its parent is absent: /proc. */
function makeFolder(dir: string): void {
  try {
    mkdirSync(dir, { mode: 0o700 });
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined;
    if (code === 'EEXIST' && statSync(dir).isDirectory()) return;
    if (code !== 'ENOENT' || dirname(dir) === dir) throw error;
    makeFolder(dirname(dir));
    mkdirSync(dir, { mode: 0o700 });
  }
}

function unwritable(dir: string, error: unknown): CodedError {
  return embeddedError('StateUnwritable', `cannot write the state folder ${dir}: ${messageOf(error)}`, {
    cause: error,
    next: 'choose a folder that this user may write, with --state',
  });
}

/** The database, which is there whole or not at all: one that is empty has lost what it had. */
function prepareFile(dir: string): string {
  const path = join(dir, 'state.db');
  try {
    makeFolder(dir);
    if (statSync(path, { throwIfNoEntry: false }) === undefined) {
      const made = `${path}.new`;
      rmSync(made, { force: true });
      closeSync(openSync(made, 'wx', 0o600));
      const database = new DatabaseSync(made);
      try {
        initialise(database);
      } finally {
        database.close();
      }
      renameSync(made, path);
    }
    // SQLite gives its journal files the mode of the database: the secrets in all of them are the owner's alone.
    closeSync(openSync(path, 'r+'));
    chmodSync(path, 0o600);
  } catch (error) {
    throw unwritable(dir, error);
  }
  if (statSync(path).size === 0) throw damaged(dir, new Error('state.db is empty'));
  return path;
}

function initialise(database: DatabaseSync): void {
  database.exec(`
    BEGIN;
    CREATE TABLE objects (resource TEXT NOT NULL, key TEXT NOT NULL, rv INTEGER NOT NULL, json TEXT NOT NULL, PRIMARY KEY (resource, key));
    CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);
    PRAGMA application_id = ${APPLICATION_ID};
    PRAGMA user_version = ${FORMAT};
    COMMIT;`);
}

function refuse(dir: string, error: unknown): CodedError {
  if (!/database is locked|database table is locked/.test(messageOf(error))) return damaged(dir, error);
  return embeddedError('StateInUse', `the state folder ${dir} is in use by another process`, {
    cause: error,
    next: 'stop that process, or give this one a folder of its own with --state',
  });
}

/** The error for a folder whose content is not what was written. */
export function damaged(dir: string, error: unknown): CodedError {
  return embeddedError('StateDamaged', `the state folder ${dir} is damaged: ${messageOf(error)}`, {
    cause: error,
    next: `restore ${join(dir, 'state.db')} from a backup, or remove the folder to start with an empty cluster`,
  });
}

function number(row: Record<string, unknown> | undefined, name: string): number {
  const value = row?.[name];
  return typeof value === 'number' ? value : 0;
}

function check(database: DatabaseSync, dir: string): void {
  const format = number(database.prepare('PRAGMA user_version').get(), 'user_version');
  const owner = number(database.prepare('PRAGMA application_id').get(), 'application_id');
  if (format > FORMAT) {
    throw embeddedError(
      'StateTooNew',
      `the state folder ${dir} has format ${format}; this version of kubenode reads formats up to ${FORMAT}`,
      {
        next: 'use the version of kubenode that wrote it, or another folder',
      },
    );
  }
  if (owner !== APPLICATION_ID || format < 1) throw new Error('it contains a database of another program');
  const verdict = database.prepare('PRAGMA quick_check(1)').get()?.['quick_check'];
  if (verdict !== 'ok') throw new Error(String(verdict));
}

/**
 * State in `dir/state.db`, a SQLite database in WAL mode.
 *
 * Guarantee: what was put or removed is there after the process is killed at any moment. A crash of the whole machine may
 * lose the last moments, never the order or the integrity of what is left (`synchronous = NORMAL`).
 *
 * Errors (CodedError): StateUnwritable, StateInUse, StateTooNew, StateDamaged.
 */
export function openDisk(dir: string): StoreDisk {
  const path = prepareFile(dir);
  let database: DatabaseSync | undefined;
  try {
    database = new DatabaseSync(path);
    database.exec(
      'PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = 4000;',
    );
    check(database, dir);
    return diskOf(database);
  } catch (error) {
    database?.close();
    throw error instanceof CodedError ? error : refuse(dir, error);
  }
}

function text(row: Record<string, unknown>, name: string): string {
  const value = row[name];
  if (typeof value !== 'string') throw new Error(`column ${name} is not text`);
  return value;
}

function diskOf(database: DatabaseSync): StoreDisk {
  const upsert = database.prepare(
    'INSERT INTO objects (resource, key, rv, json) VALUES (?, ?, ?, ?) ON CONFLICT (resource, key) DO UPDATE SET rv = excluded.rv, json = excluded.json',
  );
  const erase = database.prepare('DELETE FROM objects WHERE resource = ? AND key = ?');
  const read = database.prepare('SELECT value FROM meta WHERE name = ?');
  const write = database.prepare('INSERT INTO meta (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value');
  // A write carries its resourceVersion in its row; only deletions leave none behind and must note it.
  const newest = number(database.prepare('SELECT max(rv) AS rv FROM objects').get(), 'rv');
  const noted = read.get('rv');
  const rv = Math.max(newest, noted === undefined ? 0 : Number(text(noted, 'value')));
  return {
    rv,
    *rows() {
      for (const row of database.prepare('SELECT resource, key, rv, json FROM objects ORDER BY resource, key').iterate()) {
        yield { resource: text(row, 'resource'), key: text(row, 'key'), rv: number(row, 'rv'), json: text(row, 'json') };
      }
    },
    put: (row) => void upsert.run(row.resource, row.key, row.rv, row.json),
    remove(resource, key, at) {
      database.exec('BEGIN');
      try {
        erase.run(resource, key);
        write.run('rv', String(at));
        database.exec('COMMIT');
      } catch (error) {
        database.exec('ROLLBACK');
        throw error;
      }
    },
    secret(name) {
      const row = read.get(`secret:${name}`);
      return row === undefined ? undefined : text(row, 'value');
    },
    keepSecret: (name, value) => void write.run(`secret:${name}`, value),
    close: () => database.close(),
  };
}
