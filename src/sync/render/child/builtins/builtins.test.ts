import { createHash } from 'node:crypto';
import * as node from 'node:path';
import { describe, expect, it } from 'vitest';
import { createHash as standIn, hashPort } from './crypto.ts';
import { hexOf } from './hex.ts';
import * as ours from './path.ts';

describe('what stands for node:path reports what node:path reports', () => {
  const paths = [
    '',
    '.',
    '/',
    'a',
    'a/b',
    '/a/b',
    'a/b/',
    'a//b',
    './a',
    '../a',
    '/../a',
    'a/../b',
    'a/../../b',
    'a/./b',
    'x.tar.gz',
    '.rc',
    'a.b/c',
    '/a.js',
    'a.',
    '..',
  ];

  it.each(paths)('%j', (path) => {
    expect(ours.join(path)).toBe(node.posix.join(path).replace(/(.)\/$/, '$1'));
    expect(ours.dirname(path)).toBe(node.posix.dirname(path));
    expect(ours.basename(path)).toBe(node.posix.basename(path));
    expect(ours.basename(path, '.js')).toBe(node.posix.basename(path, '.js'));
    expect(ours.extname(path)).toBe(node.posix.extname(path));
    expect(ours.resolve('/x', path)).toBe(node.posix.resolve('/x', path));
    expect(ours.resolve('/x', 'y', path, 'z')).toBe(node.posix.resolve('/x', 'y', path, 'z'));
  });
});

describe('digests', () => {
  hashPort.hash = (algorithm, hex) => createHash(algorithm).update(hex, 'hex').digest('hex');

  it.each(['', 'a', 'ü', '€', '𝄞', '%41', '\0\n', 'lone \ud800 half', 'x'.repeat(10_000)])('of %j are those of its UTF-8', (text) => {
    expect(hexOf(text)).toBe(Buffer.from(text).toString('hex'));
    const hash = standIn('sha256');
    hash.update(text);
    hash.update(Uint8Array.of(0, 10, 255));
    expect(hash.digest('hex')).toBe(
      createHash('sha256')
        .update(text)
        .update(Uint8Array.of(0, 10, 255))
        .digest('hex'),
    );
  });

  it('are to be had as hex and in no other form', () => {
    expect(() => standIn('sha256').digest('base64')).toThrow('"hex"');
  });
});
