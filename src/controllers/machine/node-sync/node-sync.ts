/**
 * Labels and taints of a Machine on its Node. KubeNode records in `Machine.status.nodeKeys`, which the node cannot write, what it is about to put there. So it
 * changes and removes only its own (docs/protocols.md#c11). Pure.
 */
import type { Node, Taint } from '../../../api/builtin.ts';
import { canonical } from '../../../api/digest.ts';
import type { Machine, NodeKeys } from '../../../api/machine.ts';
import { KEPT_TAINTS } from '../../../api/fields.ts';
import { own } from '../../../api/own.ts';
import type { LedgerReservation } from '../../../api/disruption-ledger.ts';
import { SSH_PROVIDER } from '../../../api/ssh.ts';
import type { Stored } from '../../../api/wire.ts';
import { nodeMark } from '../../../defender/guarded-patch.ts';
import { DEGRADED, isCordonedFor, ownerOf } from '../cordon/cordon.ts';
import { wasReady } from '../facts.ts';

type Subject = Pick<Machine, 'spec' | 'status'>;

/**
 * Marks the node for Kubernetes as certainly off: its pods may start elsewhere, with their volumes. Our mark is there from the proof until the kubelet answers
 * again. A mark of another client stays as it is.
 */
const OUT_OF_SERVICE: Taint = { key: 'node.kubernetes.io/out-of-service', value: 'nodeshutdown', effect: 'NoExecute' };

const idOf = ({ key, effect }: Pick<Taint, 'key' | 'effect'>): string => `${key}:${effect}`;
const labelText = (key: string, value: string): string => `${key}=${value}`;
const taintText = ({ key, value, effect }: Taint): string => `${key}=${value ?? ''}:${effect}`;
const OUT_OF_SERVICE_TEXT = taintText(OUT_OF_SERVICE);

export const isOutOfService = (node: Node): boolean => node.spec?.taints?.some((taint) => idOf(taint) === idOf(OUT_OF_SERVICE)) === true;

/** For this Node only: a mark of an earlier Node is gone with it. */
const recordOf = ({ status }: Subject, node: Stored<Node>): NodeKeys | undefined =>
  status?.nodeKeys?.nodeUID === node.metadata.uid ? status.nodeKeys : undefined;

export const isOutOfServiceNoted = (machine: Subject, node: Stored<Node>): boolean =>
  recordOf(machine, node)?.taints.includes(OUT_OF_SERVICE_TEXT) === true;

/** The record with the mark that is about to be put there; undefined where it is noted, or another client's mark is there. */
export function notedOutOfService(machine: Subject, node: Stored<Node>): NodeKeys | undefined {
  if (isOutOfService(node) || isOutOfServiceNoted(machine, node)) return undefined;
  const record = recordOf(machine, node) ?? { nodeUID: node.metadata.uid, nodeVersion: '', labels: [], taints: [] };
  return { ...record, taints: [...record.taints, OUT_OF_SERVICE_TEXT].sort() };
}

/** The Node marked as off for certain; undefined when it is so already, or it is not noted that the mark is ours. */
export function markedOutOfService(machine: Subject, node: Stored<Node>): Stored<Node> | undefined {
  if (isOutOfService(node) || !isOutOfServiceNoted(machine, node)) return undefined;
  return { ...node, spec: { ...node.spec, taints: [...(node.spec?.taints ?? []), OUT_OF_SERVICE] } };
}

export interface NodePlan {
  /** `Machine.status.nodeKeys` as it must be before the Node is written; undefined when it is so. */
  record: NodeKeys | undefined;
  /** The Node as it should be; undefined when it is so. */
  node: Stored<Node> | undefined;
  /** What the Machine wants and another client has set otherwise, for people. */
  foreign: string[];
  /** Taints that would take pods off the node, which waits for a reservation, for people. */
  withheld: string[];
}

export interface NodeSyncFacts {
  kubeletAnswers: boolean;
  /** A taint that takes pods off the node may be put there now: nothing runs there that a reservation would protect (`mayTakePods`). */
  mayTakePods: boolean;
}

/**
 * Whether a taint of effect NoExecute may be put on the node: nothing ever ran there, or all pods were drained for the reservation that still cordons it.
 * `pods`: as they were listed under that cordon. The Node of an imported machine may be older than the Machine: a Node is new only when a kubelet registers it.
 */
export function mayTakePods(
  machine: Machine,
  node: Node,
  reservation: LedgerReservation | undefined,
  pods: readonly unknown[] | undefined,
): boolean {
  if (reservation !== undefined && pods?.length === 0 && isCordonedFor(node, reservation.id)) return true;
  if (wasReady(machine)) return false;
  const { provider } = machine.spec;
  if (provider !== undefined && provider.name !== SSH_PROVIDER) return true;
  const ready = node.status?.conditions?.find(({ type }) => type === 'Ready');
  return ready === undefined || ready.status === 'False';
}

