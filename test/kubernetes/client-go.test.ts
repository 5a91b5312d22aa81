/** What a Go program sees of the embedded server, with client-go as Go's controllers use it; beside a real API server where there is one. */
import { execFile, spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CustomResourceDefinitions, Namespaces } from '../../src/api/builtin.ts';
import { API_VERSION } from '../../src/api/kind.ts';
import { CELL_KINDS } from '../../src/api/kinds.ts';
import { Machines } from '../../src/api/machine.ts';
import { openCluster, serve, kubeconfigText } from '@kubenode/embedded';
import { systemClock } from '../../src/kube/clock.ts';
import type { Client } from '../../src/kube/client.ts';
import { createClient } from '../../src/kube/http-client.ts';
import { httpTransport } from '../../src/kube/http-transport.ts';
import { loadKubeconfig } from '../../src/kube/kubeconfig.ts';
import { waitFor } from '../../src/kube/testing/wait-for.ts';
import { findClientGo } from '../../tools/client-go/program.ts';
import { openGate } from './replicas-gate.ts';
import { realServer } from './real-server.ts';

const run = promisify(execFile);
const LATE = { deadlineMs: 20_000 };

interface Line {
  what: string;
  [field: string]: unknown;
}

interface Server {
  readonly kubeconfig: string;
  readonly client: Client;
  stop(): Promise<void>;
}

const real = realServer();
const found = await findClientGo((line) => void process.stderr.write(`${line}\n`)).catch((error: unknown) => ({ missing: String(error) }));
const program = 'path' in found ? found.path : '';
if ('missing' in found) {
  if (real !== undefined) throw new Error(`the program that speaks client-go cannot be built: ${found.missing}`);
  process.stderr.write(`skipped: no Go program speaks to the embedded server, since none can be built here: ${found.missing}\n`);
}

/** Keeps what it stores in a folder, at one port: it can be started again as what it was. */
async function embedded(dir: string) {
  const clock = systemClock({ ref: true });
  const kubeconfig = join(dir, 'kubeconfig');
  let port = 0;
  const start = async () => {
    const cluster = await openCluster({ name: 'go', state: { dir: join(dir, 'go') }, clock });
    const server = await serve({ clusters: [cluster], listen: `127.0.0.1:${port}`, state: { dir }, clock });
    port = server.port;
    writeFileSync(kubeconfig, server.kubeconfig('go'), { mode: 0o600 });
    return async () => {
      await server.close();
      await cluster.close();
    };
  };
  let stop = await start();
  return {
    kubeconfig,
    stop: () => stop(),
    async restart() {
      await stop();
      stop = await start();
    },
  };
}

async function openServer(kubeconfig: string, stop: () => Promise<void>): Promise<Server> {
  const transport = httpTransport(await loadKubeconfig({ path: kubeconfig, env: {}, clock: systemClock() }));
  const client = createClient(transport, { fieldManager: 'a-human' });
  for (const kind of CELL_KINDS) {
    const definition = CustomResourceDefinitions.parse(kind.crd());
    if ((await client.find(CustomResourceDefinitions, definition.metadata)) === undefined)
      await client.create(CustomResourceDefinitions, definition);
  }
  // prettier-ignore
  await waitFor(() => client.list(Machines).then(() => true, () => false), LATE);
  return {
    kubeconfig,
    client,
    async stop() {
      await transport.close();
      await stop();
    },
  };
}

const machine = (namespace: string, name: string, labels: Record<string, string> = {}) => ({
  apiVersion: API_VERSION,
  kind: 'Machine',
  metadata: { namespace, name, labels },
  spec: {},
});

async function newNamespace(client: Client, name: string): Promise<string> {
  await client.create(Namespaces, { apiVersion: 'v1', kind: 'Namespace', metadata: { name } });
  return name;
}

