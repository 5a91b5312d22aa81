import { describe, expect, it } from 'vitest';
import { fakeClock } from '../../kube/testing/clock.ts';
import { isOfServer, serverNames, systemLookup } from './server-names.ts';

describe('the names of the API server', () => {
  it('are the hosts of its URLs and their addresses, each once and in one spelling', async () => {
    const asked: string[] = [];
    const lookup = (host: string) => {
      asked.push(host);
      return Promise.resolve(['203.0.113.9', '2001:db8::9']);
    };
    const urls = ['https://API.Prod.example.:6443', 'https://api.prod.example', 'https://10.96.0.1', 'https://[2001:DB8::1]:6443/'];
    const names = await serverNames(urls, lookup, fakeClock(), () => expect.unreachable())();
    expect(names).toEqual({
      hosts: ['api.prod.example', '10.96.0.1', '2001:db8:0:0:0:0:0:1'],
      addresses: ['203.0.113.9', '2001:db8:0:0:0:0:0:9'],
    });
    const mapped = await serverNames(['https://[::ffff:10.96.0.1]'], lookup, fakeClock(), () => expect.unreachable())();
    expect(['10.96.0.1', '::ffff:a60:1', '::a60:1'].map((name) => isOfServer(name, mapped))).toEqual([true, true, false]);
    expect(asked).toEqual(['api.prod.example']);
    expect(['2001:db8::1', '2001:db8::9', 'api.PROD.example.'].map((name) => isOfServer(name, names))).toEqual([true, true, true]);
  });

  it('are not known while one does not resolve, and are asked for again later, not with each request', async () => {
    const clock = fakeClock();
    const errors: unknown[] = [];
    let answers: (() => Promise<string[]>)[] = [() => Promise.reject(new Error('EAI_AGAIN')), () => Promise.resolve(['203.0.113.9'])];
    const read = serverNames(
      ['https://api.example'],
      () => answers.shift()?.() ?? expect.unreachable('asked too often'),
      clock,
      (error) => errors.push(error),
    );
    expect((await Promise.all([read(), read()])).map(({ addresses }) => addresses)).toEqual([undefined, undefined]);
    await clock.advance(30_000);
    expect((await read()).addresses).toBeUndefined();
    await clock.advance(1);
    expect((await read()).addresses).toEqual(['203.0.113.9']);
    expect(errors).toEqual([new Error('EAI_AGAIN')]);
    answers = [];
    expect((await read()).addresses).toEqual(['203.0.113.9']);
  });

  it('have the addresses that the system knows', async () => {
    expect(await systemLookup('localhost')).toContain('127.0.0.1');
  });
});
