import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { sha256Hex } from '../../api/digest.ts';
import { decode } from './decode.ts';
import { RenderError } from './errors.ts';
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

/** Instead of the child: code that has taken it over and answers what it likes. */
function forger(code: string): string {
  const path = join(folder, `${sha256Hex(code).slice(0, 16)}.mjs`);
  writeFileSync(path, `import { writeSync } from 'node:fs';\n${code}\n`);
  return path;
}
const folder = mkdtempSync(join(tmpdir(), 'kubenode-forger-'));
afterAll(() => rmSync(folder, { recursive: true }));
const answer = (
  object: string,
): string => `writeSync(3, JSON.stringify({ ok: true, unsigned: [], clusters: [{ name: 'a', location: 'fleet/main.ts:1:1',
  object: { apiVersion: 'v1', kind: 'C', metadata: { name: 'a' } }, objects: [{ location: 'fleet/main.ts:6:3', path: 'p', object: ${object} }] }] }));`;

/** In front of a fleet: reports LEAK when a function or an object of another realm is met, in any way. */
const WATCH = `
const isForeign = (value) => (typeof value === 'function' || (typeof value === 'object' && value !== null)) && !(value instanceof Object) && Object.getPrototypeOf(value) !== null;
const { log } = console;
const observed = (where, ...values) => { for (const value of values) if (isForeign(value)) log('LEAK ' + where); };
const { apply } = Reflect;
const wrap = (owner, key, name) => {
  const { value, configurable, writable } = Object.getOwnPropertyDescriptor(owner, key) ?? {};
  if (typeof value !== 'function' || !configurable || !writable || key === 'constructor') return;
  let busy = false;
  owner[key] = function (...args) {
    if (!busy) { busy = true; try { observed(name, this, ...args); } finally { busy = false; } }
    return apply(value, this, args);
  };
};
const builtins = { String, RegExp, Array, Map, Set, WeakMap, Object, Function, Error, Number, Date, Symbol };
for (const [name, each] of Object.entries(builtins)) for (const key of Reflect.ownKeys(each.prototype)) {
  if (each === Function && (key === 'call' || key === 'apply' || key === 'bind' || key === Symbol.hasInstance)) continue;
  if (each === Object && key === 'isPrototypeOf') continue;
  wrap(each.prototype, key, name + '.' + String(key));
}
`;

