import { describe, expect, test } from 'vitest';
import { ConfigMaps, Leases, Nodes, Pods } from '../api/builtin.ts';
import type { ApiRequest, ApiResponse } from '../api/transport.ts';
import { ApiError, askedMsOf } from './api-error.ts';
import type { Client } from './client.ts';
import { AGENT_LIMITS, CELL_LIMITS, createClient } from './http-client.ts';
import { fakeApiServer, jsonResponse, statusResponse } from './testing/api-server.ts';
import { fakeClock } from './testing/clock.ts';
import { configMap, node } from './testing/objects.ts';
import { waitFor } from './testing/wait-for.ts';

function answering(answer: (request: ApiRequest) => ApiResponse): { requests: ApiRequest[]; client: ReturnType<typeof createClient> } {
  const requests: ApiRequest[] = [];
  const transport = (request: ApiRequest): Promise<ApiResponse> => {
    requests.push(request);
    return Promise.resolve(answer(request));
  };
  return { requests, client: createClient(transport, { fieldManager: 'kubenode-test' }) };
}

async function* bytes(...chunks: (string | Uint8Array)[]): AsyncGenerator<Uint8Array, void> {
  for (const chunk of chunks) yield await Promise.resolve(typeof chunk === 'string' ? Buffer.from(chunk) : chunk);
}

const stored = (name: string, more: object = {}): object => ({
  ...node(name),
  metadata: { name, uid: `uid-${name}`, resourceVersion: '7', creationTimestamp: '2026-11-20T00:00:00Z', ...more },
});
const watching = (...chunks: (string | Uint8Array)[]): ApiResponse => ({ status: 200, headers: {}, body: bytes(...chunks) });
const line = (type: string, object: object): string => `${JSON.stringify({ type, object })}\n`;

async function collect<T>(events: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const event of events) all.push(event);
  return all;
}

async function* broken(): AsyncGenerator<Uint8Array, void> {
  yield Buffer.from('{"meta');
  await Promise.reject(new Error('read ECONNRESET'));
}

