import type { Disruption } from '../../api/disruption.ts';
import type { ComponentEntry, Outcome } from '../../api/machine.ts';

/** What an entry of the Machine asked for when it was accepted; templates see `labels` as they were then. */
export interface AcceptedEntry {
  name: string;
  action: ComponentEntry['action'];
  version: string;
  values: Record<string, unknown>;
  labels: Record<string, string>;
  revision: number;
  content: string;
}

export interface ComponentFailure {
  revision: number;
  reason: string;
  message: string;
  restored: boolean;
}

export interface ComponentState extends AcceptedEntry {
  failed?: ComponentFailure;
  /** Generation whose units could not be put right by a restart: not tried again. */
  driftFailed?: string;
  /** `action: Remove` was carried out, or the machine was cleaned up. */
  removed: boolean;
  driftRepairs: number;
  /** Wall time, ms, of those within the last hour. */
  repairs: number[];
}

/** What an operation of kind Repair is to do here: `action` and `args` of the order, checked. */
export type Task =
  | { action: 'RestartComponent'; component: string }
  | { action: 'CleanDisk'; belowPercent: number }
  /** Into another boot than this one. */
  | { action: 'Reboot'; fromBootID: string };

/** Written before the first thing that cannot be taken back; without it the agent has done nothing yet. */
export interface Acting {
  /** Wall time, ms. */
  at: number;
  /** Invocations of the units that ran: a unit that still has the same one still has to be restarted. */
  invocations?: Record<string, string>;
  /** So far. */
  freed?: { files: number; bytes: number };
}

export interface OperationRecord {
  id: string;
  epoch: number;
  kind: string;
  startedAt: number;
  /** While it runs: what it may switch, and the strongest class it was given for. */
  components: { name: string; revision: number }[];
  class: Disruption;
  task?: Task;
  acting?: Acting;
  outcome?: Outcome;
  message?: string;
  /** In which it ended; of a Repair that runs: in which it was begun. */
  bootID?: string;
  finishedAt?: number;
}

/**
 * One component on its way from what runs (`from`, a generation's digest; absent: nothing) to what is wanted (`to`; absent:
 * nothing). At most one at a time on a node.
 */
export interface Transaction {
  name: string;
  revision: number;
  why: 'Change' | 'Drift' | 'Delete';
  class: Disruption;
  from?: string;
  to?: string;
  /** Generations that were begun and left for a newer revision before their probes passed. */
  touched: string[];
  operation?: string;
  /** It goes back, and why. */
  back?: { reason: string; message: string };
  /** A reboot was asked for on the way there or back, in this boot. */
  rebootThere?: string;
  rebootBack?: string;
}

/** What the journal records: the fold of its entries. */
export interface JournalState {
  machineUID: string;
  components: Record<string, ComponentState>;
  transaction?: Transaction;
  /** Newest last. */
  operations: OperationRecord[];
  /** Highest epoch of an operation seen. */
  epoch: number;
  /** `hold`, `paused` or the deletion of the Machine, as last seen. */
  held: boolean;
  /** Contents last verified here, by component. */
  verified: Record<string, string[]>;
  /** The machine was cleaned up for its deletion: it has no component any more. */
  cleared: boolean;
  /** When it is cleaned up for its deletion, the agent goes too. */
  reset?: boolean;
  /** The agent does nothing more but take itself away. Announced: the cell is to get that report first. */
  leaving?: 'Announced' | 'Acknowledged';
}

export type JournalEntry =
  | { t: 'open'; machineUID: string }
  | { t: 'state'; state: JournalState }
  | { t: 'machine'; held: boolean; verified: Record<string, string[]>; reset?: boolean; epoch?: number }
  | { t: 'accept'; accepted: AcceptedEntry }
  | { t: 'forget'; name: string }
  | { t: 'begin'; transaction: Transaction; operation?: OperationRecord }
  /** A Repair: intended, and nothing done. */
  | { t: 'operate'; operation: OperationRecord }
  | { t: 'act'; id: string; acting: Acting }
  | { t: 'reboot'; bootID: string }
  | { t: 'back'; reason: string; message: string }
  /** The transaction reached its end: a receipt records what runs, or none is left. */
  | { t: 'commit' }
  /** Without what was wanted; `ends` the transaction, or it was refused before there was one. */
  | { t: 'fail'; name: string; failed: ComponentFailure; ends: boolean }
  /** No part of the component was here. */
  | { t: 'removed'; name: string }
  | { t: 'finish'; operation: OperationRecord; cleared?: boolean; leaves?: boolean }
  | { t: 'leave'; acknowledged: boolean }
  | { t: 'repair'; name: string; at: number };

