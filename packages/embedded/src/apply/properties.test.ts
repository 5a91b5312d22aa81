/** What is true for every schema, every history of an object and every apply. */
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Json, JsonObject } from '@kubenode/api-machinery/wire';
import { compare } from './compare.ts';
import { fieldsOf } from './fields.ts';
import type { FieldSet } from './field-set.ts';
import { difference, intersection, isEmpty, paths, setOfFields, union, withNamedFields } from './field-set.ts';
import { decodeFields } from './fields-v1.ts';
import { apply, schemaOf } from './index.ts';
import type { ApplyInput, FieldSchema } from './index.ts';
import type { Scenario } from './testing/arbitraries.ts';
import { plain, scenario } from './testing/arbitraries.ts';
import type { Entry } from './testing/object.ts';
import { freeze } from './testing/object.ts';
import { replay } from './testing/replay.ts';

interface World {
  live: JsonObject | undefined;
  schema: FieldSchema;
  input: ApplyInput;
}

/** All steps but the last are history; the last becomes an apply to the main resource. */
function worldOf({ schema: kind, reset, steps }: Scenario): World {
  const last = steps.at(-1);
  if (last === undefined) throw new Error('a scenario has steps');
  const answers = replay({ schema: kind, reset, steps: steps.slice(0, -1) });
  const live = freeze(answers.findLast(({ object }) => object !== undefined)?.object);
  const schema = schemaOf(kind);
  const { manager: name, force, object: applied } = last;
  // What kubectl notes in an annotation is not part of its configuration.
  const manager = name === 'kubectl' ? 'hub' : name;
  return { live, schema, input: { live, applied: freeze(applied), manager, force, schema, now: '2025-01-01T00:00:00Z', resetFields: [] } };
}

const world = scenario(plain).map(worldOf);

function entries(object: JsonObject | undefined): Entry[] {
  const metadata = object?.['metadata'] as { managedFields?: Entry[] } | undefined;
  return metadata?.managedFields ?? [];
}

function owned(entry: Entry | undefined): FieldSet {
  return decodeFields(entry?.fieldsV1 ?? {}).set;
}

const isMine = (input: ApplyInput) => (entry: Entry) =>
  entry.manager === input.manager && entry.operation === 'Apply' && entry.subresource === undefined;

const stripped = setOfFields([
  'apiVersion',
  'kind',
  'metadata.name',
  'metadata.namespace',
  'metadata.creationTimestamp',
  'metadata.managedFields',
]);

function changes(schema: FieldSchema, before: JsonObject | undefined, after: JsonObject) {
  const blank = { apiVersion: after['apiVersion'] ?? '', kind: after['kind'] ?? '' };
  const { added, modified, removed } = compare(schema.root, before ?? blank, after);
  return { added: difference(added, stripped), modified: difference(modified, stripped), removed: difference(removed, stripped) };
}

/** The value without empty lists and maps in it. */
function withoutEmpty(value: Json): Json {
  if (Array.isArray(value)) return value.map(withoutEmpty);
  if (value === null || typeof value !== 'object') return value;
  const entries = Object.entries(value).map(([key, child]) => [key, withoutEmpty(child)] as const);
  return Object.fromEntries(entries.filter(([, child]) => child === null || typeof child !== 'object' || Object.keys(child).length > 0));
}

/** Whether a path is in a set, or below a member of it. */
function isUnder(set: FieldSet, path: readonly string[]): boolean {
  let level: FieldSet | undefined = set;
  for (const element of path) {
    const node: { member: boolean; children: FieldSet | undefined } | undefined = level?.get(element);
    if (node?.member === true) return true;
    level = node?.children;
  }
  return false;
}

const runs = { numRuns: 60 };

