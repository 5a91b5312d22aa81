import { expect, test } from 'vitest';
import { matchesFields } from './field-selector.ts';
import { configMap, node } from './testing/objects.ts';

test.each([
  ['metadata.name=a', true],
  ['metadata.name==a', true],
  ['metadata.name=b', false],
  ['metadata.name=', false],
  ['metadata.namespace=x', true],
  ['metadata.namespace=a', false],
  ['metadata.name=a,metadata.namespace=x', true],
  ['metadata.name=a,metadata.namespace=y', false],
  ['metadata.name!=a', undefined],
  ['spec.nodeName=a', undefined],
  ['xmetadata.name=a', undefined],
  ['metadata.name=a,spec.nodeName=a', undefined],
  ['spec.nodeName=a,metadata.name=a', undefined],
  ['spec.nodeName=a,metadata.name=b', false],
  ['metadata.name=b,spec.nodeName=a', false],
])('whether %s selects the ConfigMap a of x: %s', (selector, expected) => {
  expect(matchesFields(selector, configMap('x', 'a'))).toBe(expected);
});

test('what has no namespace is in none', () => {
  expect(matchesFields('metadata.namespace=x', node('a'))).toBe(false);
});
