/** A set of machines whose number Git gives, or leaves to others, and that people scale in its cell (docs/protocols.md#c8e). On any API server. */
import { expect } from 'vitest';
import { unitDigest } from '../../src/api/digest.ts';
import { API_VERSION } from '../../src/api/kind.ts';
import { Machines, type Machine } from '../../src/api/machine.ts';
import { MachineSets } from '../../src/api/machine-set.ts';
import type { KubeObject, Stored } from '../../src/api/wire.ts';
import { hasReason } from '../../src/kube/api-error.ts';
import { findCondition } from '../../src/kube/conditions.ts';
import type { Client } from '../../src/kube/client.ts';
import { waitFor } from '../../src/kube/testing/wait-for.ts';
import { applyUnit, removeUnit } from '../../src/sync/apply-unit.ts';

const LATE = { deadlineMs: 30_000 };
const unlessOther = (error: unknown): undefined => {
  if (!hasReason(error, 'NotFound', 'Conflict')) throw error;
};
const NAME = 'by-hand';

export interface ScaledSet {
  /** What a commit gives; undefined: it leaves `replicas` out. */
  commit(replicas: number | undefined): Promise<void>;
  /** A pass of a hub whose commit has no such set; false: it is gone. */
  remove(): Promise<boolean>;
  /** By subresource `scale`, as `kubectl scale` does. */
  scale(replicas: number, manager?: string): Promise<void>;
  /** Other changes, as `kubectl patch` and `kubectl label` make them. */
  patch(merge: object): Promise<void>;
  /** Once the controller has reported on this spec: `True/NotByCommit message`. */
  condition(type: string): Promise<string>;
  alive(): Promise<Stored<Machine>[]>;
  /** How many of these are to go. */
  marked(): Promise<number>;
  /** Waits for so many machines; what bears a mark is deleted, as the machine controller does once it is drained. */
  becomes(count: number, meanwhile?: () => Promise<unknown>): Promise<void>;
  /** Waits until the controller has reported that nothing goes since the number is not by a commit; nothing bears a mark then. */
  stays(count: number, words: string): Promise<void>;
}

/** `client`: of the administrator. The machine set controller runs there, with term 1 and a provider `fake`. */
export function scaledSet(client: Client, namespace: string): ScaledSet {
  const key = { namespace, name: NAME };
  const { signal } = new AbortController();
  const target = { client, resourceOf: () => Promise.resolve(MachineSets) };
  const confirm = () => Promise.resolve({});
  let inventory: Awaited<ReturnType<typeof applyUnit>>['inventory'] = [];

  const set: ScaledSet = {
    async commit(replicas) {
      const spec = { provider: { name: 'fake' }, maxRetiring: '100%', ...(replicas === undefined ? {} : { replicas }) };
      const object: KubeObject & { spec: object } = { apiVersion: API_VERSION, kind: 'MachineSet', metadata: key, spec };
      const unit = { key: `MachineSet/${namespace}/${NAME}`, objects: [object], origins: ['fleet/main.ts:1'] };
      const stamp = { digest: unitDigest([object]), fleet: 'main', lane: 'Forward' as const };
      // The hub writes over nothing that it did not read: where the status was written meanwhile it tries again.
      const applied = () => applyUnit(target, unit, stamp, confirm, signal).catch(unlessOther);
      ({ inventory } = await waitFor(applied, LATE));
    },
    async remove() {
      const { left } = await removeUnit(target, inventory, 'main', () => Promise.resolve(), signal);
      return left.length > 0;
    },
    async scale(replicas, manager = 'kubectl') {
      await client.request({
        method: 'PATCH',
        path: `/apis/${API_VERSION}/namespaces/${namespace}/machinesets/${NAME}/scale`,
        query: { fieldManager: manager },
        headers: { 'content-type': 'application/merge-patch+json' },
        body: JSON.stringify({ spec: { replicas } }),
      });
    },
    async patch(merge) {
      await client.patch(MachineSets, key, { merge }, { fieldManager: 'kubectl-patch' });
    },
    async condition(type) {
      const { metadata, status } = await waitFor(async () => {
        const found = await client.get(MachineSets, key);
        return found.status?.observedGeneration === found.metadata.generation && found;
      }, LATE);
      expect(status?.observedGeneration).toBe(metadata.generation);
      const found = findCondition(status?.conditions, type);
      return `${found?.status}/${found?.reason} ${found?.message}`;
    },
    async alive() {
      const { items } = await client.listAll(Machines, { namespace, labelSelector: `kubenode.io/machine-set=${NAME}` });
      return items.filter(({ metadata }) => metadata.deletionTimestamp === undefined);
    },
    async marked() {
      return (await set.alive()).filter(({ spec }) => spec.retire?.epoch === 1).length;
    },
    async becomes(count, meanwhile) {
      await waitFor(
        async () => {
          await meanwhile?.();
          for (const { metadata, spec } of await set.alive())
            if (spec.retire?.epoch === 1) await client.delete(Machines, metadata, { uid: metadata.uid }).catch(unlessOther);
          return (await set.alive()).length === count;
        },
        { ...LATE, what: `${count} machines` },
      );
    },
    async stays(count, words) {
      const isReported = async (): Promise<boolean> => {
        const text = await set.condition('ScaleDownBlocked');
        return text.startsWith('True/NotByCommit ') && text.includes(words);
      };
      await waitFor(isReported, { ...LATE, what: `ScaleDownBlocked, NotByCommit: ${words}` });
      const alive = await set.alive();
      expect(alive).toHaveLength(count);
      expect(alive.filter(({ spec }) => spec.retire !== undefined)).toEqual([]);
    },
  };
  return set;
}