describe('security 1: a fleet that changes builtins', () => {
  it.each([
    ['methods of all of them', WATCH],
    [
      'Object.prototype',
      `${WATCH} for (const key of ['then', 'get', 'set', 'value', 'url', 'format', 'source', 'env', 'domain', 'importModuleDynamically', 'constructor_'])
        Object.defineProperty(Object.prototype, key, { configurable: true, get() { observed('Object.prototype.' + key, this); return undefined; }, set(value) { observed('set ' + key, this, value); Object.defineProperty(this, key, { value, writable: true, configurable: true, enumerable: true }); } });`,
    ],
    ['Symbol.species', `${WATCH} Object.defineProperty(Array, Symbol.species, { get() { observed('species', this); return Array; } });`],
    [
      'Error.prepareStackTrace',
      `${WATCH} Error.prepareStackTrace = (error, sites) => { observed('sites', error, sites, ...sites); for (const site of sites) observed('site', site.getThis(), site.getFunction(), site.getEvalOrigin()); return 'x'; };
       void new Error().stack; try { null.x; } catch (error) { void error.stack; }`,
    ],
    [
      'what Reflect and JSON do',
      `${WATCH} for (const key of Reflect.ownKeys(Reflect)) if (key !== 'apply') wrap(Reflect, key, 'Reflect'); for (const key of Reflect.ownKeys(JSON)) wrap(JSON, key, 'JSON');`,
    ],
    [
      'promises, which are frozen',
      `${WATCH} try { Promise.prototype.then = () => log('LEAK then'); } catch (error) { observed('freeze', error); } await { then(resolve) { observed('then', resolve); resolve(1); } };`,
    ],
    [
      'import.meta',
      `${WATCH} observed('meta', import.meta); for (const key of Reflect.ownKeys(import.meta)) observed('meta.' + String(key), import.meta[key]);`,
    ],
  ])('%s: meets nothing that is not its own', async (_, head) => {
    const text = inCluster(
      "  new MachineSet(web, 'web', { provider: 'local' });",
      `import { sha256 } from 'kubenode/constructs';\n${head}`,
    );
    const { log } = await renderFleet(text, { walls: bare, limits: { logBytes: 2 ** 22 } }).catch((error: unknown) => {
      if (error instanceof RenderError) return { log: `${error.log}${error.findings[0].code === 'RenderCrashed' ? error.message : ''}` };
      throw error;
    });
    expect(log.trim()).toBe('');
  });

  it('meets one thing of the realm around it, an error at the end of the stack, and that is frozen and makes no code', async () => {
    const code = `
      const seen = new Set();
      const observed = (name, error) => {
        if (error instanceof Object) return;
        seen.add(name);
        for (let each = Object.getPrototypeOf(error); each !== null; each = Object.getPrototypeOf(each))
          if (!Object.isFrozen(each) || !Object.isFrozen(each.constructor)) seen.add('not frozen: ' + each.constructor.name);
        const { constructor: Func } = error.constructor;
        if (!Object.isFrozen(Func) || !Object.isFrozen(Func.prototype)) seen.add('not frozen: Function');
        try { Func('return process')(); seen.add('ESCAPED'); } catch (refused) { seen.add(refused.name); }
      };
      const probe = (name, act) => {
        const dive = () => {
          try { dive(); } catch (error) { observed(name, error); }
          try { act(); } catch (error) { observed(name, error); }
        };
        dive();
      };
      probe('log', () => console.log(''));
      probe('digest', () => sha256Of('x'));
      probe('throw', () => { throw new Error(); });
      probe('stack', () => new Error().stack);
      console.error([...seen].join(' '));`;
    const { log } = await renderFleet(
      running(`import { Release } from 'kubenode/constructs';\nconst sha256Of = (text) => new Release('a', text, {}, {});\n${code}`),
      {
        walls: bare,
        limits: { logBytes: 2 ** 24 },
      },
    );
    expect(['', 'stack EvalError']).toContain(log.trim());
  });

  it.each([
    "import('node:process')",
    'import ("node:process")',
    'import/* x */("node:process")',
    'import // x\n ("node:process")',
    'import\u2028("node:process")',
    "import.source('x')",
    "import.defer('x')",
    "`${import('x')}`",
    "import('./main.ts')",
  ])('and then loads a module is refused before anything runs: %s', async (code) => {
    const source = `String.prototype.startsWith = () => false;\nconsole.log('ran');\nexport const all = [() => ${code}];`;
    const error: unknown = await renderFleet(source, { walls: bare }).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(RenderError);
    expect((error as RenderError).log).toBe('');
    expect((error as RenderError).findings[0]).toMatchObject({ code: 'RenderImport', file: ENTRY, line: 3 });
  });

  it('static imports lead to files of the commit and to what is shipped, and nowhere else', async () => {
    const specifiers = [
      'node:process',
      'process',
      '/etc/passwd',
      'file:///etc/passwd',
      'data:text/javascript,1',
      'https://example.com/a.js',
      '#internal',
      'shipped:cdk8s',
      'fleet:///fleet/main.ts',
      './main.ts?again',
      './main.ts#again',
      'cdk8s/lib/app.js',
      'kubenode',
      '__proto__',
      'constructor',
    ];
    for (const specifier of specifiers)
      expect([specifier, (await refused(`import ${JSON.stringify(specifier)};`, { walls: bare })).code]).toEqual([
        specifier,
        'RenderImport',
      ]);
    for (const specifier of ['./%2e%2e/%2e%2e/etc/passwd', '../../../../etc/passwd', './node_modules/cdk8s/lib/app.js', '../package.json'])
      expect([specifier, (await refused(`import ${JSON.stringify(specifier)};`, { walls: bare })).code]).toEqual([
        specifier,
        'RenderNotFound',
      ]);
    // `exports` of a package in the commit mean nothing.
    const files = { [ENTRY]: "import 'evil';", 'node_modules/evil/package.json': '{"exports":"./x.js"}', 'node_modules/evil/x.js': '' };
    expect(await refused(files, { walls: bare })).toMatchObject({ code: 'RenderImport' });
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
      "eval('1')": 'EvalError: Code generation from strings disallowed for this context',
      "(async () => {}).constructor('return process')()": 'EvalError: Code generation from strings disallowed for this context',
      "fetch('http://127.0.0.1')": 'RenderNotRepeatable',
      'new XMLHttpRequest()': 'ReferenceError: XMLHttpRequest is not defined',
      'new SharedArrayBuffer(8)': 'RenderNotRepeatable',
      'new WebAssembly.Memory({ initial: 1 })': 'RenderNotRepeatable',
      "new WebSocket('ws://127.0.0.1')": 'RenderNotRepeatable',
      'process.kill(1)': 'TypeError: process.kill is not a function',
      'process.exit()': 'TypeError: process.exit is not a function',
      "process.getBuiltinModule('fs')": 'TypeError: process.getBuiltinModule is not a function',
      "process.binding('fs')": 'TypeError: process.binding is not a function',
      "require('fs')": 'ReferenceError: require is not defined',
      "new Worker('data:,')": 'RenderNotRepeatable',
      "process.dlopen({}, '/x.node')": 'TypeError: process.dlopen is not a function',
      'new WebAssembly.Module(new Uint8Array())': 'RenderNotRepeatable',
      'structuredClone({})': 'ReferenceError: structuredClone is not defined',
      "Buffer.from('')": 'ReferenceError: Buffer is not defined',
      'setTimeout(() => {})': 'RenderNotRepeatable',
      'queueMicrotask(() => {})': 'ReferenceError: queueMicrotask is not defined',
      'gc()': 'ReferenceError: gc is not defined',
    };
    expect(await attempts(Object.keys(expected), { walls: bare })).toEqual(expected);
  });

  it('what it must not, and the finding names the line', async () => {
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
      const reach = [Object.keys(process.env).length, process.argv.length, typeof process.stdout, typeof console._stdout, typeof globalThis.gc];
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

  it('is refused with the line', async () => {
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
    const object = "{ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'a' }, data: { at: String(process.hrtime.bigint()) } }";
    expect(await refused(running(''), { verify: true, childPath: forger(answer(object)) })).toMatchObject({
      code: 'RenderUnstable',
      object: 'ConfigMap/a',
      file: ENTRY,
      line: 6,
    });
  });
});

describe.concurrent('a fleet that tampers', () => {
  it('with what makes the result is refused', async () => {
    expect(await refused(running("JSON.stringify = () => 'gotcha'; Object.prototype.toJSON = () => 'gotcha';"))).toBeDefined();
    const body = "  new MachineSet(web, 'web', { provider: 'local' });";
    expect(await refused(inCluster(body, "JSON.stringify = () => 'gotcha';"))).toMatchObject({ code: 'RenderValue', line: 6 });
  });

  it('security 1: with the answer itself gains nothing but a refusal', async () => {
    const forgeries: [text: string, code: string][] = [
      ["writeSync(3, '');", 'RenderCrashed'],
      ["writeSync(3, 'x');", 'RenderCrashed'],
      [`writeSync(3, '{"ok":true,"unsigned":[],"clusters":[]}');`, 'RenderEmpty'],
      [`writeSync(3, '{"ok":true,"unsigned":[],"clusters":[]}'.repeat(2));`, 'RenderCrashed'],
      ['writeSync(3, Buffer.alloc(2e6));', 'RenderTooLarge'],
      ["writeSync(3, '{}'); process.exit(7);", 'RenderCrashed'],
      ["console.error('FATAL: Allocation failed'); process.exit(1);", 'RenderMemory'],
    ];
    for (const [text, code] of forgeries)
      expect([text, (await refused(running(''), { childPath: forger(text), limits: { outputBytes: 1e6 } })).code]).toEqual([text, code]);
    // The first process of a namespace, which it is behind `unshare`, is not ended by a signal of its own.
    const killed = {
      childPath: forger("process.kill(process.pid, 'SIGTERM'); setInterval(() => {}, 1000);"),
      limits: { cpuSeconds: 1, wallMilliseconds: 5000 },
    };
    expect(['RenderCrashed', 'RenderTimeout']).toContain((await refused(running(''), killed)).code);
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
    unsigned: [],
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
    '{"ok":true,"clusters":[]}',
    '{"ok":true,"unsigned":[],"clusters":[7]}',
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
