import { describe, expect, test } from 'vitest';
import { API_VERSION } from '../../api/kind.ts';
import { Machines, type Machine } from '../../api/machine.ts';
import type { Stored } from '../../api/wire.ts';
import { createOverlay } from './overlay.ts';
import { modelApi } from './testing/api.ts';

const key = { namespace: 'web', name: 'a' };
const { signal } = new AbortController();

/** A store that shows what it was last delivered, and the API server, which counts reads. */
function world() {
  const api = modelApi(() => Date.UTC(2026, 10, 21));
  api.create(Machines, { apiVersion: API_VERSION, kind: 'Machine', metadata: key, spec: {} });
  const reader = api.reader();
  const store = reader.store(Machines);
  const overlay = createOverlay(store);
  const reads: string[] = [];
  /** What happens during the next read. */
  const during: { next: (() => void) | undefined } = { next: undefined };
  const real = api.client(
    () => 'none',
    () => undefined,
  );
  const client: typeof real = {
    ...real,
    async find(resource, at, options) {
      reads.push(at.name);
      const { next } = during;
      during.next = undefined;
      next?.();
      return await real.find(resource, at, options);
    },
  };
  const label = (value: string): void => api.edit(Machines, key, (each) => void (each.metadata.labels = { value }));
  const shown = (): (string | undefined)[] => overlay.over(store.list()).map(({ metadata }) => metadata.labels?.['value']);
  const got = (): string | undefined => overlay.get(key)?.metadata.labels?.['value'];
  const settle = (): Promise<void> => overlay.settle(client, signal);
  const answer = (): Stored<Machine> => {
    const found = api.find(Machines, key);
    if (found === undefined) throw new Error('it is gone');
    return found;
  };
  return { api, reader, overlay, reads, during, label, shown, got, settle, answer };
}

describe('what is known better than by the store', () => {
  test('is what the server answered, until the store has passed it', () => {
    const { overlay, reader, label, shown, got, answer } = world();
    label('mine');
    expect([shown(), got()]).toEqual([[undefined], undefined]);
    overlay.put(answer());
    expect([shown(), got()]).toEqual([['mine'], 'mine']);
    label('later');
    expect([shown(), got()]).toEqual([['mine'], 'mine']);
    reader.deliver(9);
    expect([shown(), got()]).toEqual([['later'], 'later']);
  });

  test('is what was read because of a doubt, once', async () => {
    const { overlay, reads, label, shown, settle } = world();
    await settle();
    expect(reads).toEqual([]);
    label('theirs');
    overlay.doubt(key);
    await settle();
    expect([shown(), reads]).toEqual([['theirs'], ['a']]);
    await settle();
    expect(reads).toEqual(['a']);
  });

  test('is in doubt still where the read failed, or the doubt came up during it', async () => {
    const { overlay, reads, during, shown, settle, label } = world();
    overlay.doubt(key);
    during.next = () => {
      throw new Error('no answer');
    };
    await expect(settle()).rejects.toThrow('no answer');
    during.next = () => overlay.doubt(key);
    await settle();
    expect(reads).toEqual(['a', 'a', 'a']);
    label('later');
    await settle();
    expect([shown(), reads.length]).toEqual([[undefined], 3]);
  });

  test('is that there is none, until another has the name', async () => {
    const { api, overlay, reader, shown, got, settle, label } = world();
    label('first');
    reader.deliver(9);
    api.remove(Machines, key);
    overlay.doubt(key);
    expect([shown(), got()]).toEqual([['first'], 'first']);
    await settle();
    expect([shown(), got()]).toEqual([[], undefined]);
    api.create(Machines, { apiVersion: API_VERSION, kind: 'Machine', metadata: { ...key, labels: { value: 'second' } }, spec: {} });
    expect([shown(), got()]).toEqual([[], undefined]);
    reader.deliver(9);
    expect([shown(), got()]).toEqual([['second'], 'second']);
  });
});
