/**
 * Who writes a field of an object of KubeNode in a cell where Git leaves it out. Fields that are not named here are Git's: in a cell they are as a commit gives
 * them, or as the defaults of the schema (docs/protocols.md#e3).
 */
import type { DefenderPolicy } from '../api/defender-policy.ts';
import type { MachineComponent } from '../api/machine-component.ts';
import type { MachineComponentSet } from '../api/machine-component-set.ts';
import type { MachineSet } from '../api/machine-set.ts';
import type { NodeRemedier } from '../api/node-remedier.ts';
import { REHEARSAL_ANNOTATIONS } from '../api/rehearsal.ts';
import { REHEARSAL } from './rollout/rehearsal.ts';

/** A field that stays as it is in a cell where Git leaves it out. */
export interface OthersField {
  because: string;
  /** The value that is reported while it stays: it keeps what Git gives from being carried out. */
  reported?: boolean;
}

type FieldsOf<Spec> = { readonly [Field in keyof Spec]?: OthersField };

/** The kinds that a commit may have. */
const OTHERS: {
  readonly MachineSet: FieldsOf<MachineSet['spec']>;
  readonly MachineComponentSet: FieldsOf<MachineComponentSet['spec']>;
  readonly MachineComponent: FieldsOf<MachineComponent['spec']>;
  readonly NodeRemedier: FieldsOf<NodeRemedier['spec']>;
  readonly DefenderPolicy: FieldsOf<DefenderPolicy['spec']>;
} = {
  MachineSet: {
    replicas: { because: 'autoscalers and people scale a set whose number Git leaves out; no machine goes for it unless C8e allows it' },
    paused: { because: 'people pause a set in an emergency, without Git or hub: it only stops what would be done', reported: true },
  },
  MachineComponentSet: {
    ceiling: { because: 'rollouts write it, and take away one that they do not want' },
    rolloutID: { because: 'rollouts and people write it to try again what failed; it changes no content' },
    paused: { because: 'people pause a set in an emergency, without Git or hub: it only stops what would be done', reported: true },
  },
  // Its schema allows no change but of `signatures`, which are Git's.
  MachineComponent: {},
  // People stop repairs by a Freeze or `hold`, and a rule by a commit.
  NodeRemedier: {},
  // People tighten limits by a Freeze.
  DefenderPolicy: {},
};

/** Annotations that decide what a rule may do, and are Git's too. */
const DECIDING: Partial<Record<keyof typeof OTHERS, readonly string[]>> = {
  NodeRemedier: [REHEARSAL, ...Object.values(REHEARSAL_ANNOTATIONS)],
};

export type GivenKind = keyof typeof OTHERS;

export const isGivenKind = (kind: string): kind is GivenKind => Object.hasOwn(OTHERS, kind);

export const GIVEN_KINDS: readonly GivenKind[] = Object.keys(OTHERS).filter(isGivenKind);

/** By name of a field of `spec`. */
export const othersFields = (kind: GivenKind): ReadonlyMap<string, OthersField> => new Map(Object.entries(OTHERS[kind]));

export const decidingAnnotations = (kind: GivenKind): readonly string[] => DECIDING[kind] ?? [];