/** Each step on an API server. */
export const CASES: readonly (readonly [name: string, run: (set: ScaledSet) => Promise<void>])[] = [
  [
    'kubectl scale lets no machine go, to one or to none, and the next commit counts at once',
    async (set) => {
      await set.commit(5);
      await set.becomes(5);
      await set.scale(1);
      await set.stays(5, 'spec.replicas is 1, set by kubectl');
      expect(await set.condition('Progressing')).toContain('False/ScaleDownBlocked spec.replicas is 1');
      await set.scale(0);
      await set.stays(5, 'spec.replicas is 0');
      await set.commit(4);
      await set.becomes(4);
      expect(await set.condition('ScaleDownBlocked')).toBe('False/NotBlocked ');
    },
  ],
  [
    'a commit of the very number that a person set counts as the commit, and taking it back too',
    async (set) => {
      await set.commit(4);
      await set.becomes(4);
      await set.scale(2);
      await set.stays(4, 'kubectl');
      await set.commit(2);
      await set.becomes(2);
      await set.scale(0);
      await set.stays(2, 'spec.replicas is 0');
      await set.commit(0);
      await set.becomes(0);
      await set.commit(3);
      await set.becomes(3);
    },
  ],
  [
    'a machine that a commit lets go stays when a person changes the number meanwhile',
    async (set) => {
      await set.commit(3);
      await set.becomes(3);
      await set.commit(2);
      await waitFor(async () => (await set.marked()) === 1, LATE);
      await set.scale(1);
      await waitFor(async () => (await set.marked()) === 0, LATE);
      await set.stays(3, 'spec.replicas is 1');
    },
  ],
  [
    'what people make larger grows, and goes back to the number of Git alone',
    async (set) => {
      await set.commit(2);
      await set.becomes(2);
      await set.scale(4);
      await set.becomes(4);
      await set.scale(3);
      await set.stays(4, 'spec.replicas is 3');
      await set.commit(2);
      await set.becomes(2);
    },
  ],
  [
    'where Git leaves replicas out others scale it both ways, until a commit gives a number again',
    async (set) => {
      await set.commit(undefined);
      await set.scale(4, 'an-autoscaler');
      await set.becomes(4);
      await set.scale(2, 'an-autoscaler');
      await set.becomes(2);
      await set.commit(3);
      await set.becomes(3);
      await set.scale(1, 'an-autoscaler');
      await set.stays(3, 'an-autoscaler');
      // The set keeps what it has: only what is set from now on counts.
      await set.commit(undefined);
      expect(await set.condition('ScaleDownBlocked')).toBe('False/NotBlocked ');
      expect(await set.marked()).toBe(0);
      await set.becomes(3);
      await set.scale(1, 'an-autoscaler');
      await set.becomes(1);
    },
  ],
  [
    'a removal that a commit takes back lets no machine go, also where that commit leaves replicas out',
    async (set) => {
      await set.commit(undefined);
      await set.scale(4, 'an-autoscaler');
      await set.becomes(4);
      for (const before of [undefined, 4]) {
        await set.commit(before);
        // Passes go on, since each may meet another writer.
        await waitFor(async () => (await set.remove()) && (await set.marked()) === 4, LATE);
        await set.commit(undefined);
        await waitFor(async () => (await set.marked()) === 0, LATE);
        expect(await set.condition('ScaleDownBlocked')).toBe('False/NotBlocked ');
        await set.becomes(4);
      }
    },
  ],
  [
    'no user can make it seem that Git leaves replicas out',
    async (set) => {
      await set.commit(3);
      await set.becomes(3);
      await set.patch({ metadata: { annotations: { 'kubenode.io/scaled-by': 'others' } } });
      await set.patch({ spec: { replicas: 1 } });
      await set.stays(3, 'set by kubectl-patch');
    },
  ],
  [
    'a set that loses its label in the same write as its number keeps its machines; without Git it is scaled by hand when that is declared',
    async (set) => {
      await set.commit(3);
      await set.becomes(3);
      await set.patch({ metadata: { labels: { 'kubenode.io/fleet': null } }, spec: { replicas: 1 } });
      await set.stays(3, 'kubenode.io/scaled-by=others');
      await set.patch({ metadata: { annotations: { 'kubenode.io/scaled-by': 'others' } } });
      await set.becomes(1);
    },
  ],
  [
    'a set that a commit deletes is emptied though a person had set its number to 0',
    async (set) => {
      await set.commit(2);
      await set.becomes(2);
      await set.scale(0);
      await set.stays(2, 'spec.replicas is 0');
      // Passes go on: the number of others is taken out by one, 0 is written by another, and each may meet another writer.
      await set.becomes(0, () => set.remove());
      await waitFor(async () => !(await set.remove()), LATE);
    },
  ],
];
