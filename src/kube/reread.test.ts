import { describe, expect, test } from 'vitest';
import { CodedError } from '../api/errors.ts';
import type { ApiRequest, ApiResponse } from '../api/transport.ts';
import type { ClosableTransport, Connection } from './connect.ts';
import { rereadTransport } from './reread.ts';
import { jsonResponse, statusResponse } from './testing/api-server.ts';
import { fakeClock } from './testing/clock.ts';

const HOME = 'https://api:6443';
const get: ApiRequest = { method: 'GET', path: '/' };

/** A kubeconfig that a person writes, and the servers it may name: each takes one token. */
function world(first: Connection, servers: Record<string, string>) {
  const clock = fakeClock();
  const file: { now: Connection | Error; reads: number } = { now: first, reads: 0 };
  const open: string[] = [];
  const renewed: Connection[] = [];
  const make = (connection: Connection): ClosableTransport => {
    const id = `${connection.server} ${String(connection.token)}`;
    open.push(id);
    const send = (): Promise<ApiResponse> => {
      const takes = servers[connection.server];
      if (takes === undefined) return Promise.reject(new Error('ECONNREFUSED'));
      return Promise.resolve(connection.token === takes ? jsonResponse(200, {}) : statusResponse(401, 'Unauthorized'));
    };
    return Object.assign(send, { close: () => Promise.resolve(void open.splice(open.indexOf(id), 1)) });
  };
  const load = (): Promise<Connection> => {
    file.reads++;
    return file.now instanceof Error ? Promise.reject(file.now) : Promise.resolve(file.now);
  };
  const transport = rereadTransport({ first, load, make, clock, onRenewed: (connection) => renewed.push(connection) });
  const ask = async (): Promise<number | string> => {
    try {
      return (await transport(get)).status;
    } catch (error) {
      return String(error);
    }
  };
  return { clock, file, open, renewed, transport, ask };
}

describe('a kubeconfig beside a running program', () => {
  test('is not read again while its credentials are taken', async () => {
    const { ask, file, clock } = world({ server: HOME, token: 'a' }, { [HOME]: 'a' });
    for (let i = 0; i < 5; i++) {
      expect(await ask()).toBe(200);
      await clock.advance(60_000);
    }
    expect(file.reads).toBe(0);
  });

  test('is read again when they no longer are, and its new ones are taken up', async () => {
    const servers = { [HOME]: 'a' };
    const { ask, file, clock, open, renewed } = world({ server: HOME, token: 'a' }, servers);
    expect(await ask()).toBe(200);
    servers[HOME] = 'b';
    await clock.advance(60_000);
    expect([await ask(), await ask()]).toEqual([401, 401]);
    // Not with every request.
    expect(file.reads).toBe(1);
    file.now = { server: HOME, token: 'b' };
    await clock.advance(5000);
    expect([await ask(), await ask()]).toEqual([401, 200]);
    expect(open).toEqual([`${HOME} b`]);
    expect(renewed).toHaveLength(1);
  });

  test('that cannot be read, or has the same content, changes nothing', async () => {
    const { ask, file, clock, open } = world({ server: HOME, token: 'old' }, { [HOME]: 'new' });
    file.now = new CodedError('KubeconfigInvalid', 'half written');
    await clock.advance(5000);
    expect(await ask()).toBe(401);
    file.now = { server: HOME, token: 'old' };
    await clock.advance(5000);
    expect(await ask()).toBe(401);
    expect([file.reads, open]).toEqual([2, [`${HOME} old`]]);
  });

  test('is taken up where it got, or lost, a token that renews itself, and not for another such token', async () => {
    const renews = (): Promise<string> => Promise.resolve('b');
    const { ask, file, clock, renewed } = world({ server: HOME }, { [HOME]: 'none of them' });
    const found: Connection[] = [{ server: HOME, token: renews }, { server: HOME, token: () => Promise.resolve('c') }, { server: HOME }];
    for (const now of found) {
      file.now = now;
      await clock.advance(5000);
      expect(await ask()).toBe(401);
    }
    expect(renewed).toEqual([found[0], found[2]]);
  });

  test('that names another server is followed only while the first was never reached', async () => {
    const other = 'https://other:6443';
    const lost = world({ server: 'https://typo:6443', token: 'a' }, { [HOME]: 'a' });
    lost.file.now = { server: HOME, token: 'a' };
    await lost.clock.advance(5000);
    expect([await lost.ask(), await lost.ask()]).toEqual(['Error: ECONNREFUSED', 200]);
    expect(lost.transport.connection.server).toBe(HOME);

    const servers: Record<string, string> = { [HOME]: 'a', [other]: 'a' };
    const found = world({ server: HOME, token: 'a' }, servers);
    expect(await found.ask()).toBe(200);
    found.file.now = { server: other, token: 'a' };
    delete servers[HOME];
    await found.clock.advance(5000);
    expect([await found.ask(), await found.ask()]).toEqual(['Error: ECONNREFUSED', 'Error: ECONNREFUSED']);
    expect(found.transport.connection.server).toBe(HOME);
  });

  test('is not read for a request that was given up, nor after the end', async () => {
    const { transport, file, clock, open } = world({ server: 'https://nowhere', token: 'a' }, {});
    await clock.advance(5000);
    await expect(transport({ ...get, signal: AbortSignal.abort(new Error('enough')) })).rejects.toThrow('ECONNREFUSED');
    expect(file.reads).toBe(0);
    await transport.close();
    await expect(transport(get)).rejects.toThrow('ECONNREFUSED');
    expect([file.reads, open]).toEqual([0, []]);
  });
});
