import { CodedError, messageOf } from '../../api/errors.ts';
import { plainText } from '../../api/plain-text.ts';
import { EXIT } from '../exit.ts';
import { table, type Output } from '../output.ts';
import type { ImportHost } from './hosts.ts';
import { importOne, type Imported, type ImportPorts, type ImportWish, type ImportStep } from './import-one.ts';

/** What came of one machine. */
export interface ImportResult {
  host: string;
  state: 'Imported' | 'Unchanged' | 'Ready' | 'Pending' | 'Failed';
  machine?: string;
  phase?: string;
  did?: ImportStep[];
  seconds: number;
  reason?: string;
  message?: string;
  next?: string;
}

const DOING: Record<ImportStep, string> = {
  inspect: 'is inspected',
  machine: 'gets its Machine',
  transfer: 'takes the archive',
  install: 'installs the agent',
  admit: 'gets its bootstrap',
  start: 'starts the agent',
  join: 'is waited for',
};

export interface ImportAll {
  hosts: readonly ImportHost[];
  wishOf: (host: ImportHost) => Promise<ImportWish>;
  ports: ImportPorts;
  /** Side by side. */
  parallel: number;
  output: Output;
  noProgress: boolean;
}

/** Imports all, so many at a time. One that fails keeps no other from being imported. */
export async function importAll({ hosts, wishOf, ports, parallel, output, noProgress }: ImportAll): Promise<ImportResult[]> {
  const results: ImportResult[] = [];
  const waiting = [...hosts.entries()];
  const { clock, signal } = ports;

  async function one(host: ImportHost): Promise<ImportResult> {
    const begun = clock.monotonic();
    const at = host.port === 22 ? host.host : `${host.host}:${host.port}`;
    const seconds = (): number => Math.round((clock.monotonic() - begun) / 100) / 10;
    const onStep = (step: ImportStep): void => {
      if (!noProgress) output.report('doing', `${at} ${DOING[step]}`);
    };
    try {
      const wish = await wishOf(host);
      const done = await importOne(wish, ports, onStep);
      const result: ImportResult = { host: at, ...stateOf(done), machine: `${wish.pool}/${done.name}`, did: done.did, seconds: seconds() };
      if (!noProgress)
        output.report(
          'done',
          `${at} ${wish.dryRun ? 'can be imported' : 'is'} machine/${done.name}${wish.dryRun ? '' : ` (${result.phase ?? ''})`}`,
        );
      return result;
    } catch (error) {
      const reason = error instanceof CodedError ? error.code : 'Failed';
      const next = error instanceof CodedError ? error.next : undefined;
      const message = plainText(messageOf(error));
      const state = reason === 'NotJoined' ? 'Pending' : 'Failed';
      if (!noProgress)
        output.report(state === 'Failed' ? 'failed' : 'waiting', `${at}: ${message}${next === undefined ? '' : `\n  next: ${next}`}`);
      return { host: at, state, seconds: seconds(), reason, message, ...(next === undefined ? {} : { next }) };
    }
  }

  async function work(): Promise<void> {
    for (let next = waiting.shift(); next !== undefined && !signal.aborted; next = waiting.shift()) {
      const [index, host] = next;
      results[index] = await one(host);
    }
  }
  await Promise.all(Array.from({ length: Math.min(parallel, hosts.length) }, work));
  signal.throwIfAborted();
  return results;
}

function stateOf({ machine, did }: Imported): Pick<ImportResult, 'state' | 'phase'> {
  if (machine === undefined) return { state: 'Ready' };
  const phase = machine.status?.phase;
  return { state: did.length === 0 ? 'Unchanged' : 'Imported', ...(phase === undefined ? {} : { phase }) };
}

/** A failure outweighs what is only pending. */
export function exitCodeOf(results: readonly ImportResult[]): number {
  if (results.some(({ state }) => state === 'Failed')) return EXIT.failed;
  return results.some(({ state }) => state === 'Pending') ? EXIT.pending : EXIT.ok;
}

export const tableOf = (results: readonly ImportResult[]): string =>
  table(
    ['HOST', 'STATE', 'MACHINE', 'PHASE', 'REASON', 'SECONDS'],
    results.map(({ host, state, machine = '-', phase = '-', reason = '-', seconds }) => [
      host,
      state,
      machine,
      phase,
      reason,
      String(seconds),
    ]),
  );
