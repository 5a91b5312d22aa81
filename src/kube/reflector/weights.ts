import type { KubeObject } from '../../api/wire.ts';
import { jsonMemory } from '../json-memory.ts';

export interface Weight {
  /** As JSON. */
  characters: number;
  /** In bytes, at most. */
  memory: number;
}

export const NOTHING: Weight = { characters: 0, memory: 0 };

export function weightOf(object: KubeObject): Weight {
  const text = JSON.stringify(object);
  return { characters: text.length, memory: jsonMemory(text) };
}

export function larger(one: Weight, other: Weight): Weight {
  return { characters: Math.max(one.characters, other.characters), memory: Math.max(one.memory, other.memory) };
}

/** How much is kept, by key. */
export interface Weights {
  readonly objects: number;
  readonly characters: number;
  readonly memory: number;
  get(key: string): Weight | undefined;
  set(key: string, weight: Weight | undefined): void;
  replace(all: ReadonlyMap<string, Weight>): void;
  clear(): void;
}

/** `onChange`: by how much the memory of all changed. */
export function createWeights(onChange: (memory: number) => void): Weights {
  const known = new Map<string, Weight>();
  let characters = 0;
  let memory = 0;
  function set(key: string, weight: Weight | undefined): void {
    const before = known.get(key) ?? NOTHING;
    const after = weight ?? NOTHING;
    if (weight === undefined) known.delete(key);
    else known.set(key, weight);
    characters += after.characters - before.characters;
    memory += after.memory - before.memory;
    onChange(after.memory - before.memory);
  }
  function clear(): void {
    onChange(-memory);
    known.clear();
    characters = 0;
    memory = 0;
  }
  return {
    get objects() {
      return known.size;
    },
    get characters() {
      return characters;
    },
    get memory() {
      return memory;
    },
    get: (key) => known.get(key),
    set,
    replace(all) {
      clear();
      for (const [key, weight] of all) set(key, weight);
    },
    clear,
  };
}