/** Operation IDs that are remembered. Older ones are then below the epoch. */
const REMEMBERED = 100;
const HOUR_MS = 3_600_000;

export function fold(state: JournalState | undefined, entry: JournalEntry): JournalState {
  if (entry.t === 'open') {
    return { machineUID: entry.machineUID, components: {}, operations: [], epoch: 0, held: false, verified: {}, cleared: false };
  }
  if (entry.t === 'state') return entry.state;
  if (state === undefined) throw new Error('a journal begins with whose it is');
  const { transaction, ...closed } = state;

  switch (entry.t) {
    case 'machine': {
      const { held, verified, reset = false, epoch = 0 } = entry;
      return { ...state, held, verified, reset, epoch: Math.max(state.epoch, epoch) };
    }
    case 'accept': {
      const old = componentOf(state, entry.accepted.name);
      const { driftRepairs, repairs } = old ?? { driftRepairs: 0, repairs: [] };
      return withComponent(state, { ...entry.accepted, removed: false, driftRepairs, repairs });
    }
    case 'forget': {
      const { [entry.name]: _gone, ...components } = state.components;
      return { ...state, components };
    }
    case 'begin':
      return { ...withOperation(state, entry.operation), transaction: entry.transaction };
    case 'operate':
      return withOperation(state, entry.operation);
    case 'act': {
      const operations = state.operations.map((each) => (each.id === entry.id ? { ...each, acting: entry.acting } : each));
      return { ...state, operations };
    }
    case 'reboot':
      if (transaction === undefined) return state;
      return {
        ...state,
        transaction: { ...transaction, ...(transaction.back === undefined ? { rebootThere: entry.bootID } : { rebootBack: entry.bootID }) },
      };
    case 'back':
      return transaction === undefined
        ? state
        : { ...state, transaction: { ...transaction, back: { reason: entry.reason, message: entry.message } } };
    case 'commit': {
      if (transaction === undefined) return state;
      const component = componentOf(state, transaction.name);
      const asked = transaction.why === 'Delete' || component?.revision === transaction.revision;
      return component === undefined || transaction.to !== undefined || !asked
        ? closed
        : withComponent(closed, { ...component, removed: true });
    }
    case 'fail': {
      const component = componentOf(state, entry.name);
      if (component !== undefined && entry.ends && transaction?.why === 'Drift' && transaction.to !== undefined) {
        return withComponent(closed, { ...component, driftFailed: transaction.to });
      }
      const next = entry.ends ? closed : state;
      // A newer revision that was accepted meanwhile has not failed.
      return component === undefined || component.revision !== entry.failed.revision
        ? next
        : withComponent(next, { ...component, failed: entry.failed });
    }
    case 'removed': {
      const component = componentOf(state, entry.name);
      return component === undefined ? state : withComponent(state, { ...component, removed: true });
    }
    case 'finish':
      return finished(state, entry);
    case 'leave':
      return { ...state, leaving: entry.acknowledged ? 'Acknowledged' : 'Announced' };
    case 'repair': {
      const component = componentOf(state, entry.name);
      if (component === undefined) return state;
      const repairs = [...component.repairs.filter((at) => at > entry.at - HOUR_MS && at <= entry.at), entry.at];
      return withComponent(state, { ...component, driftRepairs: component.driftRepairs + 1, repairs });
    }
    default:
      throw new Error(`a journal entry of an unknown kind: ${JSON.stringify(entry satisfies never)}`);
  }
}

function finished(state: JournalState, { operation, cleared, leaves }: Extract<JournalEntry, { t: 'finish' }>): JournalState {
  const operations = state.operations.filter((each) => each.id !== operation.id);
  return {
    ...state,
    operations: remembered([...operations, operation]),
    epoch: Math.max(state.epoch, operation.epoch),
    cleared: state.cleared || cleared === true,
    ...(leaves === true ? { leaving: 'Announced' } : {}),
  };
}

function withComponent(state: JournalState, component: ComponentState): JournalState {
  return { ...state, components: { ...state.components, [component.name]: component } };
}

function withOperation(state: JournalState, operation: OperationRecord | undefined): JournalState {
  if (operation === undefined || state.operations.some((each) => each.id === operation.id)) return state;
  return { ...state, operations: remembered([...state.operations, operation]), epoch: Math.max(state.epoch, operation.epoch) };
}

function remembered(operations: OperationRecord[]): OperationRecord[] {
  return operations.slice(-REMEMBERED);
}

/** A component may have the name of anything that every object inherits. */
export function componentOf(state: JournalState, name: string): ComponentState | undefined {
  return Object.hasOwn(state.components, name) ? state.components[name] : undefined;
}

export function runningOperation(state: JournalState): OperationRecord | undefined {
  return state.operations.find((each) => each.outcome === undefined);
}
