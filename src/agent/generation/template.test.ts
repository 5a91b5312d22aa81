import { expect, test } from 'vitest';
import { expand } from './template.ts';
import type { Variables } from './template.ts';

const variables: Variables = {
  root: '/node',
  dir: '/node/current',
  version: '1.0.0',
  bootstrap: '/b.json',
  values: { name: 'x', nested: { port: 80, on: true }, list: [1], tricky: '{{version}}', nothing: null },
  machine: {
    name: 'a',
    namespace: 'web',
    uid: 'u',
    nodeName: 'a',
    providerID: 'local://a',
    labels: { 'topology.kubernetes.io/zone': 'z1' },
  },
};

test.each([
  ['plain text', 'plain text'],
  ['{{root}}|{{dir}}|{{version}}|{{bootstrap}}', '/node|/node/current|1.0.0|/b.json'],
  ['{{ values.nested.port }}{{values.nested.on}}', '80true'],
  ['{{machine.labels.topology.kubernetes.io/zone}}', 'z1'],
  ['{{machine.nodeName}}@{{machine.providerID}}', 'a@local://a'],
  // Once: what is put in is not a template.
  ['{{values.tricky}}', '{{version}}'],
  ['a } b }} c', 'a } b }} c'],
])('%s becomes %s', (template, expected) => {
  expect(expand(template, variables, 'here')).toBe(expected);
});

test.each([
  ['{{values.missing}}', 'TemplateUnknown', 'here: {{values.missing}} is not known; known: root, dir, version, bootstrap, values.name'],
  ['{{values.nothing}}', 'TemplateUnknown', 'is not known'],
  ['{{values.constructor}}', 'TemplateUnknown', 'is not known'],
  ['{{machine.labels.absent}}', 'TemplateUnknown', 'machine.labels.topology.kubernetes.io/zone'],
  ['{{values.list}}', 'TemplateInvalid', 'is no text, number or boolean'],
  ['{{values}}', 'TemplateInvalid', 'is no text'],
  ['{{}}', 'TemplateUnknown', 'is not known'],
  ['a {{version', 'TemplateInvalid', 'here: "{{" at character 2 has no "}}"'],
])('%s is refused as %s', (template, code, message) => {
  expect(() => expand(template, variables, 'here')).toThrow(expect.objectContaining({ code, message: expect.stringContaining(message) }));
});
