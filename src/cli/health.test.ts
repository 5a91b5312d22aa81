import { afterEach, describe, expect, test } from 'vitest';
import { createMetrics } from '../kube/metrics.ts';
import { fakeClock } from '../kube/testing/clock.ts';
import { createHealth, serveHealth } from './health.ts';
import type { ListeningServer } from './listen.ts';

const open: ListeningServer[] = [];
afterEach(async () => {
  for (const health of open.splice(0)) await health.close();
});

async function serve(reach: () => Promise<unknown> = () => Promise.resolve()) {
  const clock = fakeClock(Date.now());
  const health = createHealth({ role: 'cell', version: '1.2.3', clock, reach, metrics: createMetrics() });
  const listening = await serveHealth(health, '127.0.0.1:0');
  open.push(listening);
  const { port } = listening;
  const get = async (path: string) => {
    const answer = await fetch(`http://127.0.0.1:${port}${path}`);
    return { status: answer.status, text: await answer.text() };
  };
  return { clock, health, get, port };
}

describe('a controller that is asked how it is', () => {
  test('is live and ready while it waits for its turn, and leads nothing', async () => {
    const { get, health } = await serve();
    expect(await get('/healthz')).toEqual({ status: 200, text: 'ok\n' });
    expect(await get('/readyz')).toEqual({ status: 200, text: 'ok\n' });
    expect(health.metrics()).toContain('kubenode_leader{role="cell"} 0\n');
  });

  test('is not ready while the API server does not answer it, and reports why', async () => {
    let up = false;
    const { clock, get } = await serve(() => (up ? Promise.resolve() : Promise.reject(new Error('connection refused'))));
    expect(await get('/readyz')).toEqual({ status: 503, text: 'the API server is not reached: connection refused\n' });
    up = true;
    expect((await get('/readyz')).status).toBe(200);
    up = false;
    expect((await get('/readyz')).status).toBe(200);
    await clock.advance(5000);
    expect((await get('/readyz')).status).toBe(503);
  });

  test('is not ready where it may do nothing, and reports why', async () => {
    const { health, get } = await serve();
    health.blocked('KindsAbsent: there are no kinds');
    expect(await get('/readyz')).toEqual({ status: 503, text: 'KindsAbsent: there are no kinds\n' });
    expect((await get('/healthz')).status).toBe(200);
    expect(health.metrics()).toContain('kubenode_blocked{role="cell"} 1\n');
    health.blocked(undefined);
    expect((await get('/readyz')).status).toBe(200);
  });

  test('is to be restarted when the work of a term does not end with it', async () => {
    const { clock, health, get } = await serve();
    const term = new AbortController();
    const work = Promise.withResolvers<void>();
    const led = health.lead(term.signal, () => work.promise);
    expect(health.metrics()).toMatch(/kubenode_leader\{role="cell"\} 1\n[^]*kubenode_leader_terms_total\{role="cell"\} 1\n/);
    await clock.advance(3_600_000);
    expect((await get('/healthz')).status).toBe(200);
    term.abort();
    await clock.advance(60_000);
    expect((await get('/healthz')).status).toBe(200);
    await clock.advance(1);
    expect(await get('/healthz')).toEqual({ status: 503, text: 'the work of a term that is over does not end\n' });
    work.resolve();
    await led;
    expect((await get('/healthz')).status).toBe(200);
    expect(health.metrics()).toContain('kubenode_leader{role="cell"} 0\n');
  });

  test('answers nothing else', async () => {
    const { get, port } = await serve();
    expect((await get('/debug')).status).toBe(404);
    // Numbers of a fleet are for who may read them: `--metrics`.
    expect((await get('/metrics')).status).toBe(404);
    expect((await fetch(`http://127.0.0.1:${port}/healthz`, { method: 'POST' })).status).toBe(405);
  });
});

const able = { dead: () => undefined, unready: () => Promise.resolve(undefined) };

test.each(['8080', 'host', ':70000', 'http://x:1', 'a:b:1'])('`--health %s` is refused', async (listen) => {
  await expect(serveHealth(able, listen)).rejects.toMatchObject({ code: 'Usage' });
});

test('a port that is in use is reported', async () => {
  const { port } = await serve();
  await expect(serveHealth(able, `127.0.0.1:${port}`)).rejects.toMatchObject({ code: 'ListenFailed' });
});
