import { describe, expect, it } from 'vitest';
import { decodeContinue, encodeContinue } from './continue.ts';

describe('a continue token', () => {
  it('names the snapshot and where to go on', () => {
    expect(decodeContinue(encodeContinue({ rv: 17, start: 'web/a\0' }))).toEqual({ rv: 17, start: 'web/a\0' });
  });

  it.each([
    'zzz',
    Buffer.from('[]').toString('base64url'),
    Buffer.from('{"v":"v9","rv":1,"start":"a"}').toString('base64url'),
    Buffer.from('{"v":"meta.k8s.io/v1","rv":0,"start":"a"}').toString('base64url'),
    Buffer.from('{"v":"meta.k8s.io/v1","rv":1,"start":""}').toString('base64url'),
  ])('%s is refused with 400', (token) => {
    expect(() => decodeContinue(token)).toThrow(
      expect.objectContaining({ code: 400, message: expect.stringContaining('invalid continue token') }),
    );
  });
});
