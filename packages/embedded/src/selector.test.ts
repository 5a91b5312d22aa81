import { describe, expect, it } from 'vitest';
import { labelSelectorOf, parseFieldSelector, parseLabelSelector } from './selector.ts';

const labels = { app: 'web', tier: 'front', 'kubenode.io/pool': 'a', count: '7' };

describe('a label selector', () => {
  it.each([
    ['', true],
    ['app=web', true],
    ['app==web,tier=front', true],
    ['app=web,tier=back', false],
    ['app!=db', true],
    ['missing!=x', true],
    ['app in (db, web)', true],
    ['app notin (db,web)', false],
    ['missing notin (a)', true],
    ['app', true],
    ['missing', false],
    ['!missing', true],
    ['!app', false],
    ['kubenode.io/pool in (a),app=web', true],
    ['count>5', true],
    ['count<5', false],
    ['app=', false],
  ])('%s matches: %s', (text, matches) => {
    expect(parseLabelSelector(text).matches(labels)).toBe(matches);
  });

  it.each(['app in web', 'a b', 'app=a b', 'a=b=c', '=x', 'app in (a', 'count>x', '_/_=1', 'a=-'])('%s is refused with 400', (text) => {
    expect(() => parseLabelSelector(text)).toThrow(expect.objectContaining({ code: 400 }));
  });

  it('is empty only when it selects everything', () => {
    expect([parseLabelSelector(undefined).empty, parseLabelSelector(' ').empty, parseLabelSelector('a').empty]).toEqual([
      true,
      true,
      false,
    ]);
  });

  it('in object form selects nothing when absent and everything when empty', () => {
    expect([labelSelectorOf(undefined), labelSelectorOf(null), labelSelectorOf({})].map((it) => it.matches(labels))).toEqual([
      false,
      false,
      true,
    ]);
  });

  it('in object form joins labels and expressions', () => {
    const selector = labelSelectorOf({
      matchLabels: { app: 'web' },
      matchExpressions: [
        { key: 'tier', operator: 'In', values: ['front', 'back'] },
        { key: 'gone', operator: 'DoesNotExist' },
      ],
    });
    expect([selector.matches(labels), selector.matches({ ...labels, gone: '1' }), selector.matches({ app: 'web' })]).toEqual([
      true,
      false,
      false,
    ]);
  });
});

const parse = (text: string) => parseFieldSelector(text, (field) => field === 'a' || field === 'b.c');

const value = (field: string) => (field === 'a' ? '1,x' : 'y=z');

describe('a field selector', () => {
  it.each([
    ['', true],
    [String.raw`a=1\,x`, true],
    [String.raw`a==1\,x,b.c!=q`, true],
    [String.raw`b.c=y\=z`, true],
    ['a=1', false],
    ['a!=1', true],
  ])('%s matches: %s', (text, matches) => {
    expect(parse(text).matches(value)).toBe(matches);
  });

  it('returns the value it pins', () => {
    expect([parse('a=1,b.c!=2').exactly('a'), parse('a!=1').exactly('a'), parse('b.c=2').exactly('a')]).toEqual([
      '1',
      undefined,
      undefined,
    ]);
  });

  it('over a field that the kind does not offer is refused in the words of the server', () => {
    expect(() => parse('spec.other=1')).toThrow('field label not supported: spec.other');
    expect(() => parse('nonsense')).toThrow("invalid selector: 'nonsense'; can't understand 'nonsense'");
  });
});
