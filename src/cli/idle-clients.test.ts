import { connect } from 'node:net';
import { expect, test } from 'vitest';
import { makeAuthority, makeServerCertificate } from '@kubenode/embedded/pki';
import { recordingLog } from '../kube/testing/log.ts';
import { serveHealth } from './health.ts';
import { serveMetrics } from './metrics-server.ts';
import { scrape } from './testing/scrape.ts';

/** A client that connects, sends this and then nothing: resolves when the server has ended it. */
function openIdle(port: number, text = ''): Promise<void> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => socket.write(text));
    socket.on('error', () => undefined).on('close', () => resolve());
    socket.resume();
  });
}

test('clients that never begin TLS do not lock /metrics', { timeout: 20_000 }, async () => {
  const making = { now: Date.now(), random: Math.random };
  const identity = await makeServerCertificate(await makeAuthority('test', making), making);
  const mayRead = () => Promise.resolve('Granted' as const);
  const log = recordingLog();
  const server = await serveMetrics({ listen: '127.0.0.1:0', identity, mayRead, text: () => 'kubenode_leader 1\n', log });
  await Promise.all(Array.from({ length: 64 }, () => openIdle(server.port)));
  expect((await scrape(server, 'token')).status).toBe(200);
  await server.close();
});

test('clients that never finish asking for /healthz are ended', { timeout: 20_000 }, async () => {
  const server = await serveHealth({ dead: () => undefined, unready: () => Promise.resolve(undefined) }, '127.0.0.1:0');
  const begun = Array.from({ length: 50 }, (_, index) =>
    openIdle(server.port, index % 2 === 0 ? '' : 'GET /healthz HTTP/1.1\r\nHost: x\r\nX: '),
  );
  await Promise.all(begun);
  expect((await fetch(`http://127.0.0.1:${server.port}/healthz`)).status).toBe(200);
  await server.close();
});
