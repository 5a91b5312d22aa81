import type { Element } from './element.ts';
import type { FieldNode, FieldSet } from './field-set.ts';
import { leaf } from './field-set.ts';
import type { SchemaNode } from './schema.ts';
import { deduced } from './schema.ts';

/**
 * Ownership written under an older schema: a manager that owns something inside a list or map that has become atomic owns all of it.
 * The opposite case needs no change. Returns the set itself when it fits.
 */
export function reconcile(schema: SchemaNode, set: FieldSet): FieldSet {
  let out: Map<Element, FieldNode> | undefined;
  for (const [element, node] of set) {
    const type = typeAt(schema, element);
    if (type === undefined) continue;
    const next = reconcileNode(type, node);
    if (next !== node) (out ??= new Map(set)).set(element, next);
  }
  return out ?? set;
}

function typeAt(schema: SchemaNode, element: Element): SchemaNode | undefined {
  if (schema.map !== undefined) {
    return (element.startsWith('f:') ? schema.map.fields.get(element.slice(2)) : undefined) ?? schema.map.element;
  }
  return schema.scalar === undefined ? schema.list?.item : undefined;
}

function reconcileNode(type: SchemaNode, node: FieldNode): FieldNode {
  const whole = node.member && node.children === undefined;
  if (type.map !== undefined) {
    // Free-form values have no rules that could have changed.
    const free = type.map.fields.size === 0 && type.map.element !== undefined && isDeduced(type.map.element);
    if (free) return node;
    if (type.map.atomic) return whole ? node : leaf;
  } else if (type.scalar === undefined && type.list?.atomic === true) {
    return whole ? node : leaf;
  }
  if (node.children === undefined) return node;
  const children = reconcile(type, node.children);
  return children === node.children ? node : { member: node.member, children };
}

function isDeduced(type: SchemaNode): boolean {
  return type === deduced || (type.scalar === 'untyped' && type.any !== true);
}
