import type { AgentMemory } from '../context.ts';
import type { Manifest } from './manifest.ts';

/** How far a generation is that is wanted (or was here and is damaged). */
export type Preparation =
  | { status: 'working'; revision: number; message?: string }
  | { status: 'retry'; revision: number; atMs: number; failures: number; message: string }
  | { status: 'failed'; revision: number; reason: string; message: string }
  | { status: 'ready'; revision: number; manifest: Manifest };

/** Generations that are being made ready, and whether some may go. */
export interface GenerationMemory {
  prepared: Map<string, Preparation>;
  /** Generations that run and are damaged. */
  rebuilt: Map<string, Preparation>;
  /** Ends a preparation. */
  preparing: Map<string, AbortController>;
  /** A kept file may no longer be needed. */
  sweep: boolean;
}

export function newGenerationMemory(): GenerationMemory {
  return { prepared: new Map(), rebuilt: new Map(), preparing: new Map(), sweep: true };
}

export function requestSweep({ generation }: AgentMemory): void {
  generation.sweep = true;
}

/** What follows may ask for another one. */
export function beginSweep({ generation }: AgentMemory): void {
  generation.sweep = false;
}

export function cancelPreparation({ generation }: AgentMemory, name: string): void {
  generation.preparing.get(name)?.abort(new Error('it is not wanted any more'));
  generation.prepared.delete(name);
}

/** The component was removed: what was made ready for it is of no use. */
export function dropPrepared({ generation }: AgentMemory, name: string): void {
  generation.prepared.delete(name);
}

export function readyManifest({ generation }: AgentMemory, name: string): Manifest | undefined {
  const prepared = generation.prepared.get(name);
  return prepared?.status === 'ready' ? prepared.manifest : undefined;
}

export function isPreparing({ generation: { prepared, rebuilt } }: AgentMemory): boolean {
  return [...prepared.values(), ...rebuilt.values()].some((each) => each.status === 'working');
}
