import { describe, expect, it } from 'vitest';
import type { JsonObject } from '@kubenode/api-machinery/wire';
import { StoredObject } from './testing/object.ts';

const annotation = 'kubectl.kubernetes.io/last-applied-configuration';
const properties = {
  spec: { type: 'object', properties: { replicas: { type: 'integer' }, image: { type: 'string' } } },
};

/** An object written by `kubectl apply` of old: an update that notes in an annotation what it applied. */
function clientSide(spec: JsonObject, note?: string): StoredObject {
  const object = new StoredObject(properties);
  object.update(
    'kubectl-client-side-apply',
    { spec },
    { metadata: { annotations: { [annotation]: note ?? JSON.stringify(object.body({ spec })) } } },
  );
  return object;
}

function noted(object: StoredObject): string | undefined {
  const metadata = object.live?.['metadata'] as { annotations?: Record<string, string> };
  return metadata.annotations?.[annotation];
}

describe('server-side apply after kubectl apply of old', () => {
  it('by kubectl takes over what it applied by the annotation, without force', () => {
    const object = clientSide({ replicas: 1, image: 'a' });
    object.apply('kubectl', { spec: { replicas: 2, image: 'b' } });
    expect(object.content()).toEqual({ spec: { replicas: 2, image: 'b' } });
  });

  it('by kubectl keeps the annotation up to date, itself left out of it', () => {
    const object = clientSide({ replicas: 1 });
    object.apply(
      'kubectl',
      { spec: { replicas: 2, image: '<b>' } },
      { metadata: { annotations: { note: 'x', [annotation]: noted(object) ?? '' } } },
    );
    expect(noted(object)).toBe(
      '{"apiVersion":"test/v1","kind":"Thing","metadata":{"annotations":{"note":"x"},"name":"thing"},"spec":{"image":"\\u003cb\\u003e","replicas":2}}\n',
    );
  });

  it('by kubectl conflicts over what has changed since', () => {
    const object = clientSide({ replicas: 1, image: 'a' });
    object.update(
      'kubectl-scale',
      { spec: { replicas: 5, image: 'a' } },
      { metadata: { annotations: { [annotation]: noted(object) ?? '' } } },
    );
    expect(object.conflicts('kubectl', { spec: { replicas: 2, image: 'b' } }).map(({ manager, field }) => [manager, field])).toEqual([
      ['kubectl-scale', '.spec.replicas'],
    ]);
  });

  it('by anyone else conflicts, and leaves the annotation alone', () => {
    const object = clientSide({ replicas: 1 });
    expect(object.conflicts('sync', { spec: { replicas: 2 } })).toHaveLength(1);
    const before = noted(object);
    object.apply('sync', { spec: { replicas: 2 } }, { force: true });
    expect(noted(object)).toBe(before);
  });

  it.each([
    ['', 'is empty'],
    ['{', 'is broken'],
    ['[]', 'is no object'],
    ['{"apiVersion":"test/v2","kind":"Thing","spec":{"replicas":1}}', 'is of another version'],
    ['{"apiVersion":"test/v1","kind":"Thing","spec":{"replicas":"1"}}', 'does not fit'],
    ['{"apiVersion":"test/v1","kind":"Thing","spec":{"replicas":9}}', 'differs from the object'],
  ])('conflicts when the annotation %j', (text) => {
    expect(clientSide({ replicas: 1 }, text).conflicts('kubectl', { spec: { replicas: 2 } })).toHaveLength(1);
  });

  it('drops an annotation that would grow beyond the size limit of annotations', () => {
    const object = clientSide({ image: 'a' });
    object.apply('kubectl', { spec: { image: 'x'.repeat(256 * 1024) } });
    expect(noted(object)).toBeUndefined();
  });

  it('without the annotation never adds one', () => {
    const object = new StoredObject(properties);
    object.apply('kubectl', { spec: { replicas: 1 } });
    expect(noted(object)).toBeUndefined();
  });
});
