import { describe, expect, test } from 'vitest';
import { CertificateSigningRequests, Events, Nodes } from './builtin.ts';
import { API_VERSION } from './kind.ts';
import { Machines } from './machine.ts';
import { plainOutput, plainText, plainTexts } from './plain-text.ts';

const ESCAPE = '\u001B[2J\u001B]0;title\u0007';
const SHOWN = '\\u001b[2J\\u001b]0;title\\u0007';

test.each([
  ['nothing strange, ünd €uro', 'nothing strange, ünd €uro'],
  [ESCAPE, SHOWN],
  ['\u009B31m', '\\u009b31m'],
  ['a\u007Fb', 'a\\u007fb'],
  ['a\r\nforged line\tb\u2028c', 'a forged line b c'],
  ['safe\u202Etxt.exe', 'safe\\u202etxt.exe'],
  ['zero\u200Bwidth', 'zero\\u200bwidth'],
  ['\u{E0041}', '\\udb40\\udc41'],
  ['half \uD800 of one', 'half \uFFFD of one'],
  ['a 😀 b', 'a 😀 b'],
  ['', ''],
])('%j is %j on one line', (text, plain) => {
  expect(plainText(text)).toBe(plain);
  expect(plainText(plain)).toBe(plain);
});

test.each([
  ['x'.repeat(10), 10, 'x'.repeat(10)],
  ['x'.repeat(11), 10, `${'x'.repeat(9)}…`],
  ['\u001B'.repeat(3), 10, '\\u001b\\u0…'],
  [`${'x'.repeat(8)}😀x`, 10, `${'x'.repeat(8)}…`],
  ['😀'.repeat(10), 5, '😀😀…'],
])('%j is cut at %d characters, never in the middle of one', (text, limit, plain) => {
  expect(plainText(text, limit)).toBe(plain);
  expect(plainText(text, limit).isWellFormed()).toBe(true);
});

test('what is far too long costs no more than what is kept of it', () => {
  const began = performance.now();
  expect(plainText('\u001B'.repeat(50_000_000), 100)).toHaveLength(100);
  expect(performance.now() - began).toBeLessThan(1_000);
});

test('every string of a value is made plain; what is plain is not copied', () => {
  const value = { a: [{ b: ESCAPE, c: 7 }], d: null, e: 'plain', f: { g: ['x'] } };
  const plain = plainTexts(value);
  expect(plain).toEqual({ a: [{ b: SHOWN, c: 7 }], d: null, e: 'plain', f: { g: ['x'] } });
  expect(plain.f).toBe(value.f);
  expect(plainTexts(plain)).toBe(plain);
});

test('what is printed keeps its lines, and JSON its values', () => {
  expect(plainOutput(`NAME\tAGE\n${ESCAPE}\r\n`, { format: true })).toBe(`NAME\tAGE\n${SHOWN}\\u000d\n`);
  const value = { name: 'a\u009Bb\u202Ec\u007F\u{E0041}', line: 'a\nb' };
  const printed = plainOutput(JSON.stringify(value), { format: true });
  expect(printed).toMatch(/^[ -~]*$/);
  expect(JSON.parse(printed)).toEqual(value);
  expect(plainOutput('a\u200Db\u009B', { format: false })).toBe('a\u200Db\\u009b');
});

describe('security 6, G7: what nodes wrote is plain as soon as it is read', () => {
  const metadata = { name: 'a', namespace: 'web' };

  test('a Machine: what its agent wrote, and nothing else', () => {
    const failed = { revision: 1, reason: ESCAPE, message: `${ESCAPE}${'x'.repeat(500)}`, restored: true };
    const component = { name: 'app', version: ESCAPE, content: 'c', revision: 1, running: 1, state: 'Healthy', message: ESCAPE, failed };
    const conditions = ['AgentReady', 'Ready'].map((type) => {
      return { type, status: 'True', reason: ESCAPE, message: ESCAPE, lastTransitionTime: '2026-11-20T00:00:00Z' };
    });
    const agent = { version: ESCAPE, apiLevel: 1, bootID: ESCAPE, os: 'linux', arch: 'amd64' };
    const verified = [
      {
        name: 'app',
        version: '1',
        values: { text: 'two\nlines' },
        revision: 1,
        setUID: 's',
        bootID: 'b',
        since: '2026-11-20T00:00:00Z',
      },
    ];
    const status = { agent, components: [component], operation: { id: ESCAPE, state: 'Done', message: ESCAPE }, conditions, verified };
    const machine = Machines.parse({ apiVersion: API_VERSION, kind: 'Machine', metadata, spec: {}, status });
    expect(machine.status?.agent).toMatchObject({ version: SHOWN, bootID: SHOWN });
    expect(machine.status?.operation).toEqual({ id: SHOWN, state: 'Done', message: SHOWN });
    expect(machine.status?.components?.[0]).toMatchObject({ version: SHOWN, message: SHOWN, failed: { reason: SHOWN } });
    expect(machine.status?.components?.[0]?.failed?.message).toMatch(/^\\u001b/);
    expect(machine.status?.conditions?.map(({ message }) => message)).toEqual([SHOWN, ESCAPE]);
    // What is compared by its digest stays as it was.
    expect(machine.status?.verified?.[0]?.values).toEqual({ text: 'two\nlines' });
    const again = Machines.parse(machine);
    expect(again.status?.components).toBe(machine.status?.components);
  });

  test('a Machine that is plain is the object that was read', () => {
    const machine = { apiVersion: API_VERSION, kind: 'Machine', metadata, spec: {}, status: { conditions: [] } };
    expect(Machines.parse(machine)).toBe(machine);
  });

  test('a Node: its conditions, addresses and versions', () => {
    const status = {
      conditions: [{ type: ESCAPE, status: 'True', reason: ESCAPE, message: ESCAPE }],
      nodeInfo: { kubeletVersion: ESCAPE },
      addresses: [{ type: 'Hostname', address: ESCAPE }],
      capacity: { cpu: '2' },
    };
    const node = Nodes.parse({ apiVersion: 'v1', kind: 'Node', metadata, status });
    expect(node.status).toEqual({
      conditions: [{ type: SHOWN, status: 'True', reason: SHOWN, message: SHOWN }],
      nodeInfo: { kubeletVersion: SHOWN },
      addresses: [{ type: 'Hostname', address: SHOWN }],
      capacity: { cpu: '2' },
    });
    const plain = { apiVersion: 'v1', kind: 'Node', metadata, status: { conditions: [], capacity: { cpu: '2' } } };
    expect(Nodes.parse(plain)).toBe(plain);
  });

  test('an Event, and the conditions of a request for a certificate', () => {
    const event = {
      apiVersion: 'v1',
      kind: 'Event',
      metadata,
      involvedObject: {},
      reason: ESCAPE,
      message: `${ESCAPE}${'x'.repeat(5000)}`,
    };
    expect(Events.parse(event).reason).toBe(SHOWN);
    expect(Events.parse(event).message).toHaveLength(1024);
    const request = {
      apiVersion: 'certificates.k8s.io/v1',
      kind: 'CertificateSigningRequest',
      metadata,
      spec: { request: 'x'.repeat(5000), signerName: 's' },
      status: { conditions: [{ type: 'Denied', status: 'True', message: ESCAPE }], certificate: 'y'.repeat(5000) },
    };
    const read = CertificateSigningRequests.parse(request);
    expect(read.status?.conditions?.[0]?.message).toBe(SHOWN);
    expect(read.spec.request).toHaveLength(5000);
    expect(read.status?.certificate).toHaveLength(5000);
  });
});
