/** Everything that was ever stored of a cell's ledger, Machines and Nodes, version by version, checked against docs/protocols.md#d2 to #d7. */
import { Nodes, type Node } from '../../src/api/builtin.ts';
import { DisruptionLedgers, type DisruptionLedger } from '../../src/api/disruption-ledger.ts';
import { Machines, type Machine } from '../../src/api/machine.ts';
import type { Resource } from '../../src/api/resource.ts';
import type { KubeObject, Stored } from '../../src/api/wire.ts';
import type { Client } from '../../src/kube/client.ts';

export type Version =
  | { of: 'ledger'; version: number; gone: boolean; object: DisruptionLedger }
  | { of: 'machine'; version: number; gone: boolean; object: Machine }
  | { of: 'node'; version: number; gone: boolean; object: Node };

export interface History {
  /** In the order in which they were stored, up to now. */
  versions(): Version[];
  /** Set when a watch broke, which leaves gaps. */
  readonly broken: unknown;
  close(): Promise<void>;
}

/** Begins before there is anything to see. */
export async function follow(client: Client, namespace: string): Promise<History> {
  const versions: Version[] = [];
  const ended = new AbortController();
  let broken: unknown;
  async function watched<T extends KubeObject>(
    kind: Resource<T>,
    options: { namespace?: string },
    kept: (object: Stored<T>, version: number, gone: boolean) => Version,
  ): Promise<() => Promise<void>> {
    const list = await client.list(kind, options);
    const events = client.watch(kind, { ...options, resourceVersion: list.metadata.resourceVersion, signal: ended.signal });
    for (const object of list.items) versions.push(kept(object, Number(object.metadata.resourceVersion), false));
    const done = (async () => {
      for await (const { type, object } of events)
        if (type !== 'BOOKMARK') versions.push(kept(object, Number(object.metadata.resourceVersion), type === 'DELETED'));
      if (!ended.signal.aborted) throw new Error(`the watch of ${kind.plural} ended`);
    })().catch((error: unknown) => {
      if (!ended.signal.aborted) broken = error;
    });
    return () => done;
  }
  const dones = [
    await watched(DisruptionLedgers, {}, (object, version, gone) => ({ of: 'ledger', version, gone, object })),
    await watched(Machines, { namespace }, (object, version, gone) => ({ of: 'machine', version, gone, object })),
    await watched(Nodes, {}, (object, version, gone) => ({ of: 'node', version, gone, object })),
  ];
  return {
    versions: () => versions.toSorted((a, b) => a.version - b.version),
    get broken() {
      return broken;
    },
    async close() {
      ended.abort(new Error('enough is seen'));
      await Promise.all(dones.map((done) => done()));
    },
  };
}

const isAvailable = (node: Node | undefined): boolean =>
  node !== undefined &&
  node.spec?.unschedulable !== true &&
  node.status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True') === true;

/** What was wrong, and at which version; empty: nothing ever was. `limit` is of machines that are unavailable or reserved at once. */
export function wrongs(versions: readonly Version[], limit: number): string[] {
  const found: string[] = [];
  const machines = new Map<string, Machine>();
  const nodes = new Map<string, Node>();
  /** Machine UID by the id of what it was ordered. */
  const ordered = new Map<string, string>();
  let ledger: DisruptionLedger | undefined;
  for (const { version, gone, ...each } of versions) {
    const wrong = (what: string): void => void found.push(`at ${version}: ${what}`);
    if (each.of === 'node') {
      if (gone) nodes.delete(each.object.metadata.name);
      else nodes.set(each.object.metadata.name, each.object);
    } else if (each.of === 'ledger') {
      const [was, is] = [ledger?.status?.epoch ?? 0, each.object.status?.epoch ?? 0];
      if (gone) wrong('the ledger is gone');
      if (is < was) wrong(`the epoch fell from ${was} to ${is}`);
      ledger = each.object;
      const holders = (ledger.status?.reservations ?? []).map(({ machineUID }) => machineUID);
      if (new Set(holders).size < holders.length) wrong('a machine has two reservations');
    } else {
      const { name, uid = '' } = each.object.metadata;
      const [was, is] = [machines.get(name)?.spec.operation, each.object.spec.operation];
      if (gone) machines.delete(name);
      else machines.set(name, each.object);
      if (is !== undefined && JSON.stringify(is) !== JSON.stringify(was)) {
        const reservation = ledger?.status?.reservations?.find(({ id }) => id === is.id);
        if (reservation?.machineUID !== uid)
          wrong(`${name} is given an order of reservation ${is.id}, which the ledger does not have for it`);
        if (is.epoch > (ledger?.status?.epoch ?? 0)) wrong(`${name} is given an order of epoch ${is.epoch}, which no term has begun`);
        if (was !== undefined && is.epoch < was.epoch) wrong(`${name} is given an order of epoch ${is.epoch} after one of ${was.epoch}`);
        if (was?.id === is.id && is.kind !== 'Cancelled') wrong(`${name} is given the order ${is.id} twice`);
        if ((ordered.get(is.id) ?? uid) !== uid) wrong(`the order ${is.id} is given to two machines`);
        ordered.set(is.id, uid);
      }
    }
    const reserved = new Set((ledger?.status?.reservations ?? []).map(({ machineUID }) => machineUID));
    const out = [...machines.values()].filter(
      ({ metadata, status }) =>
        reserved.has(metadata.uid ?? '') || (status?.nodeRef !== undefined && !isAvailable(nodes.get(metadata.name))),
    );
    if (out.length > limit) wrong(`${out.map(({ metadata }) => metadata.name).join(', ')} are unavailable or reserved at once`);
  }
  return found;
}
