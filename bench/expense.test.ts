import { expect, it } from 'vitest';
import type { Transport } from '../src/api/transport.ts';
import { counting, cpuMsOf, metricsOf } from './expense.ts';

const METRICS = `# HELP apiserver_request_total Counter of requests.
# TYPE apiserver_request_total counter
apiserver_request_total{code="200",resource="machines",verb="PATCH"} 40
apiserver_request_total{code="409",resource="machines",verb="PATCH"} 2
apiserver_request_total_other{code="200"} 1000
apiserver_request_total{code="200",resource="leases",verb="PUT"} 1.5e+02
process_open_fds 31
`;

const answering =
  (text: string, status = 200): Transport =>
  async () => ({
    status,
    headers: {},
    body: (async function* () {
      yield Buffer.from(text);
    })(),
  });

it('adds up a metric over all labels, or over those that contain the requested text', async () => {
  const metric = await metricsOf(answering(METRICS));
  expect(metric('apiserver_request_total')).toBe(192);
  expect(metric('apiserver_request_total', 'verb="PATCH"')).toBe(42);
  expect(metric('apiserver_request_total', 'verb="PATCH"', 'code="409"')).toBe(2);
  expect(metric('process_open_fds')).toBe(31);
});

it('does not take a refusal for metrics', async () => {
  await expect(metricsOf(answering('no', 403))).rejects.toThrow('GET /metrics: 403 no');
});

it('counts requests, also those that fail', async () => {
  const asked = counting(async () => {
    throw new Error('refused');
  });
  await expect(asked({ method: 'GET', path: '/' })).rejects.toThrow('refused');
  await expect(asked({ method: 'GET', path: '/' })).rejects.toThrow('refused');
  expect(asked.count).toBe(2);
});

it('measures the processor time of a process as it measures its own', async () => {
  const { user, system } = process.cpuUsage();
  const measured = await cpuMsOf(process.pid);
  const after = process.cpuUsage();
  // In hundredths of a second, user and system time each rounded down.
  expect(measured).toBeGreaterThanOrEqual((user + system) / 1000 - 20);
  expect(measured).toBeLessThanOrEqual((after.user + after.system) / 1000 + 20);
});

it('has no figures of a process that is gone', async () => {
  await expect(cpuMsOf(2 ** 30)).rejects.toThrow(/ENOENT|Command failed/);
});