describe('reading', () => {
  test('items of a built-in list get the kind that a real server leaves out', async () => {
    const { apiVersion: _a, kind: _k, ...item } = stored('a') as Record<string, unknown>;
    const { client } = answering(() =>
      jsonResponse(200, { kind: 'NodeList', apiVersion: 'v1', metadata: { resourceVersion: '9' }, items: [item] }),
    );
    const list = await client.list(Nodes);
    expect(list.items[0]).toMatchObject({ apiVersion: 'v1', kind: 'Node', metadata: { name: 'a' } });
  });

  test('a list that a Go server wrote as null is empty', async () => {
    const { client } = answering(() => jsonResponse(200, { metadata: { resourceVersion: '9' }, items: null }));
    expect((await client.list(Nodes)).items).toEqual([]);
  });

  test('a list item of another kind is refused, and the message names it', async () => {
    const { client } = answering(() => jsonResponse(200, { metadata: { resourceVersion: '9' }, items: [{ ...stored('a'), kind: 'Pod' }] }));
    await expect(client.list(Nodes)).rejects.toThrow('GET /api/v1/nodes: Node a: not a Node of v1');
  });

  test.each([
    ['no JSON', 'GET /api/v1/nodes: the answer is no JSON: "<html>"', '<html>'],
    ['no list', 'it has no metadata.resourceVersion', '{"items":[]}'],
    ['items that are no list', 'its items are no list', '{"metadata":{"resourceVersion":"1"},"items":{}}'],
  ])('an answer that is %s is refused', async (_what, message, body) => {
    const { client } = answering(() => ({ status: 200, headers: {}, body: bytes(body) }));
    await expect(client.list(Nodes)).rejects.toMatchObject({ code: 'InvalidObject', message: expect.stringContaining(message) as string });
  });

  test('an object without uid is refused', async () => {
    const { client } = answering(() => jsonResponse(200, node('a')));
    await expect(client.get(Nodes, { name: 'a' })).rejects.toThrow('metadata.uid');
  });

  test('all pages are read, and the token of a page is sent without resourceVersion', async () => {
    const server = fakeApiServer();
    for (let i = 0; i < 1201; i++) server.put(Nodes, node(`n${i}`));
    const list = await createClient(server.transport).listAll(Nodes, { resourceVersion: '0', labelSelector: '' });
    expect(list.items).toHaveLength(1201);
    expect(server.requests.map((request) => request.query?.['resourceVersion'])).toEqual(['0', undefined, undefined]);
    expect(list.metadata.continue).toBeUndefined();
  });

  test('find is undefined for an object that is not there, and an error for a kind that is not there', async () => {
    const server = fakeApiServer();
    const client = createClient(server.transport);
    expect(await client.find(Nodes, { name: 'absent' })).toBeUndefined();
    const { client: other } = answering(() => ({ status: 404, headers: {}, body: bytes('404 page not found\n') }));
    await expect(other.find(Nodes, { name: 'absent' })).rejects.toMatchObject({
      status: 404,
      reason: 'NotFound',
      message: 'GET /api/v1/nodes/absent: this API server does not serve nodes of v1',
    });
    await expect(other.list(Leases, { namespace: 'web' })).rejects.toThrow('does not serve leases of coordination.k8s.io/v1');
  });

  test('the one word of a real server about credentials becomes a sentence', async () => {
    const { client } = answering(() => statusResponse(401, 'Unauthorized'));
    await expect(client.get(Nodes, { name: 'a' })).rejects.toMatchObject({
      status: 401,
      reason: 'Unauthorized',
      message: 'GET /api/v1/nodes/a: Unauthorized: the server does not accept these credentials',
    });
  });

  test('an empty name never becomes the path of the collection, nor a missing namespace the path of all', async () => {
    const { client, requests } = answering(() => jsonResponse(200, stored('a')));
    await expect(client.delete(Nodes, { name: '' })).rejects.toMatchObject({ code: 'NameMissing' });
    await expect(client.get(Pods, { name: 'a' })).rejects.toMatchObject({ code: 'NamespaceMissing' });
    await expect(client.create(Pods, { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'a' } })).rejects.toThrow('namespace is missing');
    expect(requests).toEqual([]);
  });
});

