import { describe, expect, it } from 'vitest';
import { decode } from './decode.ts';
import { attempts, ENTRY, inCluster, refused, renderFleet, running } from './testing/fleets.ts';
import { walls } from './wall.ts';

/** The weakest wall: what is refused behind it is refused behind all. */
const bare = (await walls()).slice(-1);
const limited = (await walls()).find((wall) => wall.tool !== 'none');

describe.concurrent('a fleet that takes too much ends in one error', () => {
  const limits = { wallMilliseconds: 1500 };

  it('time, in a loop', async () => {
    expect(await refused(running('for (;;) {}'), { limits })).toMatchObject({
      code: 'RenderTimeout',
      message: 'rendering took longer than 1.5 s',
    });
  });

  it('time, in a regular expression', async () => {
    expect(await refused(running(`/^(a+)+$/.test('${'a'.repeat(60)}!');`), { limits })).toMatchObject({ code: 'RenderTimeout' });
  });

  it.skipIf(limited === undefined)('processor time', async () => {
    expect(await refused(running('for (;;) {}'), { limits: { cpuSeconds: 1, wallMilliseconds: 20_000 } })).toMatchObject({
      code: 'RenderTimeout',
    });
  });

  it('memory, in objects', async () => {
    const code = 'const all = []; for (;;) all.push(new Array(100_000).fill({}));';
    expect(await refused(running(code), { limits: { heapMiB: 60 } })).toMatchObject({ code: 'RenderMemory' });
  });

  it.skipIf(limited === undefined)('memory, in buffers', async () => {
    const code = 'const all = []; for (;;) all.push(new Uint8Array(5_000_000).fill(1));';
    // Which of the two it is depends on who asks for memory last, the fleet or Node.
    expect(['RenderThrew', 'RenderMemory']).toContain((await refused(running(code))).code);
  });

  it('stack', async () => {
    expect(await refused(running('const f = () => f(); f();'))).toMatchObject({
      code: 'RenderThrew',
      message: 'RangeError: Maximum call stack size exceeded',
      line: 2,
    });
  });

  it('output', async () => {
    const body = "new KubeObject(web, { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'a' }, data: { a: 'x'.repeat(3e6) } });";
    expect(await refused(inCluster(body), { limits: { outputBytes: 1e6 } })).toMatchObject({
      code: 'RenderTooLarge',
      message: 'more than 1000000 bytes were rendered',
    });
  });

  it('log', async () => {
    expect(await refused(running("for (;;) console.log('all work and no play');"))).toMatchObject({
      code: 'RenderTooLarge',
      message: 'fleet code logged more than 65536 bytes',
    });
  });

  it('input', async () => {
    expect(await refused(running(`// ${'x'.repeat(2000)}`), { limits: { inputBytes: 1000 } })).toMatchObject({ code: 'RenderTooLarge' });
  });
});

