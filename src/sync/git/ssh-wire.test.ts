import { describe, expect, it } from 'vitest';
import { sshReader, sshString } from './ssh-wire.ts';

const mpint = (...bytes: number[]) => sshReader(sshString(Uint8Array.from(bytes))).mpint();

describe('numbers of any length', () => {
  it.each([
    [[3], [3]],
    [[0x7f], [0x7f]],
    [
      [1, 0, 1],
      [1, 0, 1],
    ],
    [[0, 0x80], [0x80]],
    [
      [0, 0xff, 1],
      [0xff, 1],
    ],
  ])('%j', (bytes, value) => {
    expect([...mpint(...bytes)]).toEqual(value);
  });

  it.each([
    [[], 'has a number that is not positive'],
    [[0x80], 'has a number that is not positive'],
    [[0xff, 1], 'has a number that is not positive'],
    [[0], 'has a number with needless zeros'],
    [[0, 0x7f], 'has a number with needless zeros'],
    [[0, 0, 0x80], 'has a number with needless zeros'],
  ])('%j is none', (bytes, why) => {
    expect(() => mpint(...bytes)).toThrow(new RangeError(why));
  });
});

describe('texts', () => {
  it.each([' ~', 'ssh-ed25519', ''])('%j', (text) => {
    expect(sshReader(sshString(text)).text()).toBe(text);
  });

  it.each(['\u001f', '\u007f', 'ü', '\n'])('%j is none', (text) => {
    expect(() => sshReader(sshString(text)).text()).toThrow(new RangeError('has text that is not ASCII'));
  });
});

it('reads in order, not beyond the end, and is then at its end', () => {
  const reader = sshReader(Buffer.concat([sshString('ab'), Buffer.from([7, 0, 0, 1, 0]), Buffer.from('xyz')]));
  expect(reader.string().toString()).toBe('ab');
  expect(reader.uint8()).toBe(7);
  expect(reader.uint32()).toBe(256);
  expect(() => reader.end()).toThrow('has bytes after its end');
  expect(() => reader.fixed(4)).toThrow(RangeError);
  expect(reader.fixed(3).toString()).toBe('xyz');
  expect(() => reader.end()).not.toThrow();
  expect(() => reader.uint8()).toThrow(RangeError);
  expect(() => sshReader(Buffer.from([0, 0, 0, 9, 1])).string()).toThrow(RangeError);
});
