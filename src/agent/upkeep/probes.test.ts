import { expect, test } from 'vitest';
import { fakeClock } from '../../kube/testing/clock.ts';
import type { ProbeSpec } from '../generation/spec.ts';
import type { ServiceStatus } from '../ports/units.ts';
import { startProbes } from './probes.ts';
import type { ProbeMode } from './probes.ts';
import { manifestOf } from '../testing/manifest.ts';

const probe = (rest: Partial<ProbeSpec>): ProbeSpec => ({ name: 'p', timeoutSeconds: 3, periodSeconds: 2, successThreshold: 1, ...rest });

/** A component with one unit, `app`, and what it answers. */
function world(probes: ProbeSpec[], mode: ProbeMode, units = ['app']) {
  const clock = fakeClock();
  const app: ServiceStatus = { name: 'app', running: true, invocation: 'i1', hash: 'h', generation: 'g' };
  const answers = { status: 200, exec: true, hangs: false, output: 'because' };
  const asked = { http: 0, exec: 0 };
  const manifest = manifestOf({
    digest: 'd',
    name: 'app',
    version: '1',
    units: units.map((name) => ({ name, exec: ['x'], environment: {}, stopTimeoutSeconds: 1, reload: 'None', hash: 'h' })),
    probes,
    healthDeadlineSeconds: 60,
  });
  const probing = startProbes(
    manifest,
    mode,
    new Map([['app', 'i1']]),
    {
      clock,
      root: '/node',
      units: {
        list: () => Promise.resolve([app]),
        start: () => Promise.reject(new Error('not asked')),
        stop: () => Promise.resolve(),
        reload: () => Promise.resolve(),
        onExit: () => () => undefined,
      },
      network: {
        download: () => Promise.reject(new Error('not asked')),
        status(_url, signal) {
          asked.http++;
          if (!answers.hangs) return Promise.resolve(answers.status);
          return new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error)));
        },
      },
      runner() {
        asked.exec++;
        return Promise.resolve({ ok: answers.exec, how: 'exit code 1', output: answers.output });
      },
    },
    () => undefined,
  );
  return { app, answers, asked, clock, probing };
}

const http = probe({ url: 'http://127.0.0.1/' });
const exec = probe({ exec: ['check'] });
const named = probe({ unit: 'app' });

test('a program asks a unit that was just started a moment later, and at once where there is none', async () => {
  const started = world([exec, { ...named, name: 'n' }], 'switch');
  await started.clock.advance(500);
  expect(started.asked.exec).toBe(0);
  await started.clock.advance(500);
  expect(started.asked.exec).toBe(1);
  const files = world([exec], 'switch', []);
  await files.clock.advance(1);
  expect(files.probing.view().passed).toBe(true);
});

test('a probe passes when it succeeded as often in a row as it must', async () => {
  const { answers, clock, probing } = world([probe({ url: 'http://127.0.0.1/', successThreshold: 3 })], 'switch', []);
  await clock.advance(3_000);
  expect(probing.view().passed).toBe(false);
  answers.status = 503;
  await clock.advance(2_000);
  expect(probing.view()).toMatchObject({ passed: false, message: 'probe p: http://127.0.0.1/ answered 503' });
  answers.status = 204;
  await clock.advance(4_000);
  expect(probing.view().passed).toBe(false);
  await clock.advance(2_000);
  expect(probing.view()).toMatchObject({ passed: true, message: undefined });
  probing.stop();
});

test('an answer that does not come in time is none', async () => {
  const { answers, clock, probing } = world([http], 'switch', []);
  answers.hangs = true;
  await clock.advance(3_000);
  expect(probing.view().message).toBe('probe p: no answer within 3 s');
  probing.stop();
});

test('the output of a program shows why it failed', async () => {
  const { answers, clock, probing } = world([exec], 'switch', []);
  answers.exec = false;
  await clock.advance(0);
  expect(probing.view().message).toBe('probe p: exit code 1: because');
  probing.stop();
});

test('a unit must have run for a while', async () => {
  const { clock, probing } = world([named], 'switch');
  await clock.advance(1_999);
  expect(probing.view().passed).toBe(false);
  await clock.advance(1);
  expect(probing.view().passed).toBe(true);
  probing.stop();
});