describe('a server that is not trusted', () => {
  const limits = { answerMs: 5000, answerBytes: 1000, listBytes: 1500, pages: 3 };
  const big = stored('a', { annotations: { pad: 'x'.repeat(600) } });

  test('an answer that never ends is given up before it fills the memory', async () => {
    let sent = 0;
    async function* endless(): AsyncGenerator<Uint8Array, void> {
      for (; sent < 1e6; sent += 100) yield await Promise.resolve(Buffer.alloc(100, 'a'));
    }
    const client = createClient(() => Promise.resolve({ status: 200, headers: {}, body: endless() }), { limits });
    await expect(client.list(Nodes)).rejects.toMatchObject({
      code: 'AnswerTooLarge',
      message: 'GET /api/v1/nodes: the answer is longer than 1000 bytes',
    });
    expect(sent).toBeLessThan(1200);
  });

  test.each([
    ['list', (client: Client) => client.list(Nodes), { answerMemory: 10_000 }],
    ['object', (client: Client) => client.get(Nodes, { name: 'a' }), { objectMemory: 10_000 }],
    ['watch event', (client: Client) => collect(client.watch(Nodes)), { objectMemory: 10_000 }],
  ])('a %s of few characters that would become large in memory is not decoded', async (_what, request, bound) => {
    const text = `{"metadata":{"resourceVersion":"9"},"items":[],"x":[${'{},'.repeat(100)}{}]}\n`;
    const answer = (): Promise<ApiResponse> => Promise.resolve(watching(text));
    await expect(request(createClient(answer, { limits: bound }))).rejects.toMatchObject({
      code: 'AnswerTooLarge',
      message: expect.stringContaining('more than 10000 bytes of memory') as string,
    });
  });

  test.each([
    ['its own server', {}],
    ['a cell', CELL_LIMITS],
    ['the API server of an agent', AGENT_LIMITS],
  ])('%s may send what etcd can store: an object of 1.5 MiB, as an answer, in a list, and as an event', async (_what, bounds) => {
    const object = stored('a', { annotations: { large: 'x'.repeat(1.5 * 1024 ** 2) } });
    const items = Array.from({ length: 6 }, () => object);
    const client = createClient(
      ({ path, query }) => {
        if (query?.['watch'] !== undefined) return Promise.resolve(watching(line('ADDED', object)));
        if (path.endsWith('/a')) return Promise.resolve(jsonResponse(200, object));
        const more = query?.['continue'] === undefined ? { continue: 'more' } : {};
        return Promise.resolve(
          jsonResponse(200, { metadata: { resourceVersion: '9', ...more }, items: more.continue === undefined ? [] : items }),
        );
      },
      { limits: bounds },
    );
    expect((await client.get(Nodes, { name: 'a' })).metadata.name).toBe('a');
    expect(await collect(client.watch(Nodes))).toHaveLength(1);
    const [one, other] = await Promise.all([client.list(Nodes), client.list(Nodes)]);
    expect([one.items.length, other.items.length]).toEqual([6, 6]);
    expect((await client.listAll(Nodes)).items).toHaveLength(6);
  });

  test('as many pages as are allowed are read, and not one more', async () => {
    const client = (most: number) => {
      let pages = 0;
      const transport = (): Promise<ApiResponse> => {
        pages++;
        return Promise.resolve(
          jsonResponse(200, {
            metadata: { resourceVersion: '9', ...(pages < 3 ? { continue: 'more' } : {}) },
            items: [stored(`n${pages}`)],
          }),
        );
      };
      return createClient(transport, { limits: { pages: most } });
    };
    expect((await client(3).listAll(Nodes)).items).toHaveLength(3);
    await expect(client(2).listAll(Nodes)).rejects.toMatchObject({
      code: 'AnswerTooLarge',
      message: 'GET /api/v1/nodes: the answer has more than 2 pages',
    });
  });

  test.each([
    [199, false],
    [200, true],
    [299, true],
    [300, false],
  ])('an answer with status %d is a success: %s', async (status, isSuccess) => {
    const { client } = answering(() => jsonResponse(status, stored('a')));
    const outcome = await client.get(Nodes, { name: 'a' }).then(
      () => true,
      (error: unknown) => !(error instanceof ApiError && error.status === status),
    );
    expect(outcome).toBe(isSuccess);
  });

  test('a version has 512 characters at most, a name too, and a token 16,384', async () => {
    const ask = async (version: string, token: string, name: string): Promise<number> => {
      const { client } = answering(() =>
        jsonResponse(200, { metadata: { resourceVersion: version, continue: token }, items: [stored(name, { uid: 'u' })] }),
      );
      return (await client.list(Nodes)).items.length;
    };
    const [v, t] = ['7'.repeat(512), 't'.repeat(16_384)];
    expect(await ask(v, t, 'n'.repeat(512))).toBe(1);
    await expect(ask(`${v}7`, t, 'n')).rejects.toThrow('metadata.resourceVersion is longer than 512');
    await expect(ask(v, `${t}t`, 'n')).rejects.toThrow('metadata.continue is longer than 16384');
    await expect(ask(v, t, 'n'.repeat(513))).rejects.toThrow('name is longer than 512');
    const bookmark = async (version: string) =>
      await collect(answering(() => watching(line('BOOKMARK', { metadata: { resourceVersion: version } }))).client.watch(Nodes));
    expect(await bookmark(v)).toHaveLength(1);
    await expect(bookmark(`${v}7`)).rejects.toThrow('a bookmark whose resourceVersion is longer than 512');
  });

  test('an object may be less long than a list', async () => {
    const client = createClient(() => Promise.resolve(watching(`${JSON.stringify(big)}${' '.repeat(1000)}\n`)), {
      limits: { objectBytes: 1000 },
    });
    await expect(client.get(Nodes, { name: 'a' })).rejects.toMatchObject({ code: 'AnswerTooLarge' });
    await expect(collect(client.watch(Nodes))).rejects.toMatchObject({ code: 'LineTooLong' });
    expect((await client.list(Nodes)).items).toEqual([]);
  });

  test('answers that are under way at the same time are bounded together, and those that ended count no more', async () => {
    const waiting: (() => void)[] = [];
    async function* slow(): AsyncGenerator<Uint8Array, void> {
      yield Buffer.from(`{"metadata":{"resourceVersion":"9"},"items":[]}${' '.repeat(400)}`);
      await new Promise<void>((done) => void waiting.push(done));
    }
    const client = createClient(() => Promise.resolve({ status: 200, headers: {}, body: slow() }), { limits: { underWayBytes: 1000 } });
    const outcomes = [1, 2, 3].map(() =>
      client.list(Nodes).then(
        ({ items }) => items.length,
        (error: unknown) => (error as { code: string }).code,
      ),
    );
    expect(await outcomes[2]).toBe('AnswerTooLarge');
    for (const done of waiting.splice(0)) done();
    expect(await Promise.all(outcomes)).toEqual([0, 0, 'AnswerTooLarge']);
    const again = [client.list(Nodes), client.list(Nodes)];
    await waitFor(() => waiting.length === 2);
    for (const done of waiting) done();
    expect((await Promise.all(again)).map(({ items }) => items.length)).toEqual([0, 0]);
  });

  test('its words are cut before they become part of an error', async () => {
    const word = 'x'.repeat(200_000);
    const failures: unknown[] = [
      await collect(answering(() => watching(line(word, {}))).client.watch(Nodes)).catch((error: unknown) => error),
    ];
    const status = {
      kind: 'Status',
      reason: word,
      message: word,
      details: { name: word, causes: Array.from({ length: 1000 }, () => ({ message: 'c', field: 'f' })) },
    };
    const { client } = answering(() => jsonResponse(422, status));
    failures.push(await client.get(Nodes, { name: 'a' }).catch((error: unknown) => error));
    failures.push(await collect(answering(() => watching(line('ERROR', status))).client.watch(Nodes)).catch((error: unknown) => error));
    const unread = {
      ...Nodes,
      parse: (): never => {
        throw new Error(word);
      },
    };
    failures.push(
      await answering(() => jsonResponse(200, stored('a')))
        .client.get(unread, { name: 'a' })
        .catch((error: unknown) => error),
    );
    for (const error of failures) {
      expect(error).toBeInstanceOf(Error);
      expect(String(error).length).toBeLessThan(9000);
      const { code, details, causes } = error as Partial<ApiError>;
      expect(code?.length).toBeLessThan(600);
      expect(JSON.stringify([details ?? null, causes ?? null]).length).toBeLessThan(10_000);
    }
  });

  test.each([
    ['resourceVersion of a list', { resourceVersion: '9'.repeat(513) }],
    ['token of the next page', { resourceVersion: '9', continue: 'x'.repeat(20_000) }],
  ])('a %s that is too long to be kept and sent is refused', async (_what, metadata) => {
    const { client } = answering(() => jsonResponse(200, { metadata, items: [] }));
    await expect(client.list(Nodes)).rejects.toMatchObject({
      code: 'InvalidObject',
      message: expect.stringMatching(/^.{1,200}$/) as string,
    });
  });

  test('so is one of a bookmark', async () => {
    const { client } = answering(() => watching(line('BOOKMARK', { metadata: { resourceVersion: '9'.repeat(513) } })));
    await expect(collect(client.watch(Nodes))).rejects.toMatchObject({ code: 'InvalidObject' });
  });

  test('so is a failure that never ends', async () => {
    let sent = 0;
    async function* endless(): AsyncGenerator<Uint8Array, void> {
      for (; sent < 1e7; sent += 1e5) yield await Promise.resolve(Buffer.alloc(1e5, 'a'));
    }
    const client = createClient(() => Promise.resolve({ status: 500, headers: {}, body: endless() }));
    await expect(client.get(Nodes, { name: 'a' })).rejects.toMatchObject({ code: 'AnswerTooLarge' });
    expect(sent).toBeLessThan(2e6);
  });

  test.each([
    ['bytes', big, { ...limits, pages: 1000 }, /^GET \/api\/v1\/nodes: the answer is longer than \d+ bytes$/],
    ['pages', undefined, limits, 'GET /api/v1/nodes: the answer has more than 3 pages'],
  ])('the %s of all pages of a list are bounded', async (_what, item, bounds, message) => {
    let asked = 0;
    const transport = (): Promise<ApiResponse> => {
      if (++asked > 50) throw new Error('it asks for ever');
      return Promise.resolve(
        jsonResponse(200, { metadata: { resourceVersion: '9', continue: 'more' }, items: item === undefined ? [] : [item] }),
      );
    };
    await expect(createClient(transport, { limits: bounds }).listAll(Nodes)).rejects.toMatchObject({
      code: 'AnswerTooLarge',
      message: expect.stringMatching(message) as string,
    });
  });

  test.each([
    ['that drips', { status: 200, headers: {}, body: undefined }],
    ['that never begins', undefined],
  ])('an answer %s has a deadline, and a watch has none', async (_what, head) => {
    const clock = fakeClock();
    const transport = async ({ signal }: ApiRequest): Promise<ApiResponse> => {
      const ended = new Promise<never>((_, reject) => signal?.addEventListener('abort', () => reject(signal.reason as Error)));
      ended.catch(() => undefined);
      async function* drip(): AsyncGenerator<Uint8Array, void> {
        for (;;) {
          yield Buffer.from(' ');
          await Promise.race([ended, new Promise<void>((done) => void clock.setTimer(1000, done))]);
        }
      }
      return head === undefined ? await ended : { ...head, body: drip() };
    };
    const client = createClient(transport, { limits, clock });
    const outcome = client.patch(Nodes, { name: 'a' }, { merge: {} }).then(
      () => 'answered',
      (error: unknown) => error,
    );
    const controller = new AbortController();
    const watched = collect(client.watch(Nodes, { signal: controller.signal })).catch((error: unknown) => error);
    await clock.advance(4900);
    expect(await Promise.race([outcome, Promise.resolve('under way')])).toBe('under way');
    await clock.advance(200);
    expect(await Promise.race([outcome, Promise.resolve('under way')])).toMatchObject({
      code: 'RequestTimeout',
      message: 'PATCH /api/v1/nodes/a: the answer was not complete after 5 s',
    });
    await clock.advance(60_000);
    expect(await Promise.race([watched, Promise.resolve('under way')])).toBe('under way');
    controller.abort(new Error('the test is over'));
    await watched;
  });

  test.each([
    ['name', 'x'.repeat(4_000_000), 'name is longer than 512 characters'],
    ['uid', 7, 'uid is no text'],
    ['labels', 7, 'labels is no map'],
    ['annotations', { a: {} }, 'annotations has a value that is no text'],
    ['managedFields', 'x', 'managedFields is no list'],
    ['managedFields', [null], 'managedFields has an entry that is no object'],
  ])('%s that no server of Kubernetes sends is refused, in few words', async (field, value, message) => {
    const items = [stored('a', { [field]: value })];
    const { client } = answering(() => jsonResponse(200, { metadata: { resourceVersion: '9' }, items }));
    const error: unknown = await client.list(Nodes).catch((caught: unknown) => caught);
    expect(error).toMatchObject({ code: 'InvalidObject', message: expect.stringContaining(`metadata.${message}`) as string });
    expect(String(error).length).toBeLessThan(1000);
  });

  test('how long it asks to be left alone is bounded', () => {
    expect(askedMsOf(new ApiError(429, { details: { retryAfterSeconds: Infinity } }))).toBe(300_000);
    expect(askedMsOf(new ApiError(429, { details: { retryAfterSeconds: -5 } }))).toBe(0);
  });
});

