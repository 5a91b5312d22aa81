import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { Machines } from '../api/machine.ts';
import { createClient } from '../kube/http-client.ts';
import { startReflector } from '../kube/reflector.ts';
import { fakeApiServer, jsonResponse, statusResponse } from '../kube/testing/api-server.ts';
import { fakeClock, seededRandom } from '../kube/testing/clock.ts';
import { recordingLog } from '../kube/testing/log.ts';
import { settle } from '../kube/testing/wait-for.ts';
import { kindsGate } from './kinds.ts';

let stopped: AbortController;
beforeEach(() => {
  stopped = new AbortController();
});
afterEach(() => stopped.abort(new Error('the test is over')));

const GOOD = { name: 'machines', storageVersionHash: 'cBTNh8XtDZE=' };
const NEWER = { name: 'machines', storageVersionHash: 'AAAAAAAAAAA=' };

function world(served: object | undefined) {
  const server = fakeApiServer();
  const state = { served, up: true };
  server.intercept((request) => {
    if (!state.up) return statusResponse(503, 'ServiceUnavailable', 'it starts');
    if (request.path === '/apis/kubenode.io/v1alpha1')
      return jsonResponse(200, { resources: state.served === undefined ? [] : [state.served] });
    if (request.path === '/apis/kubenode.io') return jsonResponse(200, { versions: [{ version: 'v1alpha1' }, { version: 'v1beta1' }] });
    return undefined;
  });
  const clock = fakeClock();
  const log = recordingLog();
  const troubles: (string | undefined)[] = [];
  const client = createClient(server.transport);
  const gate = kindsGate({ client, kinds: [Machines], install: 'install it', clock, log, onTrouble: (why) => troubles.push(why) });
  const discoveries = (): number => server.requests.filter(({ path }) => path === '/apis/kubenode.io/v1alpha1').length;
  return { server, state, clock, log, troubles, gate, discoveries };
}

/** Work that follows the Machines until it is ended. */
function work({ gate, clock, log }: ReturnType<typeof world>) {
  const runs = { under: 0, begun: 0 };
  const run = async (signal: AbortSignal): Promise<void> => {
    runs.under++;
    runs.begun++;
    const reflector = startReflector({ client: gate.client, resource: Machines, clock, random: seededRandom(1), log, signal });
    await reflector.done;
    runs.under--;
  };
  return { runs, run };
}

describe('controllers of a server', () => {
  test('that lacks the kinds wait, report once why and what to do, and begin when they are there', async () => {
    const { state, clock, log, troubles, gate } = world(undefined);
    const fit = gate.fit(stopped.signal);
    await clock.advance(60_000);
    expect(log.lines).toEqual([
      {
        level: 'warn',
        fields: { next: 'install it' },
        message: 'KindsAbsent: this API server does not serve machines of kubenode.io/v1alpha1',
      },
    ]);
    state.served = GOOD;
    await clock.advance(5000);
    await fit;
    expect(troubles).toEqual([expect.stringContaining('KindsAbsent'), undefined]);
    expect(log.lines.at(-1)).toMatchObject({ level: 'info' });
  });

  test('that cannot be asked wait, and report it once', async () => {
    const { state, clock, log, gate } = world(GOOD);
    state.up = false;
    const fit = gate.fit(stopped.signal);
    await clock.advance(60_000);
    expect(log.lines).toMatchObject([{ level: 'warn', message: expect.stringContaining('it starts') as string }]);
    state.up = true;
    await clock.advance(5000);
    await fit;
  });

  test('end when a definition becomes newer under them: its change ends their watch', async () => {
    const all = world(GOOD);
    const { server, state, clock, gate, troubles, discoveries } = all;
    const { runs, run } = work(all);
    const during = gate.during(stopped.signal, run);
    await settle();
    expect(runs.under).toBe(1);
    state.served = NEWER;
    await clock.advance(3000);
    expect(runs.under).toBe(1);
    server.watches.end();
    await clock.advance(1000);
    await during;
    expect(runs).toEqual({ under: 0, begun: 1 });
    expect(troubles.at(-1)).toContain('KindsNewer: machines of kubenode.io are kept in v1beta1');
    // Nor do they begin again.
    await gate.during(stopped.signal, run);
    expect(runs.begun).toBe(1);
    const asked = discoveries();
    await clock.advance(60_000);
    expect(discoveries()).toBe(asked);
  });

  test('are asked for nothing while watches end in their time', async () => {
    const all = world(GOOD);
    const { server, clock, gate, discoveries } = all;
    const { runs, run } = work(all);
    const during = gate.during(stopped.signal, run);
    await settle();
    for (let i = 0; i < 20; i++) {
      const seconds = Number(server.requests.findLast(({ query }) => query?.['watch'] !== undefined)?.query?.['timeoutSeconds']);
      for (let passed = 0; passed < seconds; passed += 30) {
        server.bookmark();
        await clock.advance(30_000);
      }
      server.watches.end();
      await settle();
    }
    expect(discoveries()).toBe(1);
    stopped.abort(new Error('stop'));
    await during;
    expect(runs.under).toBe(0);
  });

  test('go on through an outage, and check again when the server is back', async () => {
    const all = world(GOOD);
    const { server, state, clock, gate } = all;
    const { runs, run } = work(all);
    const ended = new AbortController();
    const during = gate.during(ended.signal, run);
    await clock.advance(5000);
    state.up = false;
    server.watches.reset();
    await clock.advance(60_000);
    expect(runs.under).toBe(1);
    state.up = true;
    state.served = NEWER;
    await clock.advance(40_000);
    await during;
    expect(runs.under).toBe(0);
  });
});
