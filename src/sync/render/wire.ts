/** What goes between the process that asks for a rendering and the child that does it. */
import type { Finding } from './finding.ts';

/** On the child's standard input. */
export interface ChildInput {
  entry: string;
  /** Path in the commit and text. */
  files: [string, string][];
}

/** On the child's descriptor 3, as JSON. Written by code that a stranger may have bent: `decode` believes nothing of it. */
export type ChildOutput =
  | {
      ok: true;
      /** One for each component that the fleet's file of signatures should have and has not. */
      unsigned: Finding[];
      clusters: { name: string; object: unknown; location: string; objects: { object: unknown; location: string; path: string }[] }[];
    }
  | { ok: false; findings: Finding[] };

export const RESULT_FD = 3;