async function runScenario({ kubeconfig }: Server, namespace: string, scenario: string): Promise<Line[]> {
  const { stdout } = await run(program, ['-kubeconfig', kubeconfig, '-namespace', namespace, scenario], { timeout: 70_000 });
  return stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Line);
}

const of = (lines: readonly Line[], what: string): Line[] => lines.filter((line) => line.what === what);
const one = (lines: readonly Line[], what: string): Line | undefined => of(lines, what)[0];

describe.skipIf(program === '')('a Go program with client-go', () => {
  const dir = mkdtempSync(join(tmpdir(), 'kubenode-clientgo-'));
  const servers = new Map<string, Server>();
  let restart: () => Promise<void>;
  const at = (name: string): Server => servers.get(name) ?? expect.fail(`there is no ${name}`);

  beforeAll(async () => {
    const server = await embedded(dir);
    restart = () => server.restart();
    servers.set('embedded', await openServer(server.kubeconfig, () => server.stop()));
    if (real !== undefined) servers.set('real', await openServer(real.kubeconfig, () => real.transport.close()));
  }, 60_000);
  afterAll(async () => {
    for (const each of servers.values()) await each.stop();
    rmSync(dir, { recursive: true, force: true });
  });

  const scenarios = ['discovery', 'mapper', 'paging', 'metadata', 'apply', 'status', 'watch'] as const;
  const names = ['embedded', ...(real === undefined ? [] : ['real'])];
  const outputs = new Map<string, Line[]>();

  describe.each(names)('on the server %s', (name) => {
    beforeAll(async () => {
      for (const scenario of scenarios) {
        const namespace = await newNamespace(at(name).client, `go-${scenario}`);
        if (scenario === 'paging' || scenario === 'metadata')
          for (let index = 0; index < 8; index++) await at(name).client.create(Machines, machine(namespace, `m-${index}`));
        outputs.set(`${name} ${scenario}`, await runScenario(at(name), namespace, scenario));
      }
    }, 120_000);
    const lines = (scenario: (typeof scenarios)[number]): Line[] => outputs.get(`${name} ${scenario}`) ?? [];

    it('discovers every kind and its subresources', () => {
      const resources = of(lines('discovery'), 'resource');
      expect(resources.map(({ kind }) => kind)).toEqual(expect.arrayContaining([...CELL_KINDS.map(({ kind }) => kind), 'Scale']));
      expect(resources.find((each) => each['name'] === 'machines')).toMatchObject({
        kind: 'Machine',
        namespaced: true,
        short: ['ma'],
        verbs: ['create', 'delete', 'deletecollection', 'get', 'list', 'patch', 'update', 'watch'],
      });
      expect(resources.find((each) => each['name'] === 'machines/status')).toMatchObject({ verbs: ['get', 'patch', 'update'] });
      expect(of(lines('discovery'), 'preferred')).toEqual([{ what: 'preferred', groupVersion: API_VERSION }]);
      expect(one(lines('discovery'), 'openapi')).toMatchObject({ v3: true });
      expect(one(lines('discovery'), 'version')).toMatchObject({ major: '1' });
    });

    it('maps kinds, resources and short names, and reports a kind that is not there', () => {
      expect(of(lines('mapper'), 'mapping')).toEqual([
        { what: 'mapping', kind: 'Machine', resource: 'kubenode.io/v1alpha1, Resource=machines', scope: 'namespace' },
        { what: 'mapping', kind: 'DisruptionLedger', resource: 'kubenode.io/v1alpha1, Resource=disruptionledgers', scope: 'root' },
        { what: 'mapping', kind: 'NoSuchKind', resource: null },
      ]);
      expect(of(lines('mapper'), 'kind').map(({ kind }) => kind)).toEqual([
        'kubenode.io/v1alpha1, Kind=Machine',
        'kubenode.io/v1alpha1, Kind=Machine',
        'kubenode.io/v1alpha1, Kind=Machine',
        'kubenode.io/v1alpha1, Kind=DisruptionLedger',
      ]);
    });

    it('reads pages of one version, each object once', () => {
      const pages = of(lines('paging'), 'page');
      expect(pages.map((page) => page['names'])).toEqual([
        ['m-0', 'm-1', 'm-2'],
        ['m-3', 'm-4', 'm-5'],
        ['m-6', 'm-7'],
      ]);
      expect(pages.map((page) => page['remaining'])).toEqual([5, 2, null]);
      expect(new Set(pages.map((page) => page['version'])).size).toBe(1);
      expect(one(lines('paging'), 'pager')).toMatchObject({ count: 8 });
      expect(one(lines('paging'), 'bad continue')).toMatchObject({ error: 'BadRequest' });
    });

    it('reads metadata alone', async () => {
      const { items } = await at(name).client.list(Machines, { namespace: 'go-metadata' });
      expect(lines('metadata')).toEqual(
        items.map(({ metadata }) => ({
          what: 'metadata',
          name: metadata.name,
          uid: metadata.uid,
          version: metadata.resourceVersion,
        })),
      );
    });

    it('shares an object with another owner by server-side apply', async () => {
      const printed = lines('apply');
      expect(one(printed, 'unchanged')).toMatchObject({ same: true });
      expect(one(printed, 'conflict')).toMatchObject({
        error: 'Conflict',
        causes: [{ type: 'FieldManagerConflict', field: '.spec.failureDomain' }],
      });
      expect(one(printed, 'forced')).toMatchObject({ spec: { failureDomain: 'b', labels: { one: '1', two: '2' } }, generation: 2 });
      expect(one(printed, 'forced')?.['managers']).toEqual(['one Apply ', 'two Apply ']);
      const last = one(printed, 'given up');
      expect(last?.['spec']).toMatchObject({ failureDomain: 'b', labels: { one: '1', two: '2' } });
      expect((await at(name).client.get(Machines, { namespace: 'go-apply', name: 'applied' })).spec).toEqual(last?.['spec']);
    });

    it('writes the status beside the spec, and loses with a version that is over', async () => {
      const printed = lines('status');
      expect(one(printed, 'created')).toMatchObject({ status: null });
      expect(one(printed, 'reported')).toMatchObject({ spec: { failureDomain: 'a' }, status: { phase: 'Running' }, generation: 1 });
      expect(one(printed, 'stale')).toMatchObject({ error: 'Conflict' });
      expect(one(printed, 'applied')).toMatchObject({ status: { phase: 'Running', providerID: 'go://reported' } });
      expect(one(printed, 'absent')).toMatchObject({ error: 'NotFound' });
      const { status } = await at(name).client.get(Machines, { namespace: 'go-status', name: 'reported' });
      expect(status).toEqual(one(printed, 'applied')?.['status']);
    });

    it('watches from what it read, from nothing, and on from a bookmark', () => {
      expect(of(lines('watch'), 'event').map((event) => `${String(event['type'])} ${String(event['name'])}`)).toEqual([
        'ADDED after',
        'MODIFIED before',
        'DELETED after',
      ]);
      expect(one(lines('watch'), 'ended')).toMatchObject({ inTime: true });
      expect(of(lines('watch'), 'initial')).toEqual([
        { what: 'initial', type: 'ADDED', name: 'before', ends: '' },
        { what: 'initial', type: 'BOOKMARK', name: '', ends: 'true' },
      ]);
      expect(one(lines('watch'), 'resumed')).toMatchObject({ type: 'ADDED', name: 'later' });
    });

    it.each([
      ['a list and a watch', 'false'],
      ['a watch that begins with a list', 'true'],
    ])(
      'keeps a store of Machines by %s, and loses nothing when its connection breaks',
      async (_, watchList) => {
        const { client, kubeconfig } = at(name);
        const namespace = await newNamespace(client, `go-informer-${watchList}`);
        const key = (each: string) => ({ namespace, name: each });
        const connection = await loadKubeconfig({ path: kubeconfig, env: {}, clock: systemClock() });
        const gate = await openGate(connection);
        const own = join(dir, `${name}-${watchList}.kubeconfig`);
        const token = typeof connection.token === 'function' ? await connection.token() : (connection.token ?? '');
        writeFileSync(own, kubeconfigText({ cluster: 'go', server: gate.server, authority: gate.authority, token }), { mode: 0o600 });
        await client.create(Machines, machine(namespace, 'first'));
        const child = spawn(program, ['-kubeconfig', own, '-namespace', namespace, 'informer'], {
          stdio: ['pipe', 'pipe', 'inherit'],
          env: { ...process.env, KUBE_FEATURE_WatchListClient: watchList },
        });
        const gone = new Promise<void>((resolve) => child.once('exit', () => resolve()));
        const lines: Line[] = [];
        createInterface({ input: child.stdout }).on('line', (line) => lines.push(JSON.parse(line) as Line));
        const saw = (what: string, about: string) =>
          waitFor(() => lines.some((line) => line.what === what && line['name'] === about), { ...LATE, what: `${what} ${about}` });
        /** The store equals what the API returns. */
        const agrees = () =>
          waitFor(async () => {
            const before = of(lines, 'store').length;
            child.stdin.write('\n');
            await waitFor(() => of(lines, 'store').length > before, LATE);
            const { items } = await client.list(Machines, { namespace });
            const expected = items.map(({ metadata }) => `${metadata.name} ${metadata.uid} ${metadata.resourceVersion}`).toSorted();
            return JSON.stringify(of(lines, 'store').at(-1)?.['names']) === JSON.stringify(expected);
          }, LATE);
        try {
          await waitFor(() => lines.some(({ what }) => what === 'synced'), LATE);
          await saw('add', 'first');
          await client.create(Machines, machine(namespace, 'second'));
          await saw('add', 'second');
          await client.patch(Machines, key('first'), { merge: { metadata: { labels: { seen: 'yes' } } } });
          await saw('update', 'first');
          await client.delete(Machines, key('second'));
          await saw('delete', 'second');
          await agrees();

          // What happens while no server can be reached is seen afterwards.
          await gate.cut(async () => {
            if (name === 'embedded') await restart();
            // Connections of before are found closed at the first use.
            await waitFor(() => client.get(Machines, key('first')).then(() => true, () => false), LATE); // prettier-ignore
            await client.delete(Machines, key('first'));
            await client.create(Machines, machine(namespace, 'third'));
          });
          await saw('delete', 'first');
          await saw('add', 'third');
          await agrees();
          // Its name, not the machine: another one with it is another one.
          await gate.cut(async () => {
            const before = await client.get(Machines, key('third'));
            await client.delete(Machines, key('third'));
            const after = await client.create(Machines, machine(namespace, 'third'));
            expect(after.metadata.uid).not.toBe(before.metadata.uid);
          });
          await agrees();
        } finally {
          child.stdin.end();
          child.kill('SIGTERM');
          await gone;
          await gate.close();
        }
      },
      90_000,
    );
  });

  it.skipIf(real === undefined)('sees the same on both', () => {
    /** What differs from server to server, and from day to day. */
    const plain = (scenario: string, lines: Line[]): unknown =>
      lines
        .filter(({ what }) => what !== 'version')
        // A real server has kinds of this group from other tests, too.
        .filter(({ what, kind }) => what !== 'resource' || CELL_KINDS.some((each) => each.kind === kind))
        .map((line) => ({ ...line, version: undefined, uid: undefined }))
        .toSorted((a, b) => (scenario === 'discovery' ? JSON.stringify(a).localeCompare(JSON.stringify(b)) : 0));
    for (const scenario of scenarios)
      expect(plain(scenario, outputs.get(`embedded ${scenario}`) ?? []), scenario).toEqual(
        plain(scenario, outputs.get(`real ${scenario}`) ?? []),
      );
  });
});
