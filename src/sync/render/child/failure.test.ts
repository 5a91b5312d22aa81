import { describe, expect, test } from 'vitest';
import { CodedError } from '../../../api/errors.ts';
import { toFinding } from './failure.ts';
import { SandboxError } from './sandbox-error.ts';

const ENTRY = 'fleet/main.ts';

/** An error as V8 makes it, thrown at these locations, innermost first. */
function thrown<T extends Error>(error: T, ...frames: string[]): T {
  error.stack = [`${error.name}: ${error.message}`, ...frames.map((frame) => `    at f (fleet:///${frame})`)].join('\n');
  return error;
}
const withCode = <T extends Error>(error: T, code: string): T => Object.assign(error, { code });
const found = (error: unknown) => toFinding(error, ENTRY);

describe('where it was thrown', () => {
  test('is the innermost location in the fleet; those that called it follow, each once, at most five', () => {
    const frames = ['a%20b.ts:3:7', 'a%20b.ts:3:7', 'fleet/main.ts:9:1', ...[1, 2, 3, 4, 5].map((line) => `deep.ts:${line}:1`)];
    expect(found(thrown(new Error('x'), ...frames))).toEqual({
      code: 'RenderThrew',
      message: 'Error: x',
      file: 'a b.ts',
      line: 3,
      column: 7,
      trace: ['fleet/main.ts:9:1', 'deep.ts:1:1', 'deep.ts:2:1', 'deep.ts:3:1', 'deep.ts:4:1'],
    });
  });

  test('is the entry where no location is known, with no trace', () => {
    for (const error of [thrown(new Error('x')), Object.assign(new Error('x'), { stack: 5 })])
      expect(found(error)).toStrictEqual({ code: 'RenderThrew', message: 'Error: x', file: ENTRY, line: undefined, column: undefined });
  });

  test('is what the sandbox reports, where it does', () => {
    const refusal = (options: { next?: string; location?: string }) => thrown(new SandboxError('RenderImport', 'no', options), 'b.ts:2:2');
    expect(found(refusal({ location: 'a.ts:1:1', next: 'do' }))).toStrictEqual({
      code: 'RenderImport',
      message: 'no',
      next: 'do',
      file: 'a.ts',
      line: 1,
      column: 1,
      trace: ['b.ts:2:2'],
    });
    expect(found(refusal({}))).toStrictEqual({ code: 'RenderImport', message: 'no', file: 'b.ts', line: 2, column: 2 });
  });

  test('is not what another error reports of itself', () => {
    const claims = Object.assign(new Error('x'), { location: 'other.ts:1:1' });
    expect(found(thrown(claims, 'b.ts:2:2'))).toMatchObject({ file: 'b.ts', line: 2, column: 2 });
    expect(found(thrown(claims))).toMatchObject({ file: ENTRY, line: undefined });
  });

  test('of a module that cannot be parsed is above its message', () => {
    const error = new SyntaxError('Unexpected token');
    error.stack = 'fleet:///fleet/a%20b.ts:7\n  let let;\n      ^^^\nSyntaxError: Unexpected token\n    at link (fleet:///c.ts:1:1)';
    expect(found(error)).toMatchObject({ code: 'RenderSyntax', message: 'Unexpected token', file: 'fleet/a b.ts', line: 7, column: 7 });
    error.stack = 'fleet:///a.ts:7\nlet let;\n^\nSyntaxError';
    expect(found(error)).toMatchObject({ line: 7, column: 1 });
  });

  test('of JSON that cannot be parsed is in its message', () => {
    const json = (text: string) => found(thrown(new SyntaxError(text)));
    expect(json('fleet:///a.json: Unexpected token (line 3 column 5)')).toMatchObject({
      code: 'RenderSyntax',
      file: 'a.json',
      line: 3,
      column: 5,
    });
    expect(json('fleet:///a.json: Unexpected end')).toMatchObject({ code: 'RenderSyntax', file: 'a.json', line: undefined });
  });
});

describe('what it was', () => {
  test.each<[string, Error, string, string]>([
    ['a refusal keeps its code', new CodedError('FleetWrong', 'wrong'), 'FleetWrong', 'wrong'],
    [
      'what types cannot be removed of',
      withCode(new SyntaxError('enum\nmore'), 'ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX'),
      'RenderSyntax',
      'enum: types are removed, not compiled',
    ],
    ['what is no TypeScript', withCode(new Error('bad\nmore'), 'ERR_INVALID_TYPESCRIPT_SYNTAX'), 'RenderSyntax', 'bad'],
    ['a syntax error of Node', withCode(new SyntaxError('bad'), 'ERR_VM_MODULE'), 'RenderSyntax', 'bad'],
    [
      'a syntax error that fleet code made',
      new SyntaxError('Unexpected end of JSON input'),
      'RenderThrew',
      'SyntaxError: Unexpected end of JSON input',
    ],
    ['one with a code of its own', withCode(new SyntaxError('bad'), 'MINE'), 'RenderThrew', 'SyntaxError: bad'],
    ['another error of Node', withCode(new TypeError('bad'), 'ERR_INVALID_ARG_TYPE'), 'RenderThrew', 'TypeError: bad'],
    ['a code that is no text', Object.assign(new Error('bad'), { code: 5 }), 'RenderThrew', 'Error: bad'],
    [
      'a file or a process',
      withCode(new Error('denied'), 'ERR_ACCESS_DENIED'),
      'RenderForbidden',
      'must not reach files or processes: rendering sees nothing but the commit',
    ],
    ['code from text', new EvalError('no'), 'RenderForbidden', 'must not make code from text (eval, new Function)'],
    ['CommonJS', new ReferenceError('require is not defined'), 'RenderImport', 'require is not defined: files of a fleet are ES modules'],
    ['another name', new ReferenceError('web is not defined'), 'RenderThrew', 'ReferenceError: web is not defined'],
    ['the same words of another error', new Error('require is not defined'), 'RenderThrew', 'Error: require is not defined'],
    ['names of files are as people write them', new Error('in fleet:///a.ts\nand more'), 'RenderThrew', 'Error: in a.ts'],
  ])('%s', (_what, error, code, message) => {
    expect(found(thrown(error))).toMatchObject({ code, message });
  });

  test('is shown, cut, where it is no Error', () => {
    const shown = (value: unknown): string => found(value).message;
    expect(shown('x'.repeat(300))).toBe(`threw "${'x'.repeat(200)}", which is not an Error and has no line`);
    expect(shown(undefined)).toBe('threw undefined, which is not an Error and has no line');
    expect(shown(Object.create(null))).toBe('threw something, which is not an Error and has no line');
    expect(found(5)).toEqual({ code: 'RenderThrew', file: ENTRY, message: 'threw 5, which is not an Error and has no line' });
  });
});
