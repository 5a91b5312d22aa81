import { describe, expect, it } from 'vitest';
import { decodeProtobuf } from './decode.ts';

function varint(value: number | bigint): Buffer {
  const out: number[] = [];
  let rest = BigInt.asUintN(64, BigInt(value));
  do {
    out.push(Number(rest & 0x7fn) | (rest > 0x7fn ? 0x80 : 0));
    rest >>= 7n;
  } while (rest > 0n);
  return Buffer.from(out);
}

const number = (field: number, value: number) => Buffer.concat([varint(field << 3), varint(value)]);
const bytes = (field: number, value: Buffer | string) =>
  Buffer.concat([varint((field << 3) | 2), varint(Buffer.byteLength(value)), Buffer.from(value)]);
const nested = (field: number, ...parts: Buffer[]) => bytes(field, Buffer.concat(parts));
const entry = (field: number, key: string, value: Buffer) => nested(field, bytes(1, key), value);

function envelope(apiVersion: string, kind: string, ...parts: Buffer[]): Buffer {
  return Buffer.concat([Buffer.from('k8s\0'), nested(1, bytes(1, apiVersion), bytes(2, kind)), nested(2, ...parts)]);
}

describe('a protobuf body', () => {
  it('reads as the JSON that Go would have sent', () => {
    const secret = envelope(
      'v1',
      'Secret',
      nested(
        1,
        bytes(1, 's'),
        bytes(2, ''),
        bytes(3, 'web'),
        number(7, 0),
        nested(8),
        entry(11, 'app', bytes(2, 'x')),
        entry(11, 'empty', bytes(2, '')),
        nested(13, bytes(1, 'Pod'), bytes(3, 'p'), bytes(4, 'u'), bytes(5, 'v1'), number(6, 0)),
        bytes(14, 'a.io/b'),
        bytes(14, 'a.io/c'),
      ),
      entry(2, 'password', bytes(2, 'hi')),
      bytes(3, 'Opaque'),
      number(5, 1),
    );
    expect(decodeProtobuf(secret)).toEqual({
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: {
        name: 's',
        namespace: 'web',
        labels: { app: 'x', empty: '' },
        ownerReferences: [{ kind: 'Pod', name: 'p', uid: 'u', apiVersion: 'v1', controller: false }],
        finalizers: ['a.io/b', 'a.io/c'],
      },
      data: { password: 'aGk=' },
      type: 'Opaque',
      immutable: true,
    });
  });

  it('reads times, micro times, counts-or-percentages and negative numbers', () => {
    const lease = envelope(
      'coordination.k8s.io/v1',
      'Lease',
      nested(2, bytes(1, ''), number(2, 15), nested(4, number(1, 1_700_000_000), number(2, 123_456_789))),
    );
    expect(decodeProtobuf(lease)['spec']).toEqual({
      holderIdentity: '',
      leaseDurationSeconds: 15,
      renewTime: '2023-11-14T22:13:20.123456Z',
    });
    const budget = envelope(
      'policy/v1',
      'PodDisruptionBudget',
      nested(2, nested(1, number(1, 1), bytes(3, '50%')), nested(3, number(1, 0), number(2, 2))),
    );
    expect(decodeProtobuf(budget)['spec']).toEqual({ minAvailable: '50%', maxUnavailable: 2 });
    const options = envelope('v1', 'DeleteOptions', number(1, -1), nested(2, bytes(1, 'u')), bytes(5, 'All'));
    expect(decodeProtobuf(options)).toMatchObject({ gracePeriodSeconds: -1, preconditions: { uid: 'u' }, dryRun: ['All'] });
  });

  it('leaves out fields that it does not know', () => {
    expect(decodeProtobuf(envelope('v1', 'ConfigMap', bytes(99, 'new'), entry(2, 'a', bytes(2, 'b'))))).toEqual({
      apiVersion: 'v1',
      kind: 'ConfigMap',
      data: { a: 'b' },
    });
  });

  it('of a kind that is not in the table is refused with 415', () => {
    expect(() => decodeProtobuf(envelope('apps/v1', 'Deployment'))).toThrow(expect.objectContaining({ code: 415 }));
  });

  it.each([
    ['no envelope', Buffer.from('{"kind":"Secret"}')],
    ['a cut-off message', envelope('v1', 'Secret', nested(1, bytes(1, 'name'))).subarray(0, -3)],
    ['a text where a message belongs', envelope('v1', 'Secret', number(1, 5))],
    ['an endless number', Buffer.concat([Buffer.from('k8s\0'), Buffer.alloc(12, 0xff)])],
  ])('that is %s is refused with 400', (_, body) => {
    expect(() => decodeProtobuf(body)).toThrow(expect.objectContaining({ code: 400 }));
  });
});