describe.concurrent('a fleet cannot reach', () => {
  it.each([
    ["import { readFileSync } from 'node:fs';", 'RenderImport', 30],
    ["import { execSync } from 'child_process';", 'RenderImport', 26],
    ["import '../../../etc/passwd';", 'RenderNotFound', 8],
  ])('%s', async (code, expected, column) => {
    expect(await refused(running(code), { walls: bare })).toMatchObject({ code: expected, file: ENTRY, line: 2, column });
  });

  it('files, processes, the network, or code made from text', async () => {
    const expected = {
      "import('fs' + '/promises')": 'RenderImport',
      "import('/etc/passwd')": 'RenderImport',
      "import('file:///etc/passwd')": 'RenderImport',
      "import('data:text/javascript,1')": 'RenderImport',
      "import('https://example.com/a.js')": 'RenderImport',
      "import('#internal')": 'RenderImport',
      "import('./main.ts?again')": 'RenderImport',
      "import('./%2e%2e/%2e%2e/etc/passwd')": 'RenderNotFound',
      "eval('1')": 'EvalError: Code generation from strings disallowed for this context',
      "(async () => {}).constructor('return process')()": 'EvalError: Code generation from strings disallowed for this context',
      "fetch('http://127.0.0.1')": 'RenderNotRepeatable',
      'new SharedArrayBuffer(8)': 'RenderNotRepeatable',
      'new WebAssembly.Memory({ initial: 1 })': 'RenderNotRepeatable',
      "new WebSocket('ws://127.0.0.1')": 'RenderNotRepeatable',
      'process.kill(1)': 'TypeError: process.kill is not a function',
      'process.exit()': 'TypeError: process.exit is not a function',
      "process.getBuiltinModule('fs')": 'TypeError: process.getBuiltinModule is not a function',
      "process.binding('fs')": 'TypeError: process.binding is not a function',
      "require('fs')": 'ReferenceError: require is not defined',
      "new Worker('data:,')": 'ReferenceError: Worker is not defined',
      'gc()': 'ReferenceError: gc is not defined',
    };
    expect(await attempts(Object.keys(expected), { walls: bare })).toEqual(expected);
  });

  it('what it must not, and is told where it tried', async () => {
    expect(await refused(running("eval('1');"))).toMatchObject({ code: 'RenderForbidden', file: ENTRY, line: 2 });
    expect(await refused(running("require('fs');"))).toMatchObject({
      code: 'RenderImport',
      file: ENTRY,
      line: 2,
      next: "import … from './file.ts'",
    });
  });

  it('its environment, arguments, streams or handles', async () => {
    const code = `
      const reach = [Object.keys(process.env).length, process.argv.length, typeof process.stdout, typeof console._stdout._handle, typeof globalThis.gc];
      if (JSON.stringify(reach) !== '[0,0,"undefined","undefined","undefined"]') throw new Error(JSON.stringify(reach));
      process.env.HOME = '/';`;
    expect(await refused(running(code), { walls: bare })).toMatchObject({
      message: expect.stringContaining('object is not extensible') as unknown,
      line: 5,
    });
  });

  it('functions of what runs it, through stack frames', async () => {
    const code = `
      Error.prepareStackTrace = (_, sites) => sites;
      const found = new Error().stack.map((site) => [site.getFileName(), typeof site.getFunction(), typeof site.getThis()]);
      const leaks = found.filter(([, f, self]) => f !== 'undefined' || self !== 'undefined');
      if (leaks.length > 0) throw new Error(JSON.stringify(leaks));`;
    await expect(renderFleet(running(code), { walls: bare })).resolves.toMatchObject({ isolation: 'process' });
  });

  it('files through the packages it may import', async () => {
    const synth = "import { App } from 'cdk8s';\nfleet.cluster('a');\nnew App().synth();";
    expect(await refused(running(synth))).toMatchObject({
      code: 'RenderForbidden',
      line: 4,
      next: expect.stringContaining("with { type: 'text' }") as unknown,
    });
    const include = inCluster("  new Include(cluster, 'x', { url: '/etc/passwd' });", "import { Include } from 'cdk8s';");
    expect(await refused(include)).toMatchObject({ code: 'RenderForbidden', line: 6 });
  });
});

