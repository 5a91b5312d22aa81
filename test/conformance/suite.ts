/* oxlint-disable vitest/valid-title -- a title is the sentence that is given */
/** Sentences that are true on a real API server and on the embedded one, with their answers side by side. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Transport } from '../../src/api/transport.ts';
import type { Json } from '../../src/api/wire.ts';
import { openCluster, type EmbeddedCluster } from '@kubenode/embedded';
import { Api, text, systemClock } from '@kubenode/embedded/testing';
import { realServer, type RealServer } from '../kubernetes/real-server.ts';
import { judge, KNOWN, stepDifferences } from './compare.ts';
import { readRecordings, writeRecordings, type Recordings } from './recording.ts';
import { Scene } from './scene.ts';

export interface SuiteOptions {
  /** Run on each server before the first sentence. */
  readonly prepare?: (api: Api) => Promise<void>;
}

export interface SentenceOptions {
  /** What it describes is done by kube-controller-manager; skipped on a real server without one. */
  readonly controllers?: boolean;
  /** Seconds. */
  readonly within?: number;
}

export type Sentence = (sentence: string, scenario: (scene: Scene) => Promise<void>, options?: SentenceOptions) => void;

async function run(
  server: 'embedded' | 'real',
  transport: Transport,
  ns: string,
  scenario: (scene: Scene) => Promise<void>,
): Promise<Json[]> {
  const scene = new Scene(server, transport, ns);
  const made = await scene.unrecorded.create('/api/v1/namespaces', { apiVersion: 'v1', kind: 'Namespace', metadata: { name: ns } });
  if (made.status !== 201) throw new Error(`${server}: namespace ${ns}: ${JSON.stringify(made.body)}`);
  try {
    await scenario(scene);
  } catch (error) {
    if (error instanceof Error) error.message = `on the ${server} server: ${error.message}`;
    throw error;
  } finally {
    scene.end();
  }
  return scene.steps;
}

/** As over HTTP, so that it may act as others. */
const administrator =
  (cluster: EmbeddedCluster): Transport =>
  (request) =>
    cluster.handle({ ...request, headers: { ...request.headers, authorization: `Bearer ${cluster.adminToken}` } });

const shown = (value: Json | undefined): string => (value === undefined ? 'absent' : JSON.stringify(value));

/** What is compared must be the same, but for the known differences, all of which must be there. */
export function expectSame(test: string, embedded: readonly Json[], reference: readonly Json[], against: string): void {
  const { unknown, stale } = judge(test, stepDifferences(embedded, reference), KNOWN);
  const lines = unknown.map(({ path, embedded: ours, real }) => {
    const step = reference[Number(path.split('.')[0])] ?? embedded[Number(path.split('.')[0])];
    const did = step !== null && typeof step === 'object' && !Array.isArray(step) ? text(step['did']) : '';
    return `${path} (${did})\n    embedded: ${shown(ours)}\n    ${against}: ${shown(real)}`;
  });
  lines.push(...stale.map((pattern) => `${pattern} is listed in known-differences.json and does not differ`));
  if (lines.length > 0) expect.fail(`${test}: the embedded server differs from the real one\n  ${lines.join('\n  ')}`);
}

/** A file of sentences. Its name names its recording, and its namespaces. */
export function conformance(file: string, options: SuiteOptions, sentences: (sentence: Sentence) => void): void {
  describe(file, () => {
    let embedded: EmbeddedCluster;
    let real: RealServer | undefined;
    const recorded: Recordings = readRecordings(file);
    const seen: Recordings = new Map();
    const faults: unknown[] = [];
    const all: string[] = [];

    beforeAll(async () => {
      embedded = await openCluster({
        name: 'embedded',
        state: 'memory',
        clock: systemClock,
        podsEndedBy: 'kubelet',
        authorization: 'RBAC',
        log: { error: (fields) => void faults.push(fields) },
      });
      real = realServer();
      await options.prepare?.(new Api(embedded.asUser()));
      if (real !== undefined) await options.prepare?.(new Api(real.transport));
    }, 60_000);

    afterAll(async () => {
      await embedded.close();
      if (real?.recording === true) {
        const kept = all.flatMap((sentence) => {
          const steps = seen.get(sentence) ?? recorded.get(sentence);
          return steps === undefined ? [] : [[sentence, steps] as const];
        });
        writeRecordings(file, new Map(kept));
      }
      await real?.transport.close();
      expect(faults).toEqual([]);
    });

    sentences((sentence, scenario, more = {}) => {
      const ns = `${file}-${all.length}`;
      all.push(sentence);
      const test = `${file}: ${sentence}`;
      it(
        sentence,
        async ({ skip }) => {
          const server = real;
          if (server !== undefined && more.controllers === true && !server.controllers) skip('there is no kube-controller-manager');
          const [ours, theirs] = await Promise.all([
            run('embedded', administrator(embedded), ns, scenario),
            server === undefined ? recorded.get(sentence) : run('real', server.transport, ns, scenario),
          ]);
          if (theirs === undefined) throw new Error(`${test} was not recorded: npm run test:kubernetes -- --record`);
          if (server?.recording === true) seen.set(sentence, theirs);
          else if (server !== undefined && JSON.stringify(recorded.get(sentence)) !== JSON.stringify(theirs)) {
            expect(theirs, `${test}: the real server answers otherwise than it was recorded: npm run test:kubernetes -- --record`).toEqual(
              recorded.get(sentence),
            );
          }
          expectSame(test, ours, theirs, server === undefined ? 'recorded' : 'real');
        },
        (more.within ?? 30) * 1000,
      );
    });

    it('every known difference names a sentence of this suite', () => {
      const named = KNOWN.flatMap(({ where }) => Object.keys(where)).filter((test) => test.startsWith(`${file}: `));
      expect(named.filter((test) => !all.includes(test.slice(file.length + 2)))).toEqual([]);
    });
  });
}