describe('writing', () => {
  test('every write is validated strictly and names its manager', async () => {
    const { client, requests } = answering(() => jsonResponse(200, stored('a')));
    await client.create(Nodes, node('a'));
    await client.update(Nodes, node('a'), { fieldManager: 'other', dryRun: true });
    await client.patch(Nodes, { name: 'a' }, { merge: { spec: {} } }, { subresource: 'status' });
    await client.patch(Nodes, { name: 'a' }, { json: [{ op: 'test', path: '/spec', value: {} }] });
    await client.patch(Nodes, { name: 'a' }, { strategic: {} });
    await client.apply(Nodes, node('a'), { fieldManager: 'set', force: true });
    expect(requests.map(({ method, path, query, headers }) => [method, path, query, headers?.['content-type']])).toEqual([
      ['POST', '/api/v1/nodes', { fieldValidation: 'Strict', fieldManager: 'kubenode-test' }, 'application/json'],
      ['PUT', '/api/v1/nodes/a', { fieldValidation: 'Strict', fieldManager: 'other', dryRun: 'All' }, 'application/json'],
      ['PATCH', '/api/v1/nodes/a/status', { fieldValidation: 'Strict', fieldManager: 'kubenode-test' }, 'application/merge-patch+json'],
      ['PATCH', '/api/v1/nodes/a', { fieldValidation: 'Strict', fieldManager: 'kubenode-test' }, 'application/json-patch+json'],
      ['PATCH', '/api/v1/nodes/a', { fieldValidation: 'Strict', fieldManager: 'kubenode-test' }, 'application/strategic-merge-patch+json'],
      ['PATCH', '/api/v1/nodes/a', { fieldValidation: 'Strict', fieldManager: 'set', force: 'true' }, 'application/apply-patch+yaml'],
    ]);
    expect(JSON.parse(String(requests[5]?.body))).toEqual(node('a'));
  });

  test('a deletion carries its preconditions', async () => {
    const { client, requests } = answering(() => jsonResponse(200, { kind: 'Status', status: 'Success' }));
    await client.delete(
      Nodes,
      { name: 'a' },
      { uid: 'u', resourceVersion: '5', propagationPolicy: 'Foreground', gracePeriodSeconds: 0, dryRun: true },
    );
    expect(JSON.parse(String(requests[0]?.body))).toEqual({
      apiVersion: 'v1',
      kind: 'DeleteOptions',
      preconditions: { uid: 'u', resourceVersion: '5' },
      propagationPolicy: 'Foreground',
      gracePeriodSeconds: 0,
      dryRun: ['All'],
    });
  });
});

