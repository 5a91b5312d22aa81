/** What really happened on a server, by a watcher that nothing disturbs, and what another one may report of it. */
import type { Resource } from '../../src/api/resource.ts';
import { keyOf } from '../../src/api/resource.ts';
import type { KubeObject, Stored } from '../../src/api/wire.ts';
import { isExpired } from '../../src/kube/api-error.ts';
import type { Client } from '../../src/kube/client.ts';
import { compareVersions } from '../../src/kube/resource-version.ts';
import type { Reflector } from '../../src/kube/reflector.ts';
import { setTimeout as delay } from 'node:timers/promises';

/** `uid@resourceVersion`, and `-uid@resourceVersion` for a deletion. */
export type Step = string;
export type History = Map<string, Step[]>;

function add(history: History, object: Stored<KubeObject>, gone: boolean): void {
  const { uid, resourceVersion } = object.metadata;
  const key = keyOf(object.metadata);
  const steps = history.get(key) ?? [];
  history.set(key, [...steps, `${gone ? '-' : ''}${uid}@${resourceVersion}`]);
}

export interface Truth {
  readonly history: History;
  /** Every object in every state, by `uid@resourceVersion`. */
  readonly states: Map<string, string>;
  /** Times the server was away so long that what happened meanwhile was not seen. */
  readonly gaps: number;
  /** Resolves when it has seen this version or a later one. */
  reached(version: string): Promise<void>;
}

/** Everything but what the server itself may report in several ways. */
export function contentOf(object: KubeObject): string {
  const { managedFields: _, ...metadata } = object.metadata;
  return JSON.stringify(sorted({ ...object, metadata }));
}

/** An item of a list is given its kind last, one of a watch has it first. */
function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, member]) => [key, sorted(member)]),
  );
}

/** Watches straight from the server: no store, no backoff, nothing that is tested. It starts with what is there. */
export async function watchTruth<T extends KubeObject>(
  client: Client,
  resource: Resource<T>,
  namespace: string,
  signal: AbortSignal,
): Promise<Truth> {
  const history: History = new Map();
  const states = new Map<string, string>();
  let version = '';
  let gaps = 0;
  const take = (object: Stored<T>, gone: boolean): void => {
    add(history, object, gone);
    states.set(`${object.metadata.uid}@${object.metadata.resourceVersion}`, contentOf(object));
  };
  const known = (): Map<string, string> => {
    const last = [...history].map(([key, steps]) => [key, steps.at(-1) ?? ''] as const);
    return new Map(last.filter(([, step]) => !step.startsWith('-')));
  };
  const list = async (): Promise<void> => {
    const { items, metadata } = await client.list(resource, { namespace, signal });
    const before = known();
    for (const item of items) {
      if (before.get(keyOf(item.metadata)) !== `${item.metadata.uid}@${item.metadata.resourceVersion}`) take(item, false);
      before.delete(keyOf(item.metadata));
    }
    // Deleted in the gap, at a version that no client saw.
    for (const [key, step] of before) history.get(key)?.push(`-${step}`);
    version = metadata.resourceVersion;
  };
  await list();
  void (async () => {
    while (!signal.aborted) {
      try {
        for await (const event of client.watch(resource, { namespace, resourceVersion: version, signal })) {
          version = event.object.metadata.resourceVersion;
          if (event.type !== 'BOOKMARK') take(event.object, event.type === 'DELETED');
        }
      } catch (error) {
        if (isExpired(error)) {
          gaps++;
          await list().catch(() => undefined);
        }
      }
      await delay(10);
    }
  })();
  return {
    history,
    states,
    get gaps() {
      return gaps;
    },
    async reached(wanted) {
      const deadline = performance.now() + 20_000;
      while ((compareVersions(version, wanted) ?? -1) < 0) {
        if (performance.now() > deadline) throw new Error(`the undisturbed watcher is at ${version} and does not reach ${wanted}`);
        await delay(5);
      }
    },
  };
}

export interface Reported {
  readonly history: History;
  readonly states: Map<string, string>;
  /** Lists completed. */
  readonly lists: number;
}

/** Writes down what a reflector reports, from the moment it is started on. */
export function record(reflector: Reflector<KubeObject>): Reported {
  const history: History = new Map();
  const states = new Map<string, string>();
  let lists = 0;
  reflector.subscribe((event) => {
    if (event.type === 'listed') lists++;
    if (event.type === 'listed' || event.type === 'bookmark') return;
    add(history, event.object, event.type === 'deleted');
    const id = `${event.object.metadata.uid}@${event.object.metadata.resourceVersion}`;
    states.set(id, contentOf(event.object));
  });
  return {
    history,
    states,
    get lists() {
      return lists;
    },
  };
}

const uidOf = (step: Step): string => /^-?([^@]+)@/.exec(step)?.[1] ?? '';

/**
 * What a history reports that never happened, or reports in another order, or twice; empty when there is nothing. A list may pass over states
 * in between, and then reports a deletion with the last state it knew.
 */
export function inventions(reported: Reported, truth: Pick<Truth, 'history' | 'states'>): string[] {
  const wrong: string[] = [];
  for (const [key, steps] of reported.history) {
    const real = truth.history.get(key) ?? [];
    let at = -1;
    for (const step of steps) {
      const found = step.startsWith('-')
        ? real.findIndex((each, i) => i > at && each.startsWith('-') && uidOf(each) === uidOf(step))
        : real.indexOf(step, at + 1);
      if (found < 0) wrong.push(`${key}: ${step} after ${at < 0 ? 'nothing' : String(real[at])}, where there was ${real.join(' ')}`);
      else at = found;
    }
  }
  for (const [id, content] of reported.states) {
    const real = truth.states.get(id);
    if (real !== undefined && real !== content) wrong.push(`${id} is reported as ${content} and was ${real}`);
  }
  return wrong;
}
