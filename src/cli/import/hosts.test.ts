import { describe, expect, it } from 'vitest';
import { parseHost, parseHostsFile, requireDistinct } from './hosts.ts';

const defaults = { port: 22, user: 'root' };
const usage = expect.objectContaining({ code: 'Usage' }) as Error;

describe('machines of an import', () => {
  it.each([
    ['10.0.0.7', { host: '10.0.0.7', port: 22, user: 'root' }],
    ['admin@web-1.example:2222', { host: 'web-1.example', port: 2222, user: 'admin' }],
    ['admin@[2001:db8::1]:2222', { host: '2001:db8::1', port: 2222, user: 'admin' }],
    ['[2001:db8::1]', { host: '2001:db8::1', port: 22, user: 'root' }],
    ['2001:db8::1', { host: '2001:db8::1', port: 22, user: 'root' }],
  ])('are written as %s', (text, host) => {
    expect(parseHost(text, defaults)).toEqual(host);
  });

  it.each(['', 'a b', 'a:x', '@a', 'a:b:c', 'a@b@c:1'])('are not written as "%s"', (text) => {
    expect(() => parseHost(text, defaults)).toThrow(usage);
  });

  it('come from a file, a line each, with names, fingerprints and comments', () => {
    const print = `SHA256:${'a'.repeat(43)}`;
    expect(parseHostsFile(`# rack 1\n10.0.0.7 name=web-7 fingerprint=${print}\n\nadmin@10.0.0.8 # spare\n`, 'f', defaults)).toEqual([
      { host: '10.0.0.7', port: 22, user: 'root', name: 'web-7', fingerprint: print },
      { host: '10.0.0.8', port: 22, user: 'admin' },
    ]);
  });

  it.each([
    ['10.0.0.7\n10.0.0.8 nam=x', 'f:2: "nam=x"'],
    ['10.0.0.7 fingerprint=MD5:00', 'f:1: a fingerprint'],
    ['a b', 'f:1: "b"'],
  ])('are refused with the line: %j', (text, expected) => {
    expect(() => parseHostsFile(text, 'f', defaults)).toThrow(expected);
  });

  it('are each another one', () => {
    const one = parseHost('10.0.0.7', defaults);
    expect(() => requireDistinct([one, parseHost('admin@10.0.0.7', defaults)])).toThrow(usage);
    expect(() =>
      requireDistinct([
        { ...one, name: 'a' },
        { ...parseHost('10.0.0.8', defaults), name: 'a' },
      ]),
    ).toThrow(usage);
    expect(() => requireDistinct([one, parseHost('10.0.0.7:23', defaults)])).not.toThrow();
  });
});