/** What is to be written so that the Node has the Machine's labels and taints. */
export function planNode(machine: Subject, node: Stored<Node>, facts: NodeSyncFacts): NodePlan {
  const record = recordOf(machine, node);
  const labels = labelsOn(node, machine.spec.labels ?? {}, (text) => record?.labels.includes(text) === true);
  const isKept = ({ key }: Taint): boolean => KEPT_TAINTS.some((prefix) => key.startsWith(prefix));
  // A Machine of an earlier version may ask for a reserved one, which is removed where it was put, or for two of one key and effect.
  const wanted = (machine.spec.taints ?? []).filter(
    (taint, index, all) => !isKept(taint) && all.findIndex((each) => idOf(each) === idOf(taint)) === index,
  );
  const taints = taintsOn(node, wanted, {
    isKnown: (text) => record?.taints.includes(text) === true,
    keepsMark: !facts.kubeletAnswers,
    mayTakePods: facts.mayTakePods,
  });

  const puts = labels.puts.length + taints.puts.length > 0;
  // An earlier leader may still have a write on its way. That write is conditioned on our last write or on the cordon of its reservation, or, in an earlier
  // version of KubeNode, on the Node's version.
  const mark = nodeMark(node);
  const mayLand = record !== undefined && [mark, node.metadata.resourceVersion].includes(record.nodeVersion);
  const owner = ownerOf(node);
  const marks = owner !== undefined && owner !== DEGRADED;
  const stays = (text: string): boolean => (text === OUT_OF_SERVICE_TEXT ? marks : mayLand);
  const texts = (known: readonly string[], part: { ours: string[]; puts: string[] }): string[] =>
    [...new Set([...part.ours, ...part.puts, ...known.filter(stays)])].sort();
  const next: NodeKeys = {
    nodeUID: node.metadata.uid,
    nodeVersion: puts ? mark : (record?.nodeVersion ?? ''),
    labels: texts(record?.labels ?? [], labels),
    taints: texts(record?.taints ?? [], taints),
  };
  const isNeeded = record !== undefined || puts;
  // The record still names what is neither there nor wanted any more, until a write of ours makes the write that is on its way lose.
  const isFenceNeeded =
    mayLand &&
    (isLeft(record.labels, labels) ||
      isLeft(
        record.taints.filter((text) => text !== OUT_OF_SERVICE_TEXT),
        taints,
      ));

  const object: Stored<Node> = {
    ...node,
    metadata: { ...node.metadata, labels: labels.after },
    spec: { ...node.spec, taints: taints.after },
  };
  return {
    record: isNeeded && canonical(next) !== canonical(record ?? {}) ? next : undefined,
    node: concerned(object) === concerned(node) && !isFenceNeeded ? undefined : object,
    foreign: [...labels.foreign, ...taints.foreign],
    withheld: taints.withheld,
  };
}

const isLeft = (known: readonly string[], { ours, puts }: { ours: string[]; puts: string[] }): boolean =>
  known.some((text) => !ours.includes(text) && !puts.includes(text));

const concerned = ({ metadata, spec }: Node): string => canonical([metadata.labels ?? {}, spec?.taints ?? []]);

interface Part<T> {
  after: T;
  /** On the Node now, and put there by us. */
  ours: string[];
  /** About to be put there. */
  puts: string[];
  foreign: string[];
}

/** Whether the record has it. */
type IsKnown = (text: string) => boolean;

function labelsOn(node: Node, wanted: Record<string, string>, isKnown: IsKnown): Part<Record<string, string>> {
  const had = node.metadata.labels ?? {};
  const isOurs = (key: string, value: string): boolean => isKnown(labelText(key, value));
  const ours = Object.entries(had).filter(([key, value]) => isOurs(key, value));
  const after = { ...had };
  for (const [key] of ours) if (!Object.hasOwn(wanted, key)) delete after[key];
  const puts: string[] = [];
  const foreign: string[] = [];
  for (const [key, value] of Object.entries(wanted)) {
    const there = own(had, key);
    if (there === value) continue;
    if (there !== undefined && !isOurs(key, there)) {
      foreign.push(`label ${labelText(key, value)} (the Node has "${there}")`);
      continue;
    }
    after[key] = value;
    puts.push(labelText(key, value));
  }
  return { after, ours: ours.map(([key, value]) => labelText(key, value)), puts, foreign };
}

function taintsOn(
  node: Node,
  wanted: readonly Taint[],
  known: { isKnown: IsKnown; keepsMark: boolean; mayTakePods: boolean },
): Part<Taint[]> & { withheld: string[] } {
  const had = node.spec?.taints ?? [];
  const isOurs = (taint: Taint): boolean => known.isKnown(taintText(taint));
  const ours = had.filter(isOurs);
  const puts: Taint[] = [];
  const foreign: string[] = [];
  const withheld: string[] = [];
  for (const taint of wanted) {
    const there = had.find((each) => idOf(each) === idOf(taint));
    if (there !== undefined && taintText(there) === taintText(taint)) continue;
    if (there !== undefined && !isOurs(there)) foreign.push(`taint ${taintText(taint)} (the Node has value "${there.value ?? ''}")`);
    else if (taint.effect === 'NoExecute' && !known.mayTakePods) withheld.push(taintText(taint));
    else puts.push(taint);
  }
  const stays = (taint: Taint): boolean => {
    if (!ours.includes(taint)) return true;
    if (known.keepsMark && taintText(taint) === OUT_OF_SERVICE_TEXT) return true;
    return wanted.some((each) => idOf(each) === idOf(taint)) && !puts.some((each) => idOf(each) === idOf(taint));
  };
  // As Kubernetes has it: one taint of a key and effect.
  const after = [
    ...had.filter(stays),
    ...puts.map(({ key, value, effect }) => ({ key, ...(value === undefined ? {} : { value }), effect })),
  ];
  return { after, ours: ours.map(taintText), puts: puts.map(taintText), foreign, withheld };
}
