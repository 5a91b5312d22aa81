import { describe, expect, it } from 'vitest';
import { checkConfigKey, checkLabelName, checkLabelValue, checkPathSegment, checkQualifiedName, checkSubdomain } from './names.ts';

describe('names', () => {
  it.each([
    [checkLabelName, 'web-1'],
    [checkSubdomain, 'a.b-c.d'],
    [checkQualifiedName, 'kubenode.io/Pool_1.x'],
    [checkQualifiedName, 'plain'],
    [checkLabelValue, ''],
    [checkLabelValue, 'A_b.c-1'],
    [checkConfigKey, '.config_KEY-1'],
    [checkPathSegment, 'system:node'],
  ])('%o takes %s', (check, value) => {
    expect(check(value)).toEqual([]);
  });

  it.each([
    [checkLabelName, 'Web'],
    [checkLabelName, 'a.b'],
    [checkLabelName, 'x'.repeat(64)],
    [checkSubdomain, '-a'],
    [checkSubdomain, 'a'.repeat(254)],
    [checkQualifiedName, 'a/b/c'],
    [checkQualifiedName, '/b'],
    [checkQualifiedName, 'a/'],
    [checkQualifiedName, '-a'],
    [checkLabelValue, 'a b'],
    [checkLabelValue, 'x'.repeat(64)],
    [checkConfigKey, 'a/b'],
    [checkConfigKey, '..'],
    [checkPathSegment, '..'],
    [checkPathSegment, 'a/b'],
    [checkPathSegment, 'a%b'],
  ])('%o refuses %s with a reason', (check, value) => {
    expect(check(value).join()).toMatch(/must|not/);
  });
});
