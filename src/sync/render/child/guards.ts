/** The same commit gives the same bytes: what differs from one run to the next is refused where it is asked for, never faked. */
import { Writable } from 'node:stream';
import { Console } from 'node:console';
import { calledByFleet } from './places.ts';
import { SandboxError } from './sandboxerror.ts';

function refuse(what: string): never {
  throw new SandboxError(
    'RenderNotRepeatable',
    `${what} gives a different answer on every rendering: the same commit must always give the same objects`,
    {
      next: 'write the value down in the fleet',
    },
  );
}

function set(target: object, key: string, value: unknown): void {
  Object.defineProperty(target, key, { value, writable: false, enumerable: false, configurable: false });
}

const FUNCTIONS = ['setTimeout', 'setInterval', 'setImmediate', 'clearTimeout', 'clearInterval', 'clearImmediate', 'fetch'];
const OBJECTS = [
  'crypto',
  'performance',
  'Atomics',
  'SharedArrayBuffer',
  'WeakRef',
  'FinalizationRegistry',
  'WebAssembly',
  'WebSocket',
  'EventSource',
  'MessageChannel',
  'BroadcastChannel',
  'Worker',
  'scheduler',
  'navigator',
  'localStorage',
  'sessionStorage',
];

function random(): number {
  // cdk8s-plus asks at import, through a package, for something that never reaches an object.
  return calledByFleet(random) ? refuse('Math.random()') : 0.5;
}

/** Call it after everything that the child itself still needs of these is loaded. */
export function guard(write: (fd: 1 | 2, text: string) => void): void {
  guardDates();
  set(Math, 'random', random);
  for (const name of FUNCTIONS) set(globalThis, name, () => refuse(`${name}()`));
  for (const name of OBJECTS) {
    const descriptor = Object.getOwnPropertyDescriptor(globalThis, name);
    if (descriptor?.configurable !== true) continue;
    // Node asks for some of them itself, late, and then it is not the fleet's answer that depends on it.
    const get = (): unknown =>
      calledByFleet(get) ? refuse(name) : descriptor.get === undefined ? descriptor.value : descriptor.get.call(globalThis);
    Object.defineProperty(globalThis, name, { get, enumerable: false, configurable: false });
  }
  set(AbortSignal, 'timeout', () => refuse('AbortSignal.timeout()'));
  set(globalThis, 'process', processStub());
  const stream = (fd: 1 | 2) =>
    new Writable({
      decodeStrings: false,
      write(chunk: unknown, _encoding, done) {
        write(fd, String(chunk));
        done();
      },
    });
  // Node's own console leads to the real process through its streams.
  set(globalThis, 'console', new Console({ stdout: stream(1), stderr: stream(2) }));
}

function guardDates(): void {
  const Real = Date;
  const guarded = new Proxy(Real, {
    apply: () => refuse('Date()'),
    construct(target, args, newTarget) {
      if (args.length === 0) refuse('new Date()');
      return Reflect.construct(target, args, newTarget) as Date;
    },
  });
  set(Real, 'now', () => refuse('Date.now()'));
  set(Real.prototype, 'constructor', guarded);
  set(globalThis, 'Date', guarded);

  // Without a date they format the present.
  const { prototype } = Intl.DateTimeFormat;
  const format = Object.getOwnPropertyDescriptor(prototype, 'format');
  const parts: unknown = Object.getOwnPropertyDescriptor(prototype, 'formatToParts')?.value;
  Object.defineProperty(prototype, 'format', {
    get(this: unknown) {
      const bound: unknown = format?.get?.call(this);
      return (...args: unknown[]) => dated('format', bound, this, args);
    },
    configurable: false,
  });
  set(prototype, 'formatToParts', function formatToParts(this: unknown, ...args: unknown[]) {
    return dated('formatToParts', parts, this, args);
  });
}

function dated(name: string, original: unknown, self: unknown, args: unknown[]): unknown {
  if (args[0] === undefined) refuse(`Intl.DateTimeFormat.${name}()`);
  return typeof original === 'function' ? Reflect.apply(original, self, args) : undefined;
}

/** What packages ask of `process`. Nothing of the real one can be reached from it. */
function processStub(): object {
  return Object.freeze({
    env: Object.freeze({}),
    argv: Object.freeze([]),
    // cdk8s starts it to load files, and is then refused.
    execPath: '/node',
    platform: 'linux',
    arch: 'x64',
    version: 'v24.0.0',
    versions: Object.freeze({ node: '24.0.0' }),
    cwd: () => '/',
    emitWarning: () => {},
  });
}
