/** What a kind of step is: how it is carried out, and what a person reads of it. Each folder defines its own steps; `steps.ts` joins them. */
import type { InfraProvider } from '../../api/provider.ts';
import type { GuardedPort, Performed } from '../../defender/guarded-write.ts';
import type { Client } from '../../kube/client.ts';
import type { RecordedEvent } from '../../kube/recorder.ts';
import type { Act, ActContext, Effect } from './guards.ts';
import type { CellAddress } from '../identity/provision.ts';
import type { MachineView, Step } from './view.ts';

/** What carries steps out. */
export interface Hands {
  client: Client;
  port: GuardedPort<Effect>;
  provider: InfraProvider | undefined;
  cell: CellAddress;
  epoch: number;
  newID: () => string;
  signal: AbortSignal;
}

export type StepName = Step['do'];
export type StepOf<K extends StepName> = { [P in StepName]: Extract<Step, { do: P }> }[K];

export interface StepKind<K extends StepName> {
  /** As a guarded write; undefined where this step changes nothing which two leaders could dispute. */
  guarded: ((step: StepOf<K>, context: ActContext) => Act | undefined) | undefined;
  /** Without a guard, where `guarded` gives none: two leaders cannot dispute about the step, it can be done twice, and it disrupts no node. */
  plain?: (step: StepOf<K>, view: MachineView, hands: Hands) => Promise<Performed>;
  /** What a person who describes a Machine reads once it is carried out; `note` is what the other side answered. undefined: nothing new. */
  event: ((step: StepOf<K>, view: MachineView, note: string | undefined) => RecordedEvent) | undefined;
}

export type StepKinds<K extends StepName> = { readonly [P in K]: StepKind<P> };