describe.concurrent('a fleet that is not repeatable', () => {
  it('is refused whatever it asks', async () => {
    const questions = [
      'Date.now()',
      'new Date()',
      'Date()',
      'new (class extends Date {})()',
      'new (new Date(0).constructor)()',
      'Math.random()',
      '[1].map(Math.random)',
      'crypto.randomUUID()',
      'performance.now()',
      'setTimeout(() => {}, 1)',
      'setImmediate(() => {})',
      'AbortSignal.timeout(1)',
      'new WeakRef({})',
      'new FinalizationRegistry(() => {})',
      'Intl.DateTimeFormat().format()',
      "new Intl.DateTimeFormat('en').formatToParts()",
      'navigator.hardwareConcurrency',
    ];
    expect(await attempts(questions, { walls: bare })).toEqual(
      Object.fromEntries(questions.map((question) => [question, 'RenderNotRepeatable'])),
    );
  });

  it('is told the line', async () => {
    expect(await refused(running('const id = Math.random();'))).toMatchObject({
      code: 'RenderNotRepeatable',
      message: expect.stringMatching(/^Math\.random\(\) gives a different answer on every rendering/) as unknown,
      file: ENTRY,
      line: 2,
    });
  });

  it('may compute with dates that it writes down', async () => {
    const code =
      "if (new Date(2020, 1, 1).toISOString() !== '2020-02-01T00:00:00.000Z') throw new Error('not UTC');\nif (new Intl.DateTimeFormat('en').format(new Date(0)) !== '1/1/1970') throw new Error('no format');";
    await expect(renderFleet(running(code))).resolves.toBeDefined();
  });

  it('that slips through is found by rendering twice', async () => {
    const body =
      "  new KubeObject(web, { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'a' }, data: { at: String(new Event('x').timeStamp) } });";
    expect(await refused(inCluster(body), { verify: true })).toMatchObject({
      code: 'RenderUnstable',
      object: 'ConfigMap/a',
      file: ENTRY,
      line: 6,
    });
  });
});

describe.concurrent('a fleet that tampers', () => {
  it('with the result is refused', async () => {
    expect(await refused(running("JSON.stringify = () => 'gotcha';"))).toMatchObject({ code: 'RenderCrashed' });
  });

  it('with stacks does not lose its lines', async () => {
    const head = "Error.prepareStackTrace = () => 'nowhere'; Error.stackTraceLimit = 0;";
    const { clusters } = await renderFleet(inCluster("  new MachineSet(web, 'web', { provider: 'local' });", head));
    expect(clusters[0]?.objects.map((each) => each.location)).toEqual(['fleet/main.ts:6:3', 'fleet/main.ts:5:23']);
  });

  it('by writing control characters cannot speak to a terminal', async () => {
    const { log } = await renderFleet(running("console.log('\\x1b[2Jgone\\u202e\\x07'); console.error('second');"));
    expect(log).toBe('[2Jgone\nsecond\n');
  });
});

const output = (object: unknown) =>
  JSON.stringify({
    ok: true,
    clusters: [
      {
        name: 'a',
        object: { apiVersion: 'v1', kind: 'C', metadata: { name: 'a' } },
        location: 'x:1:1',
        objects: [{ object, location: 'f:2:3', path: 'p' }],
      },
    ],
  });

describe('what a child wrote', () => {
  const nested = (depth: number): unknown => (depth === 0 ? 1 : { a: nested(depth - 1) });

  it.each([
    ['{"a":{"__proto__":{"x":1}}}', 'must not have a key "__proto__"'],
    ['{"a":[null]}', 'must not have null in a list'],
    [JSON.stringify(nested(100)), 'must not be nested deeper than 64'],
    ['{"kind":"A"}', 'must have text in `apiVersion`, `kind` and `metadata.name`'],
    ['7', 'must have text in `apiVersion`, `kind` and `metadata.name`'],
  ])('%.40s is refused', (object, message) => {
    const text = output('HERE').replace('"HERE"', object);
    expect(decode(text)).toMatchObject({ findings: [{ code: 'RenderValue', message, file: 'f', line: 2, column: 3 }] });
  });

  it.each([
    '',
    '[]',
    'null',
    '{"ok":true}',
    '{"ok":true,"clusters":[7]}',
    '{"ok":false}',
    '{"ok":false,"findings":[]}',
    '{"ok":"yes","clusters":[]}',
  ])('%s is no result', (text) => {
    expect(decode(text)).toBeUndefined();
  });

  it('is read without recursion, however deep', () => {
    const deep = `${'['.repeat(200_000)}${']'.repeat(200_000)}`;
    expect(decode(output('HERE').replace('"HERE"', deep))).toMatchObject({ findings: [{ message: 'must not be nested deeper than 64' }] });
  });
});
