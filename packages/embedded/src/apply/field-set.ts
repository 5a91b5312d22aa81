/**
 * Sets of field paths, as tries. A node is a member, or has members below it, or both: owning `.spec.list` as such and
 * owning an item of it are different things. Sets are never changed once built; operations share what they keep.
 */
import type { Element } from './element.ts';
import { compareElements, fieldElement } from './element.ts';
import type { SchemaNode } from './schema.ts';

export interface FieldNode {
  readonly member: boolean;
  /** Never empty. */
  readonly children: FieldSet | undefined;
}

export type FieldSet = ReadonlyMap<Element, FieldNode>;

/** A set under construction. */
export type FieldSetBuilder = Map<Element, FieldNode>;

export const emptySet: FieldSet = new Map();

export const leaf: FieldNode = { member: true, children: undefined };

export function isEmpty(set: FieldSet): boolean {
  return set.size === 0;
}

function orUndefined(set: FieldSet): FieldSet | undefined {
  return set.size === 0 ? undefined : set;
}

function node(member: boolean, children: FieldSet | undefined): FieldNode | undefined {
  if (children === undefined || children.size === 0) return member ? leaf : undefined;
  return { member, children };
}

/** Puts what hangs at an element into a set under construction; nothing at all is left out. */
export function putElement(into: FieldSetBuilder, element: Element, member: boolean, children: FieldSet): void {
  const made = node(member, children);
  if (made !== undefined) into.set(element, made);
}

export function insert(set: FieldSetBuilder, path: readonly Element[]): void {
  insertAt(set, path, 0);
}

function insertAt(set: FieldSetBuilder, path: readonly Element[], depth: number): void {
  const element = path[depth];
  // No manager owns the whole object.
  if (element === undefined) return;
  const old = set.get(element);
  if (depth === path.length - 1) {
    set.set(element, old === undefined ? leaf : { member: true, children: old.children });
    return;
  }
  // Builders contain only builders below, so what they share is their own.
  const children = (old?.children ?? new Map()) as FieldSetBuilder;
  insertAt(children, path, depth + 1);
  set.set(element, { member: old?.member ?? false, children });
}

export function setOf(paths: readonly (readonly Element[])[]): FieldSet {
  const set: FieldSetBuilder = new Map();
  for (const path of paths) insert(set, path);
  return set;
}

export function union(a: FieldSet, b: FieldSet): FieldSet {
  if (a === b || b.size === 0) return a;
  if (a.size === 0) return b;
  const out = new Map(a);
  for (const [element, right] of b) {
    const left = out.get(element);
    if (left === undefined) out.set(element, right);
    else if (left !== right) {
      const children =
        left.children === undefined ? right.children : right.children === undefined ? left.children : union(left.children, right.children);
      out.set(element, { member: left.member || right.member, children });
    }
  }
  return out;
}

export function intersection(a: FieldSet, b: FieldSet): FieldSet {
  if (a === b) return a;
  const out: FieldSetBuilder = new Map();
  for (const [element, left] of a) {
    const right = b.get(element);
    if (right === undefined) continue;
    const children = left.children === undefined || right.children === undefined ? emptySet : intersection(left.children, right.children);
    putElement(out, element, left.member && right.member, children);
  }
  return out;
}

/** Members of `a` that are not members of `b`. Removing a parent leaves its children, and the other way round. */
export function difference(a: FieldSet, b: FieldSet): FieldSet {
  if (a.size === 0 || b.size === 0) return a;
  const out: FieldSetBuilder = new Map();
  let same = true;
  for (const [element, left] of a) {
    const right = b.get(element);
    if (right === undefined) {
      out.set(element, left);
      continue;
    }
    const member = left.member && !right.member;
    const children =
      left.children === undefined || right.children === undefined ? left.children : orUndefined(difference(left.children, right.children));
    if (member === left.member && children === left.children) out.set(element, left);
    else {
      same = false;
      putElement(out, element, member, children ?? emptySet);
    }
  }
  return same ? a : out;
}

/** As `difference`, but a member of `b` takes everything below it along. */
export function differenceWithChildren(a: FieldSet, b: FieldSet): FieldSet {
  if (a.size === 0 || b.size === 0) return a;
  const out: FieldSetBuilder = new Map();
  for (const [element, left] of a) {
    const right = b.get(element);
    if (right === undefined) out.set(element, left);
    else if (!right.member) {
      const children =
        left.children === undefined || right.children === undefined ? left.children : differenceWithChildren(left.children, right.children);
      putElement(out, element, left.member, children ?? emptySet);
    }
  }
  return out;
}

export function includes(all: FieldSet, some: FieldSet): boolean {
  for (const [element, wanted] of some) {
    const found = all.get(element);
    if (found === undefined || (wanted.member && !found.member)) return false;
    if (wanted.children !== undefined && (found.children === undefined || !includes(found.children, wanted.children))) return false;
  }
  return true;
}

export function equalSets(a: FieldSet, b: FieldSet): boolean {
  if (a === b) return true;
  if (a.size !== b.size) return false;
  for (const [element, left] of a) {
    const right = b.get(element);
    if (right === undefined || left.member !== right.member) return false;
    if (left.children === undefined || right.children === undefined) {
      if (left.children !== right.children) return false;
    } else if (!equalSets(left.children, right.children)) return false;
  }
  return true;
}

/** The set with every declared field that has members below it as a member too: removing the last child removes the field. */
export function withNamedFields(set: FieldSet, schema: SchemaNode | undefined): FieldSet {
  const out: FieldSetBuilder = new Map();
  for (const [element, { member, children }] of set) {
    if (children === undefined) {
      out.set(element, leaf);
      continue;
    }
    let named = false;
    let below: SchemaNode | undefined;
    if (element.startsWith('f:') && schema?.map !== undefined) {
      const field = schema.map.fields.get(element.slice(2));
      named = field !== undefined;
      below = field ?? schema.map.element;
    } else if (element.startsWith('k:')) {
      below = schema?.list?.item;
    }
    out.set(element, { member: member || named, children: withNamedFields(children, below) });
  }
  return out;
}

/** Every path in the server's order: at each level the members first, then what is below. */
export function* paths(set: FieldSet, prefix: readonly Element[] = []): Generator<Element[]> {
  const elements = [...set.keys()].sort(compareElements);
  for (const element of elements) if (set.get(element)?.member === true) yield [...prefix, element];
  for (const element of elements) {
    const children = set.get(element)?.children;
    if (children !== undefined) yield* paths(children, [...prefix, element]);
  }
}

/** A set from dotted field names: `metadata.ownerReferences`. */
export function setOfFields(names: readonly string[]): FieldSet {
  return setOf(names.map((name) => name.split('.').map(fieldElement)));
}
