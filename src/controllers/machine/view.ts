/** One machine as a decision sees it, and what a decision is. */
import type { LedgerReservation, StartsBucket } from '../../api/disruption-ledger.ts';
import type { CancelCause, Machine, Outcome } from '../../api/machine.ts';
import type { Instance } from '../../api/provider.ts';
import type { Stored } from '../../api/wire.ts';
import type { Verdict } from '../../defender/request.ts';
import type { Claim } from './observe/claim.ts';
import type { AskFacts } from './facts.ts';

export type InstanceView =
  /** The Machine names no provider: there is no instance to make or to delete. */
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
  /** The worst first: the server refuses the Node with them; another client has set another value; they would take pods off the node. */
  reason: 'NodeRefused' | 'SetByAnother' | 'TaintWithheld';
  message: string;
}

export interface MachineView {
  nowMs: number;
  machine: Stored<Machine>;
  /** The ledger's reservation of this machine's UID. */
  reservation: LedgerReservation | undefined;
  claim: Claim;
  /** As recorded, or as the provider reports it now; undefined while there was no instance. */
  providerID: string | undefined;
  /** What the provider calls, or would call, the instance of this machine; empty without a provider. */
  instanceID: string;
  instance: InstanceView;
  kubeletAnswers: boolean;
  facts: AskFacts;
  /** What a drain must still take away; undefined unless `isDraining`. */
  pods: readonly DrainedPod[] | undefined;
  /** Components whose failure their sets have not recorded yet. */
  uncounted: readonly string[];
  /** Whether labels and taints of the claimed Node, or the record of them, are to be written. */
  nodeDrift: boolean;
  /** Labels and taints that the Machine wants and its Node has not, and why. */
  notOnNode: readonly NotOnNode[];
  /** Why Defender takes back a reservation without an order: the conditions under which it was granted are no longer true. */
  revoked: Verdict | undefined;
  /** Buckets of the ledger: what began lately, for rates. */
  hours: readonly StartsBucket[];
  /** Whether the provider can cut the power of this machine. */
  canStop: boolean;
  /** This process knows that the provider has accepted the power cycle of the operation under way. To ask twice would be safe, but useless. */
  powerCycled: boolean;
}

export type Step = { why: string } & (
  | { do: 'AddFinalizer' }
  | { do: 'EnsureInstance' }
  | { do: 'SyncNode' }
  | { do: 'LiftCordon'; owner: string }
  | { do: 'MarkDegraded' }
  | { do: 'LiftDegraded' }
  | { do: 'TakeOver'; reservation: LedgerReservation }
  /** Before `TakeOverForRepair`, where the reservation that it takes over has no order. */
  | { do: 'FenceOrder'; reservation: LedgerReservation; /** UID of the job that is to get the new reservation. */ job: string }
  | { do: 'TakeOverForRepair'; reservation: LedgerReservation; /** UID of the job that gets the new reservation. */ job: string }
  | { do: 'Cordon'; reservation: LedgerReservation }
  | { do: 'Evict'; reservation: LedgerReservation; pod: DrainedPod; /** Instead of the pod's own. */ graceSeconds?: number }
  | {
      do: 'Order';
      reservation: LedgerReservation;
      /** Whether the node was drained: only then may what needs it be ordered. */ drained: boolean;
    }
  | { do: 'BeginRepair'; reservation: LedgerReservation; /** The one it runs in. */ bootID: string }
  | { do: 'EndRepair'; reservation: LedgerReservation; outcome: Outcome; message: string; bootID?: string }
  | { do: 'PowerCycle'; reservation: LedgerReservation; providerID: string }
  /** Before `StopInstance`: so that the leader that ends the operation knows that its power may be about to be cut. */
  | { do: 'NoteCut'; reservation: LedgerReservation }
  | { do: 'StopInstance'; reservation: LedgerReservation; providerID: string }
  /** Before an operation ends for which a slow leader may still ask the provider for something. */
  | { do: 'RetirePower'; reservation: LedgerReservation; providerID: string }
  /** Before `MarkOutOfService`: so that the one that removes the mark knows that it is ours. */
  | { do: 'NoteOutOfService'; reservation: LedgerReservation }
  | { do: 'MarkOutOfService'; reservation: LedgerReservation }
  | { do: 'ForceDelete'; reservation: LedgerReservation; pods: readonly DrainedPod[]; providerID: string }
  | { do: 'DeleteMachine'; reservation: LedgerReservation }
  /** Deletes a Machine that its set marked; without a reservation where nothing was made for it. */
  | { do: 'Retire'; reservation: LedgerReservation | undefined }
  | { do: 'WriteCancelled'; reservation: LedgerReservation; cause: CancelCause; reason: string }
  | { do: 'Fence'; reservation: LedgerReservation }
  | { do: 'FreeCancelled'; reservation: LedgerReservation }
  | { do: 'Settle'; reservation: LedgerReservation }
  | { do: 'Release'; reservation: LedgerReservation }
  /** Without a reservation where nothing is disrupted: nothing was made, or the machine is given back. */
  | { do: 'DeleteInstance'; reservation: LedgerReservation | undefined; providerID: string }
  /** Takes from the Node what KubeNode put there, and marks it as one that was given back. */
  | { do: 'GiveBack' }
  /** Only after a DeleteInstance of the same run noted `gone`, where that stands before it. */
  | { do: 'Finalize'; reservation: LedgerReservation | undefined }
);

export interface Decision {
  steps: Step[];
  /** What is waited for where nothing is to be done; `untilMs` where the clock alone changes the answer. */
  waits?: { for: 'Defender' | 'Pods' | 'Agent' | 'SetController' | 'RemedyJob' | 'Provider' | 'Boot'; why: string; untilMs?: number };
}
