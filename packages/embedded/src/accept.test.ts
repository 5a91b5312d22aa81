import { describe, expect, it } from 'vitest';
import { negotiate } from './accept.ts';

describe('the Accept header', () => {
  it.each([
    [undefined, { shape: 'json', version: 'v1' }],
    ['*/*', { shape: 'json', version: 'v1' }],
    ['application/vnd.kubernetes.protobuf, application/json', { shape: 'json', version: 'v1' }],
    ['application/json;as=Table;v=v1;g=meta.k8s.io,application/json', { shape: 'table', version: 'v1' }],
    ['application/json;as=Unknown;v=v1;g=meta.k8s.io,application/json', { shape: 'json', version: 'v1' }],
    ['application/json;q=0.5,application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1;q=0.9', { shape: 'partial', version: 'v1' }],
    ['application/json;as=Table;v=v1beta1;g=meta.k8s.io', { shape: 'table', version: 'v1beta1' }],
  ])('%s is answered as %j', (header, expected) => {
    expect(negotiate(header)).toEqual(expected);
  });

  it.each(['application/vnd.kubernetes.protobuf', 'text/html', 'application/json;q=0', 'application/json;as=Table;v=v9;g=meta.k8s.io'])(
    '%s is refused with 406',
    (header) => {
      expect(() => negotiate(header)).toThrow(expect.objectContaining({ code: 406 }));
    },
  );
});
