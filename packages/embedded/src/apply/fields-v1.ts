import type { JsonObject } from '@kubenode/api-machinery/wire';
import type { FieldSet, FieldSetBuilder } from './field-set.ts';
import { leaf, putElement } from './field-set.ts';
import { compareElements, parseElement } from './element.ts';
import { isEmptyObject, isObject } from './value.ts';

export interface DecodedFields {
  set: FieldSet;
  /** Encoding the set again gives exactly the same JSON, order included. */
  canonical: boolean;
}

/** Reads FieldsV1. Steps of an unknown kind are dropped, as the server drops them; anything else that is wrong throws. */
export function decodeFields(fields: JsonObject): DecodedFields {
  const state = { canonical: true };
  const { set } = decodeLevel(fields, state, true);
  return { set, canonical: state.canonical };
}

function decodeLevel(fields: JsonObject, state: { canonical: boolean }, root: boolean): { set: FieldSetBuilder; self: boolean } {
  const set: FieldSetBuilder = new Map();
  let self = false;
  let last: string | undefined;
  for (const text of Object.keys(fields)) {
    const value = fields[text];
    if (text === '.') {
      if (root || last !== undefined || !isObject(value) || !isEmptyObject(value)) state.canonical = false;
      self = true;
      continue;
    }
    const element = parseElement(text);
    if (element === undefined) {
      state.canonical = false;
      continue;
    }
    if (!isObject(value)) throw new SyntaxError(`what is below ${text} must be an object`);
    if (element !== text || (last !== undefined && compareElements(last, element) >= 0)) state.canonical = false;
    last = element;
    const old = set.get(element);
    if (old === undefined && isEmptyObject(value)) set.set(element, leaf);
    else {
      const below = decodeLevel(value, state, false);
      putElement(set, element, below.self || old?.member === true, below.set.size > 0 ? below.set : (old?.children ?? below.set));
    }
  }
  if (set.size === 0) {
    if (self) state.canonical = false;
    self = true;
  }
  return { set, self };
}

/** Writes FieldsV1 in the server's order. */
export function encodeFields(set: FieldSet): JsonObject {
  const out: JsonObject = {};
  for (const element of [...set.keys()].sort(compareElements)) {
    const node = set.get(element);
    if (node?.children === undefined) out[element] = {};
    else out[element] = node.member ? { '.': {}, ...encodeFields(node.children) } : encodeFields(node.children);
  }
  return out;
}
