/** The same commit gives the same bytes: what differs from one run to the next is refused where it is asked for, never faked. */
import process from './builtins/process.ts';
import { calledByFleet } from './locations.ts';
import { SandboxError } from './sandbox-error.ts';

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

/** To be called after the packages are loaded: some ask, for what never reaches an object. */
export function guard(write: (fd: 1 | 2, text: string) => void): void {
  guardDates();
  set(Math, 'random', random);
  for (const name of FUNCTIONS) set(globalThis, name, () => refuse(`${name}()`));
  for (const name of OBJECTS) Object.defineProperty(globalThis, name, { get: () => refuse(name), enumerable: false, configurable: false });
  set(globalThis, 'process', process);
  set(globalThis, 'console', logTo(write));
  // The realm around this one waits for one promise of this one, and must not be led to code of the fleet by it.
  Object.freeze(Promise.prototype);
  Object.freeze(Promise);
}

function logTo(write: (fd: 1 | 2, text: string) => void): object {
  const to =
    (fd: 1 | 2) =>
    (...values: unknown[]): void =>
      write(fd, `${values.map(shown).join(' ')}\n`);
  const [out, err] = [to(1), to(2)];
  return { log: out, info: out, debug: out, dir: out, table: out, group: out, groupEnd: () => {}, warn: err, error: err, trace: err };
}

function shown(value: unknown): string {
  if (typeof value === 'string') return value;
  if (value instanceof Error) return `${value.name}: ${value.message}`;
  if (value === null || typeof value !== 'object') return String(value);
  return JSON.stringify(value, (_, each: unknown) => (typeof each === 'bigint' ? String(each) : each)) ?? '';
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
  const parts: CallableFunction = Object.getOwnPropertyDescriptor(prototype, 'formatToParts')?.value;
  Object.defineProperty(prototype, 'format', {
    get(this: unknown) {
      const bound: CallableFunction = format?.get?.call(this);
      return (...args: unknown[]) => dated('format', bound, this, args);
    },
    configurable: false,
  });
  set(prototype, 'formatToParts', function formatToParts(this: unknown, ...args: unknown[]) {
    return dated('formatToParts', parts, this, args);
  });
}

function dated(name: string, original: CallableFunction, self: unknown, args: unknown[]): unknown {
  if (args[0] === undefined) refuse(`Intl.DateTimeFormat.${name}()`);
  return Reflect.apply(original, self, args);
}
