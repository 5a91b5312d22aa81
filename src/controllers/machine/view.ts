/** One machine as a decision sees it, and what a decision is. */
import type { LedgerRow, StartsBucket } from '../../api/disruption-ledger.ts';
import type { CancelCause, Machine, Outcome } from '../../api/machine.ts';
import type { Instance } from '../../api/provider.ts';
import type { Stored } from '../../api/wire.ts';
import type { Verdict } from '../../defender/request.ts';
import type { Claim } from './claim.ts';
import type { AskFacts } from './facts.ts';

export type InstanceView =
  /** The Machine names no provider: nothing was made, nothing is unmade. */
  | { state: 'NoProvider' }
  /** Not known now; nothing is concluded from it. */
  | { state: 'Unknown'; reason: string; message: string }
  /** Proven absent. */
  | { state: 'Absent' }
  | { state: 'Present'; instance: Instance };

/** A pod that a drain takes away; `terminating` ones are waited for. */
export interface DrainedPod {
  namespace: string;
  name: string;
  uid: string;
  terminating: boolean;
  labels?: Readonly<Record<string, string>>;
}

export interface NotOnNode {
  /** In order of weight: the server refuses the Node with them; somebody else has set another value; it would take pods off the node. */
  reason: 'NodeRefused' | 'SetByAnother' | 'TaintWithheld';
  message: string;
}

export interface MachineView {
  nowMs: number;
  machine: Stored<Machine>;
  /** The ledger's row of this machine's UID. */
  row: LedgerRow | undefined;
  claim: Claim;
  /** As recorded, or as the provider says it now; undefined while there was no instance. */
  providerID: string | undefined;
  /** What the provider calls, or would call, the instance of this machine; empty without a provider. */
  instanceID: string;
  instance: InstanceView;
  kubeletAnswers: boolean;
  facts: AskFacts;
  /** What a drain must still take away; undefined unless `isDraining`. */
  pods: readonly DrainedPod[] | undefined;
  /** Whether labels and taints of the claimed Node, or the record of them, are to be written. */
  nodeDrift: boolean;
  /** Labels and taints that the Machine wants and its Node has not, and why. */
  notOnNode: readonly NotOnNode[];
  /** Why Defender takes back the row, which has no order yet: what it was granted under does not hold any more. */
  revoked: Verdict | undefined;
  /** Buckets of the ledger: what began lately, for rates. */
  hours: readonly StartsBucket[];
  /** Whether the provider can cut the power of this machine. */
  canStop: boolean;
  /** This process knows that the provider has taken the power cycle of the operation under way; asking twice is safe, and for nothing. */
  powerCycled: boolean;
}

export type Step = { why: string } & (
  | { do: 'AddFinalizer' }
  | { do: 'EnsureInstance' }
  | { do: 'SyncNode' }
  | { do: 'LiftCordon'; owner: string }
  | { do: 'MarkDegraded' }
  | { do: 'LiftDegraded' }
  | { do: 'TakeOver'; row: LedgerRow }
  /** Before `TakeOverForRepair`, where the row that it takes over has no order. */
  | { do: 'FenceOrder'; row: LedgerRow; /** UID of the job that is to get the new row. */ job: string }
  | { do: 'TakeOverForRepair'; row: LedgerRow; /** UID of the job that gets the new row. */ job: string }
  | { do: 'Cordon'; row: LedgerRow }
  | { do: 'Evict'; row: LedgerRow; pod: DrainedPod; /** Instead of the pod's own. */ graceSeconds?: number }
  | { do: 'Order'; row: LedgerRow; /** Whether the node was drained: only then may what needs it be ordered. */ drained: boolean }
  | { do: 'BeginRepair'; row: LedgerRow; /** The one it runs in. */ bootID: string }
  | { do: 'EndRepair'; row: LedgerRow; outcome: Outcome; message: string; bootID?: string }
  | { do: 'PowerCycle'; row: LedgerRow; providerID: string }
  /** Before `StopInstance`: so that whoever ends the operation knows that its power may be about to be cut. */
  | { do: 'NoteCut'; row: LedgerRow }
  | { do: 'StopInstance'; row: LedgerRow; providerID: string }
  /** Before the end of an operation of which somebody may still be about to ask the provider for something. */
  | { do: 'RetirePower'; row: LedgerRow; providerID: string }
  /** Before `MarkOutOfService`: so that the one that removes the mark knows that it is ours. */
  | { do: 'NoteOutOfService'; row: LedgerRow }
  | { do: 'MarkOutOfService'; row: LedgerRow }
  | { do: 'ForceDelete'; row: LedgerRow; pods: readonly DrainedPod[]; providerID: string }
  | { do: 'DeleteMachine'; row: LedgerRow }
  /** Deletes a Machine that its set marked; without a row where nothing was made for it. */
  | { do: 'Retire'; row: LedgerRow | undefined }
  | { do: 'WriteCancelled'; row: LedgerRow; cause: CancelCause; reason: string }
  | { do: 'Fence'; row: LedgerRow }
  | { do: 'FreeCancelled'; row: LedgerRow }
  | { do: 'Settle'; row: LedgerRow }
  | { do: 'Release'; row: LedgerRow }
  /** Without a row where nothing was made, so that nothing is disrupted. */
  | { do: 'DeleteInstance'; row: LedgerRow | undefined; providerID: string }
  /** Only after a DeleteInstance of the same run said `gone`, where that stands before it. */
  | { do: 'Finalize'; row: LedgerRow | undefined }
);

export interface Decision {
  steps: Step[];
  /** What is waited for where nothing is to be done; `untilMs` where the clock alone changes the answer. */
  waits?: { for: 'Defender' | 'Pods' | 'Agent' | 'SetController' | 'RemedyJob' | 'Provider' | 'Boot'; why: string; untilMs?: number };
}
