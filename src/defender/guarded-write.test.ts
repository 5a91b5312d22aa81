import { describe, expect, test } from 'vitest';
import { CodedError } from '../api/errors.ts';
import { perform, type GuardedPort, type GuardedWrite, type Move, type Seen } from './guarded-write.ts';

const ledger = {
  apiVersion: '',
  kind: 'DisruptionLedger',
  metadata: { name: 'cell', uid: 'l', resourceVersion: '7', creationTimestamp: '' },
  spec: {},
};

function recorded(put: () => Promise<void> = () => Promise.resolve()): { port: GuardedPort<string>; calls: string[] } {
  const calls: string[] = [];
  const port: GuardedPort<string> = {
    async read(target) {
      calls.push(`read ${target}`);
      return await Promise.resolve({ [target]: ledger });
    },
    async put(move) {
      calls.push(`put ${move.write} ${move.object.metadata.resourceVersion}`);
      await put();
    },
    releasing: () => void calls.push('releasing'),
    run: async (effect) => {
      calls.push(`run ${effect}`);
      return await Promise.resolve({ note: 'no', refused: true });
    },
  };
  return { port, calls };
}

const act = (move: Move<string>): GuardedWrite<string> => ({
  name: 'act',
  machine: { name: 'm' },
  node: 'm',
  reads: ['node', 'machine', 'ledger'],
  writes: 'ledger',
  judge: (seen) => (seen.node === undefined || seen.machine === undefined ? { stop: 'judged too early' } : move),
});

describe('a guarded write', () => {
  test('reads in its order, judges once, and writes what it read, conditioned on it', async () => {
    const { port, calls } = recorded();
    expect(await perform(act({ write: 'ledger', object: ledger }), port)).toEqual({ done: true });
    expect(calls).toEqual(['read node', 'read machine', 'read ledger', 'put ledger 7']);
  });

  test('takes what it writes as it is known, and reads all live when that write is refused', async () => {
    let puts = 0;
    const { port, calls } = recorded(() => (++puts === 1 ? Promise.reject(new CodedError('Conflict', 'changed')) : Promise.resolve()));
    const old = { ...ledger, metadata: { ...ledger.metadata, resourceVersion: '6' } };
    const knowing: GuardedPort<string> = {
      ...port,
      known(target) {
        calls.push(`knows ${target}`);
        return { [target]: old };
      },
    };
    const written = { ...act({ effect: 'x' }), judge: (seen: Seen): Move<string> => ({ write: 'ledger', object: seen.ledger ?? ledger }) };
    expect(await perform(written, knowing)).toEqual({ done: true });
    expect(calls).toEqual([
      'read node',
      'read machine',
      'knows ledger',
      'put ledger 6',
      'read node',
      'read machine',
      'read ledger',
      'put ledger 7',
    ]);
  });

  test('reads live what is not known, and what an effect follows', async () => {
    const { port, calls } = recorded();
    await perform(act({ write: 'ledger', object: ledger }), { ...port, known: () => undefined });
    const acting = { ...act({ effect: 'x' }), writes: 'effect' as const };
    await perform(acting, { ...port, known: () => ({ ledger }) });
    expect(calls).toEqual([
      'read node',
      'read machine',
      'read ledger',
      'put ledger 7',
      'read node',
      'read machine',
      'read ledger',
      'run x',
    ]);
  });

  test('D4: records a release before it is sent, since its answer may be lost', async () => {
    const { port, calls } = recorded(() => Promise.reject(new CodedError('Unreachable', 'no answer')));
    const move = { write: 'ledger' as const, object: ledger, releases: { machine: { key: { name: 'm' }, uid: 'u' }, node: undefined } };
    await expect(perform(act(move), port)).rejects.toMatchObject({ code: 'Unreachable' });
    expect(calls.slice(-2)).toEqual(['releasing', 'put ledger 7']);
  });

  test('that loses a race has done nothing, and is no error', async () => {
    const { port } = recorded(() => Promise.reject(new CodedError('Conflict', 'changed')));
    expect(await perform(act({ write: 'ledger', object: ledger }), port)).toEqual({ done: false, why: 'the ledger changed meanwhile' });
  });

  test('that loses a race begins again at its first read, since nothing would wake it', async () => {
    let lost = 0;
    const { port, calls } = recorded(() => (lost++ < 2 ? Promise.reject(new CodedError('Conflict', 'changed')) : Promise.resolve()));
    expect(await perform(act({ write: 'ledger', object: ledger }), port)).toEqual({ done: true });
    expect(calls.filter((call) => call.startsWith('read node'))).toHaveLength(3);
    expect(calls.filter((call) => call.startsWith('put'))).toHaveLength(3);
  });

  test('writes nothing where its judgement stops it', async () => {
    const { port, calls } = recorded();
    expect(await perform(act({ stop: 'gone' }), port)).toEqual({ done: false, why: 'gone' });
    expect(calls).toHaveLength(3);
  });

  test('distinguishes an effect that was refused from one that was had', async () => {
    const { port } = recorded();
    expect(await perform(act({ effect: 'evict' }), port)).toEqual({ done: false, why: 'no', refused: true });
  });
});
