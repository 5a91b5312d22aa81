import { describe, expect, test } from 'vitest';
import { Events } from '../api/builtin.ts';
import type { Event } from '../api/builtin.ts';
import { createClient } from './http-client.ts';
import { createRecorder } from './recorder.ts';
import type { Recorder } from './recorder.ts';
import { fakeApiServer, statusResponse } from './testing/api-server.ts';
import type { FakeApiServer } from './testing/api-server.ts';
import { fakeClock, seededRandom } from './testing/clock.ts';
import type { FakeClock } from './testing/clock.ts';
import { recordingLog } from './testing/log.ts';
import { configMap, node } from './testing/objects.ts';

interface World {
  server: FakeApiServer;
  clock: FakeClock;
  recorder: Recorder;
  log: ReturnType<typeof recordingLog>;
  controller: AbortController;
  events: () => Event[];
}

function world(): World {
  const server = fakeApiServer();
  const clock = fakeClock();
  const log = recordingLog();
  const controller = new AbortController();
  const recorder = createRecorder({
    client: createClient(server.transport),
    clock,
    random: seededRandom(1),
    log,
    signal: controller.signal,
    component: 'kubenode-machine',
    instance: 'pod-1',
  });
  return { server, clock, recorder, log, controller, events: () => server.objects(Events) };
}

const uncordoned = { type: 'Normal', reason: 'Uncordoned', message: 'the operation ended' } as const;
const a = { ...node('a'), metadata: { name: 'a', uid: 'uid-a', resourceVersion: '7' } };

describe('recording', () => {
  test('an Event names the object, who reports, and when', async () => {
    const { recorder, events } = world();
    recorder.event(a, uncordoned);
    recorder.event(configMap('web', 'm'), uncordoned);
    await recorder.flush();
    expect(events()[0]).toMatchObject({
      metadata: { namespace: 'default', name: expect.stringMatching(/^a\.[0-9a-f]{16}$/) as string },
      involvedObject: { apiVersion: 'v1', kind: 'Node', name: 'a', uid: 'uid-a', resourceVersion: '7' },
      type: 'Normal',
      reason: 'Uncordoned',
      message: 'the operation ended',
      count: 1,
      firstTimestamp: '2026-11-20T00:00:00Z',
      lastTimestamp: '2026-11-20T00:00:00Z',
      source: { component: 'kubenode-machine', host: 'pod-1' },
    });
    expect(events()[1]).toMatchObject({ metadata: { namespace: 'web' }, involvedObject: { namespace: 'web' } });
  });

  test('a repeat raises the count of the same Event', async () => {
    const { recorder, events, clock } = world();
    for (let i = 0; i < 3; i++) {
      recorder.event(a, uncordoned);
      await recorder.flush();
      await clock.advance(60_000);
    }
    expect(events()).toHaveLength(1);
    expect(events()[0]).toMatchObject({ count: 3, firstTimestamp: '2026-11-20T00:00:00Z', lastTimestamp: '2026-11-20T00:02:00Z' });
  });

  test('repeats while one is being sent are one more request, with all of them counted', async () => {
    const { recorder, events, server } = world();
    for (let i = 0; i < 20; i++) recorder.event(a, uncordoned);
    await recorder.flush();
    expect(events()[0]?.count).toBe(20);
    expect(server.requests.length).toBeLessThanOrEqual(2);
  });

  test('an Event that the server has forgotten begins again', async () => {
    const { recorder, events, server, clock } = world();
    recorder.event(a, uncordoned);
    await recorder.flush();
    for (const { metadata } of events()) server.remove(Events, metadata);
    await clock.advance(7_200_000);
    recorder.event(a, uncordoned);
    await recorder.flush();
    expect(events()).toMatchObject([{ count: 1, firstTimestamp: '2026-11-20T02:00:00Z' }]);
  });

  test('an object with too many Events is cut off, and others are not; later it may send Events again', async () => {
    const { recorder, events, clock } = world();
    for (let i = 0; i < 100; i++) recorder.event(a, { ...uncordoned, message: `try ${i}` });
    recorder.event(node('b'), uncordoned);
    await recorder.flush();
    expect(events()).toHaveLength(26);
    await clock.advance(300_000);
    recorder.event(a, { ...uncordoned, message: 'later' });
    recorder.event(a, { ...uncordoned, message: 'too soon' });
    await recorder.flush();
    expect(events()).toHaveLength(27);
  });

  test('a long message is cut, a long name leaves room for the suffix', async () => {
    const { recorder, events } = world();
    recorder.event(node('n'.repeat(253)), { ...uncordoned, message: 'x'.repeat(5000) });
    await recorder.flush();
    expect(events()[0]?.message).toHaveLength(1024);
    expect(events()[0]?.metadata.name.length).toBeLessThanOrEqual(253);
  });
});

describe('failing', () => {
  test('a server that refuses or is away costs a log line and nothing else', async () => {
    const { recorder, events, server, log } = world();
    const cancel = server.intercept(() => statusResponse(403, 'Forbidden', 'may not create events'));
    recorder.event(a, uncordoned);
    await recorder.flush();
    expect(log.lines).toMatchObject([{ level: 'warn', fields: { reason: 'Uncordoned', name: 'a' } }]);
    cancel();
    recorder.event(a, { ...uncordoned, reason: 'Cordoned' });
    await recorder.flush();
    expect(events()).toMatchObject([{ reason: 'Cordoned' }]);
  });

  test('a server that hangs blocks no caller and fills no memory', async () => {
    const { recorder, server, log, controller, clock } = world();
    server.intercept(
      (request) => new Promise((_, reject) => request.signal?.addEventListener('abort', () => reject(request.signal?.reason))),
    );
    for (let i = 0; i < 3000; i++) recorder.event(node(`n${i}`), uncordoned);
    expect(log.lines.filter((line) => line.level === 'debug').length).toBeGreaterThan(1900);
    await clock.advance(15_000);
    expect(server.requests).toHaveLength(2);
    controller.abort(new Error('stop'));
    await recorder.flush();
    recorder.event(a, uncordoned);
    await recorder.flush();
    expect(server.requests).toHaveLength(2);
  });
});