test('a unit that a probe names must not have ended since the switch, however well it runs again', async () => {
  const { app, clock, probing } = world([named], 'switch');
  app.invocation = 'i2';
  await clock.advance(2_000);
  expect(probing.view()).toMatchObject({
    passed: false,
    hopeless: true,
    message: 'probe p: it ended since the switch and was started again',
  });
  probing.stop();
});

test('a unit that no probe names must stay up, but may need several starts until it does', async () => {
  const { app, clock, probing } = world([], 'switch');
  app.running = false;
  app.exit = 'exit code 1';
  await clock.advance(2_000);
  expect(probing.view()).toMatchObject({ passed: false, hopeless: false, message: 'probe unit app: it does not run (exit code 1)' });
  app.running = true;
  app.invocation = 'i2';
  await clock.advance(2_000);
  expect(probing.view().passed).toBe(false);
  await clock.advance(2_000);
  expect(probing.view().passed).toBe(true);
  probing.stop();
});

test('afterwards it is asked less often, and three failures in a row count', async () => {
  const { answers, asked, clock, probing } = world([http, { ...exec, name: 'e' }], 'steady', []);
  await clock.advance(60_000);
  expect(asked).toEqual({ http: 7, exec: 3 });
  expect(probing.view()).toMatchObject({ passed: true, broken: false });
  answers.status = 500;
  await clock.advance(12_000);
  expect(probing.view().broken).toBe(false);
  await clock.advance(2_000);
  expect(probing.view()).toMatchObject({ passed: false, broken: true });
  answers.status = 200;
  await clock.advance(2_000);
  expect(probing.view()).toMatchObject({ passed: true, broken: false });
  probing.stop();
});

test('once it is ended it asks nothing any more', async () => {
  const { asked, clock, probing } = world([http], 'switch');
  await clock.advance(1_000);
  probing.stop();
  const { http: before } = asked;
  await clock.advance(60_000);
  expect(asked.http).toBe(before);
  expect(clock.timers).toBe(0);
});

test.each([
  [199, false],
  [200, true],
  [299, true],
  [300, false],
])('the answer %i passes: %s', async (status, passed) => {
  const { answers, clock, probing } = world([http], 'steady', []);
  answers.status = status;
  await clock.advance(1);
  expect(probing.view().passed).toBe(passed);
  if (!passed) expect(probing.view().message).toBe(`probe p: http://127.0.0.1/ answered ${status}`);
});

test('one probe that is broken is enough, and one that cannot pass any more', async () => {
  const { answers, clock, probing } = world([http, { ...exec, name: 'e' }], 'steady', []);
  answers.exec = false;
  await clock.advance(120_000);
  expect(probing.view()).toMatchObject({ passed: false, broken: true, message: 'probe e: exit code 1: because' });
});

test('how a unit ended is reported, where that is known', async () => {
  const { app, clock, probing } = world([named], 'steady');
  Object.assign(app, { running: false, exit: 'exit code 7' });
  await clock.advance(1);
  expect(probing.view().message).toBe('probe p: it does not run (exit code 7)');
  delete app.exit;
  await clock.advance(10_000);
  expect(probing.view().message).toBe('probe p: it does not run');
});

test('once it is steady a unit may have been started again since', async () => {
  const { app, clock, probing } = world([named], 'steady');
  app.invocation = 'i2';
  await clock.advance(1);
  expect(probing.view()).toMatchObject({ passed: true, hopeless: false });
});

test('what a probe prints is one line of a message, however it is laid out, and no longer than that', async () => {
  const started = world([exec], 'steady', []);
  started.answers.exec = false;
  started.answers.output = `${JSON.stringify({ name: 'app', problem: { of: ['disk'] } }, undefined, 8)}\r\n\t\u001b[2J`;
  await started.clock.advance(4000);
  const words = 'probe p: exit code 1: { "name": "app", "problem": { "of": [ "disk" ] } } \\u001b[2J';
  expect(started.probing.view().message).toBe(words);
  started.answers.output = JSON.stringify({ log: 'x'.repeat(2000) });
  await started.clock.advance(40_000);
  expect(started.probing.view().message).toHaveLength(300);
});