test('a deletion without preconditions names none', async () => {
  const server = fakeApiServer();
  await createClient(server.transport)
    .delete(Leases, { namespace: 'kubenode', name: 'gone' })
    .catch(() => undefined);
  expect(JSON.parse(String(server.requests.at(-1)?.body))).toEqual({ apiVersion: 'v1', kind: 'DeleteOptions' });
});

describe('errors', () => {
  test('a Status becomes an ApiError with reason, causes, method and path', async () => {
    const body = {
      kind: 'Status',
      reason: 'Conflict',
      message: 'Apply failed with 1 conflict',
      details: { causes: [{ reason: 'FieldManagerConflict', field: '.spec.replicas', message: 'conflict with "hpa"' }, 'garbage'] },
    };
    const { client } = answering(() => jsonResponse(409, body));
    const error: unknown = await client.apply(Nodes, node('a'), { fieldManager: 'set' }).catch((error: unknown) => error);
    expect(error).toBeInstanceOf(ApiError);
    expect(error).toMatchObject({
      status: 409,
      reason: 'Conflict',
      method: 'PATCH',
      path: '/api/v1/nodes/a',
      message: 'PATCH /api/v1/nodes/a: Apply failed with 1 conflict',
      causes: [{ reason: 'FieldManagerConflict', field: '.spec.replicas', message: 'conflict with "hpa"' }],
    });
  });

  test('what a proxy answers instead of a Status is quoted, shortened', async () => {
    const { client } = answering(() => ({
      status: 503,
      headers: { 'retry-after': '7' },
      body: bytes(`<html>\n  upstream   down ${'x'.repeat(999)}`),
    }));
    const error = (await client.get(Nodes, { name: 'a' }).catch((error: unknown) => error)) as ApiError;
    expect(error).toMatchObject({ reason: 'ServiceUnavailable', retryAfterSeconds: 7 });
    expect(error.message).toContain('the server answered 503: <html> upstream down');
    expect(error.message.length).toBeLessThan(300);
  });

  test('Retry-After is taken from the header where the Status has none', async () => {
    const { client } = answering(() => statusResponse(429, 'TooManyRequests', 'slow down', { 'retry-after': '3' }));
    await expect(client.get(Nodes, { name: 'a' })).rejects.toMatchObject({ retryAfterSeconds: 3 });
  });

  test('a connection that fails is Unreachable, with the cause', async () => {
    const cause = new Error('connect ECONNREFUSED');
    const client = createClient(() => Promise.reject(cause));
    await expect(client.get(Nodes, { name: 'a' })).rejects.toMatchObject({
      code: 'Unreachable',
      cause,
      message: 'GET /api/v1/nodes/a: no answer from the API server: connect ECONNREFUSED',
    });
  });

  test('an answer that breaks off is Unreachable', async () => {
    const client = createClient(() => Promise.resolve({ status: 200, headers: {}, body: broken() }));
    await expect(client.get(Nodes, { name: 'a' })).rejects.toMatchObject({ code: 'Unreachable' });
  });

  test('an abort rejects with its own reason', async () => {
    const controller = new AbortController();
    controller.abort(new Error('enough'));
    await expect(createClient(fakeApiServer().transport).get(Nodes, { name: 'a' }, { signal: controller.signal })).rejects.toThrow(
      'enough',
    );
  });
});