describe('an apply', () => {
  it('does the same once as twice', () => {
    fc.assert(
      fc.property(world, ({ input }) => {
        // On the server too, a container that is applied empty and loses its last field goes at first and comes back next time.
        const applied = freeze(withoutEmpty(input.applied) as JsonObject);
        const once = apply({ ...input, applied });
        fc.pre(once.ok && entries(once.object).length > 0);
        const live = freeze(once.object);
        const twice = apply({ ...input, applied, live, force: false, now: '2025-01-01T00:00:09Z' });
        expect(twice).toEqual(once);
        expect(twice.ok && twice.object === live).toBe(true);
      }),
      runs,
    );
  });

  it('makes its manager own what it names, no more and no less', () => {
    fc.assert(
      fc.property(world, ({ schema, input }) => {
        const result = apply(input);
        fc.pre(result.ok);
        const named = difference(fieldsOf(schema.root, input.applied), union(stripped, setOfFields(['metadata'])));
        expect(owned(entries(result.object).find(isMine(input)))).toEqual(named);
      }),
      runs,
    );
  });

  it('changes only what it names and removes only what it owned', () => {
    fc.assert(
      fc.property(world, ({ live, schema, input }) => {
        const result = apply(input);
        fc.pre(result.ok);
        const { added, modified, removed } = changes(schema, live, result.object);
        const named = changes(schema, undefined, input.applied).added;
        const before = withNamedFields(owned(entries(live).find(isMine(input))), schema.root);
        for (const path of paths(added)) expect([path, isUnder(named, path)]).toEqual([path, true]);
        for (const path of paths(modified)) expect([path, isUnder(union(named, before), path)]).toEqual([path, true]);
        // A value that changes its shape loses what was in it.
        for (const path of paths(removed)) expect([path, isUnder(union(named, before), path)]).toEqual([path, true]);
      }),
      runs,
    );
  });

  it('without force leaves to the others what they own, and its value', () => {
    fc.assert(
      fc.property(world, ({ live, schema, input }) => {
        const result = apply({ ...input, force: false });
        fc.pre(result.ok);
        const { added, modified } = changes(schema, live, result.object);
        for (const entry of entries(live)) {
          if (isMine(input)(entry)) continue;
          expect(intersection(owned(entry), union(added, modified))).toEqual(new Map());
        }
      }),
      runs,
    );
  });

  it('with force is the only owner of what it changed', () => {
    fc.assert(
      fc.property(world, ({ live, schema, input }) => {
        const result = apply({ ...input, force: true });
        if (!result.ok) throw new Error('force conflicts');
        const { added, modified } = changes(schema, live, result.object);
        for (const entry of entries(result.object)) {
          if (isMine(input)(entry) || entry.manager === 'before-first-apply') continue;
          expect(intersection(owned(entry), union(added, modified))).toEqual(new Map());
        }
      }),
      runs,
    );
  });

  it('conflicts exactly when force would take something from someone', () => {
    fc.assert(
      fc.property(world, ({ live, schema, input }) => {
        const calm = apply({ ...input, force: false });
        const forced = apply({ ...input, force: true });
        if (!forced.ok) throw new Error('force conflicts');
        fc.pre(entries(live).length > 0);
        const { added, modified } = changes(schema, live, forced.object);
        const others = entries(live).filter((entry) => !isMine(input)(entry));
        expect(calm.ok).toBe(others.every((entry) => isEmpty(intersection(owned(entry), union(added, modified)))));
        expect(calm.ok ? calm : forced).toEqual(forced);
      }),
      runs,
    );
  });

  it('of the same by two shares every field between them', () => {
    fc.assert(
      fc.property(world, ({ input }) => {
        const first = apply({ ...input, manager: 'first', force: true });
        if (!first.ok) throw new Error('force conflicts');
        const second = apply({ ...input, live: freeze(first.object), manager: 'second', force: false });
        if (!second.ok) throw new Error('equal values conflict');
        const of = (manager: string) => entries(second.object).find((entry) => entry.manager === manager)?.fieldsV1;
        expect(of('second')).toEqual(of('first'));
        const { metadata: _, ...body } = second.object;
        const { metadata: __, ...before } = first.object;
        expect(body).toEqual(before);
      }),
      runs,
    );
  });
});
