/** What an agent may store in its Machine. A compromised one stores as much of it as it can (docs/protocols.md#g7a). */
import { expect, it } from 'vitest';
import { AGENT_CONDITIONS, AGENT_STATUS } from '../../deploy/owners.ts';
import { Machines } from './machine.ts';
import { LONGEST_MESSAGE } from './plain-text.ts';

interface Schema {
  type?: string;
  properties?: Record<string, Schema>;
  items?: Schema;
  enum?: string[];
  maxLength?: number;
  maxItems?: number;
  minimum?: number;
  maximum?: number;
  pattern?: string;
  format?: string;
}

const isSchema = (value: unknown): value is Schema => value !== null && typeof value === 'object';

function statusOf(): Record<string, Schema> {
  const { spec } = JSON.parse(JSON.stringify(Machines.crd())) as { spec: { versions: { schema: { openAPIV3Schema: Schema } }[] } };
  return spec.versions[0]?.schema.openAPIV3Schema.properties?.['status']?.properties ?? {};
}

const written = (): [string, Schema][] => {
  const status = statusOf();
  const own = AGENT_STATUS.map((field): [string, Schema] => [field, status[field] ?? {}]);
  // The policy for agents lets them write no other condition, and a list by type has each once.
  return [...own, ['conditions', { ...status['conditions'], maxItems: AGENT_CONDITIONS.length }]];
};

/** Fields without a bound. */
function unbounded(path: string, schema: Schema): string[] {
  switch (schema.type ?? '') {
    case 'string':
      return schema.maxLength === undefined && schema.enum === undefined ? [path] : [];
    case 'boolean':
      return [];
    case 'array':
      return [
        ...(schema.maxItems === undefined ? [path] : []),
        ...(isSchema(schema.items) ? unbounded(`${path}[]`, schema.items) : [path]),
      ];
    case 'object': {
      const open = 'additionalProperties' in schema || 'x-kubernetes-preserve-unknown-fields' in schema || schema.properties === undefined;
      return [
        ...(open ? [path] : []),
        ...Object.entries(schema.properties ?? {}).flatMap(([name, each]) => unbounded(`${path}.${name}`, each)),
      ];
    }
    case 'integer':
      // A number that JavaScript reads as another one, no controller can write back.
      return Number.isSafeInteger(schema.minimum) && Number.isSafeInteger(schema.maximum) ? [] : [path];
    default:
      return [`${path}: ${schema.type}`];
  }
}

/** Characters of its JSON at most. `perCharacter`: of a text, where anything may stand. */
function most(schema: Schema, perCharacter: number): number {
  switch (schema.type ?? '') {
    case 'string': {
      const isPlain = schema.pattern !== undefined || schema.format !== undefined;
      if (schema.enum !== undefined) return 2 + Math.max(...schema.enum.map(({ length }) => length));
      return 2 + (schema.maxLength ?? Infinity) * (isPlain ? 1 : perCharacter);
    }
    case 'array':
      return 2 + (schema.maxItems ?? Infinity) * (1 + (isSchema(schema.items) ? most(schema.items, perCharacter) : Infinity));
    case 'object':
      return Object.entries(schema.properties ?? {}).reduce((sum, [name, each]) => sum + name.length + 4 + most(each, perCharacter), 2);
    default:
      return 20;
  }
}

it('every text, list and number is bounded', () => {
  expect(written().flatMap(([path, schema]) => unbounded(path, schema))).toEqual([]);
});

it('all of it is below 400 kB, and where each character is stored as six, leaves etcd (1.5 MiB) room for what controllers write', () => {
  const sum = (perCharacter: number): number => written().reduce((total, [, schema]) => total + most(schema, perCharacter), 0);
  expect(sum(1)).toBeLessThan(400_000);
  expect(sum(6)).toBeLessThan(1_350_000);
});

it('an honest agent has room: 64 components and messages of the length at which they are cut', () => {
  const { components, operation } = statusOf();
  expect(components?.maxItems).toBe(64);
  const { name, message, failed } = components?.items?.properties ?? {};
  const lengths = [name, message, failed?.properties?.['message'], operation?.properties?.['message']].map((each) => each?.maxLength);
  expect(lengths).toEqual([63, LONGEST_MESSAGE, LONGEST_MESSAGE, LONGEST_MESSAGE]);
});

it('what was stored before it was bounded is read, so that no other Machine waits for it', () => {
  const condition = { type: 'Ready', status: 'True', reason: 'A', message: 'x'.repeat(9000), lastTransitionTime: '2026-11-20T12:00:00Z' };
  const reported = { name: 'A'.repeat(20_000), version: '', content: '', revision: 2 ** 63, running: 0, state: 'Waiting' };
  const machine = {
    apiVersion: 'kubenode.io/v1alpha1',
    kind: 'Machine',
    metadata: { name: 'm', namespace: 'web' },
    spec: {},
    status: { components: [reported], conditions: [condition] },
  };
  expect(Machines.parse(machine).status?.components?.[0]?.revision).toBe(2 ** 63);
  expect(() => Machines.parse({ ...machine, status: { components: [{ ...reported, name: '' }] } })).toThrow('name');
});