describe('watching', () => {
  test('events are decoded from any chunks, also inside a character', async () => {
    const text = Buffer.from(line('ADDED', stored('a', { annotations: { owner: 'Zoë 🚀' } })) + line('DELETED', stored('b')));
    for (let size = 1; size <= 40; size += 3) {
      const chunks: Uint8Array[] = [];
      for (let at = 0; at < text.length; at += size) chunks.push(text.subarray(at, at + size));
      const { client } = answering(() => watching(...chunks));
      const events = await collect(client.watch(Nodes));
      expect(events.map((event) => event.type)).toEqual(['ADDED', 'DELETED']);
      expect(events[0]?.object.metadata.annotations).toEqual({ owner: 'Zoë 🚀' });
    }
  });

  test('the request asks for bookmarks and carries selectors, version and timeout', async () => {
    const { client, requests } = answering(() => watching());
    let opened = false;
    await collect(
      client.watch(ConfigMaps, {
        namespace: 'web',
        fieldSelector: 'metadata.name=a',
        resourceVersion: '5',
        timeoutSeconds: 60,
        onOpen: () => (opened = true),
      }),
    );
    expect(opened).toBe(true);
    expect(requests[0]).toMatchObject({
      path: '/api/v1/namespaces/web/configmaps',
      query: { watch: 'true', allowWatchBookmarks: 'true', fieldSelector: 'metadata.name=a', resourceVersion: '5', timeoutSeconds: '60' },
    });
  });

  test('a bookmark is an event', async () => {
    const { client } = answering(() => watching(line('BOOKMARK', { kind: 'Node', apiVersion: 'v1', metadata: { resourceVersion: '99' } })));
    expect(await collect(client.watch(Nodes))).toEqual([
      { type: 'BOOKMARK', object: { apiVersion: 'v1', kind: 'Node', metadata: { resourceVersion: '99' } } },
    ]);
  });

  test('an ERROR event is thrown after the events before it', async () => {
    const { client } = answering(() =>
      watching(line('ADDED', stored('a')), line('ERROR', { kind: 'Status', code: 410, reason: 'Expired', message: 'too old' })),
    );
    const seen: string[] = [];
    const watch = async (): Promise<void> => {
      for await (const event of client.watch(Nodes)) seen.push(event.type);
    };
    await expect(watch()).rejects.toMatchObject({ status: 410, reason: 'Expired', message: 'GET /api/v1/nodes: too old' });
    expect(seen).toEqual(['ADDED']);
  });

  test('an ERROR event without a number is one of the server', async () => {
    const { client } = answering(() => watching(line('ERROR', { kind: 'Status', code: '410', message: 'odd' })));
    await expect(collect(client.watch(Nodes))).rejects.toMatchObject({ status: 500, message: 'GET /api/v1/nodes: odd' });
  });

  test.each([
    ['garbage', 'this is no json\n', 'no JSON'],
    ['an event without object', '{"type":"ADDED"}\n', 'no watch event'],
    ['an unknown type', line('RENAMED', stored('a')), 'unknown type "RENAMED"'],
    ['a bookmark without version', line('BOOKMARK', {}), 'a bookmark without resourceVersion'],
  ])('%s is refused', async (_what, text, message) => {
    const { client } = answering(() => watching(text));
    await expect(collect(client.watch(Nodes))).rejects.toMatchObject({
      code: 'InvalidObject',
      message: expect.stringContaining(message) as string,
    });
  });

  test('a stream that ends inside an event is an error, not an event lost', async () => {
    const { client } = answering(() => watching(line('ADDED', stored('a')).slice(0, -5)));
    await expect(collect(client.watch(Nodes))).rejects.toMatchObject({ code: 'Truncated' });
  });

  test('a line without end is given up before it fills the memory', async () => {
    const megabyte = new Uint8Array(1024 * 1024).fill(97);
    let sent = 0;
    async function* endless(): AsyncGenerator<Uint8Array, void> {
      for (;;) {
        sent++;
        yield await Promise.resolve(megabyte);
      }
    }
    const client = createClient(() => Promise.resolve({ status: 200, headers: {}, body: endless() }));
    await expect(collect(client.watch(Nodes))).rejects.toMatchObject({ code: 'LineTooLong' });
    expect(sent).toBeLessThan(20);
  });

  test('leaving the loop closes the stream', async () => {
    const server = fakeApiServer();
    server.put(Nodes, node('a'));
    for await (const event of createClient(server.transport).watch(Nodes)) {
      expect(event.type).toBe('ADDED');
      expect(server.watches.open).toBe(1);
      break;
    }
    expect(server.watches.open).toBe(0);
  });

  test('the fake server is a server: what is written through the client is seen by its watch', async () => {
    const server = fakeApiServer();
    const client = createClient(server.transport);
    const controller = new AbortController();
    const seen: string[] = [];
    const watched = (async () => {
      for await (const event of client.watch(ConfigMaps, { namespace: 'web', signal: controller.signal })) {
        seen.push(`${event.type} ${event.object.metadata.resourceVersion}`);
        if (event.type === 'DELETED') controller.abort(new Error('seen'));
      }
    })();
    await client.create(ConfigMaps, configMap('web', 'a'));
    await client.create(ConfigMaps, configMap('other', 'a'));
    await client.patch(ConfigMaps, { namespace: 'web', name: 'a' }, { merge: { data: { x: '1' } } });
    await client.delete(ConfigMaps, { namespace: 'web', name: 'a' });
    await expect(watched).rejects.toThrow('seen');
    expect(seen).toEqual(['ADDED 101', 'MODIFIED 103', 'DELETED 104']);
  });
});
