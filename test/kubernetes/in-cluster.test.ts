/**
 * docs/install.md, word for word, on two real API servers, with the Deployments running: each command of its steps 2 to 6 in a shell, the image that
 * deploy/Dockerfile makes, and for its pods processes that are started as a kubelet starts them.
 */
import { spawn } from 'node:child_process';
import { connect, type AddressInfo } from 'node:net';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createServer, type Server } from 'node:tls';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Clusters } from '../../src/api/cluster.ts';
import { Leases, Secrets } from '../../src/api/builtin.ts';
import { DisruptionLedgers, LEDGER_NAME } from '../../src/api/disruption-ledger.ts';
import { Fleets } from '../../src/api/fleet.ts';
import { Machines } from '../../src/api/machine.ts';
import { contextOf, inlineConnection } from '../../src/cli/remote.ts';
import { makeAuthority, makeServerCertificate } from '@kubenode/embedded/pki';
import type { Client } from '../../src/kube/client.ts';
import type { ClosableTransport } from '../../src/kube/connect.ts';
import { createClient } from '../../src/kube/http-client.ts';
import { httpTransport } from '../../src/kube/http-transport.ts';
import { serveGit, testRepository, type GitServer } from '../../src/sync/git/testing/repository.ts';
import { findPrograms } from '../../tools/kubernetes/programs.ts';
import { judge, openAudits } from './audit.ts';
import { OF_WORKLOAD, startControlPlanes, type ControlPlanes } from './control-plane.ts';
import { makeImage, type Image } from './in-cluster-image.ts';
import { startKubelet, type Kubelet, type RunningPod } from './in-cluster-kubelet.ts';
import { bytesOf, whyNoPods } from './in-cluster-pod.ts';
import { couple } from './in-cluster-relay.ts';

const NAMESPACE = 'kubenode-system';
const SIDES = [
  { side: 'hub', context: 'hub' },
  { side: 'cell', context: 'prod' },
] as const;
type Side = (typeof SIDES)[number]['side'];
const MAKING = { now: Date.now(), random: Math.random };
const MORTAL = 'first-token';
const READ = { username: 'kubenode', password: 'TOKEN' };

const FLEET = `import { DefenderPolicy, fleet, MachineSet } from 'kubenode/constructs';
fleet.cluster('prod', { labels: { stage: 'prod' } });
fleet.allClusters((cluster) => {
  new MachineSet(cluster.pool('web'), 'web-a', { replicas: 1, provider: { name: 'ssh', config: { address: '192.0.2.1' } } });
  new DefenderPolicy(cluster, 'default', { limits: [{ name: 'cell', scope: 'Cluster', maxUnavailable: 1 }] });
});
`;

/** The commands of a section of docs/install.md, in their order. */
function commandsOf(step: number): string[] {
  const text = readFileSync(fileURLToPath(new URL('../../docs/install.md', import.meta.url)), 'utf8');
  const section = text.split(/^## /m).find((each) => each.startsWith(`${step}. `)) ?? '';
  const blocks = [...section.matchAll(/^```sh\n(.*?)^```/gms)].map((match) => match[1] ?? '');
  if (blocks.length === 0) throw new Error(`step ${step} has no commands`);
  return blocks;
}

async function until(what: string, seconds: number, isTrue: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = performance.now() + seconds * 1000;
  while (!(await isTrue())) {
    if (performance.now() > deadline) throw new Error(`${what}: not within ${seconds} s`);
    await delay(100);
  }
}

const why = whyNoPods();

describe.skipIf(why !== undefined)(`in pods${why === undefined ? '' : `, not here: ${why}`}`, () => {
  let dir: string;
  let planes: ControlPlanes;
  let image: Image;
  let git: GitServer;
  let gitServer: Server | undefined;
  let gitPort: number;
  let kubectl: string;
  let transports: Map<string, ClosableTransport>;
  let kubelets: Record<Side, Kubelet>;
  let mortal: string;
  const audited = { read: (): ReturnType<ReturnType<typeof openAudits>['read']> => [] };

  const clientOf = (context: string): Client => {
    const transport = transports.get(context);
    if (transport === undefined) throw new Error(`no ${context}`);
    return createClient(transport, { userAgent: 'incluster' });
  };
  const client = { hub: () => clientOf('hub'), cell: () => clientOf('prod') };

  beforeAll(async () => {
    dir = mkdtempSync(join(tmpdir(), 'kn-incluster-'));
    const authority = await makeAuthority('git', MAKING);
    const serving = await makeServerCertificate(authority, MAKING);
    writeFileSync(join(dir, 'git-ca.crt'), authority.certificate);
    testRepository(join(dir, 'git/platform/fleet.git')).commit('Begin', { 'fleet/main.ts': FLEET });
    const programs = await findPrograms(() => undefined);
    kubectl = programs.kubectl ?? 'kubectl';
    [planes, image, git] = await Promise.all([
      startControlPlanes(programs, ['hub', 'prod'], OF_WORKLOAD),
      makeImage(join(dir, 'image')),
      serveGit(join(dir, 'git'), READ),
    ]);
    const plainPort = Number(new URL(git.url).port);
    const secure = createServer({ cert: serving.certificate, key: serving.key }, (socket) =>
      couple(socket, connect(plainPort, '127.0.0.1')),
    );
    await new Promise<void>((resolve) => secure.listen(0, '127.0.0.1', resolve));
    gitServer = secure;
    gitPort = (secure.address() as AddressInfo).port;
    Object.assign(audited, openAudits(planes.audits));
    const kubeconfig = readFileSync(planes.kubeconfig, 'utf8');
    const connections = ['hub', 'prod'].map((name) => [name, inlineConnection(contextOf(kubeconfig, name))] as const);
    transports = new Map(connections.map(([name, connection]) => [name, httpTransport(connection)]));
    const portOf = (url: string): number => Number(new URL(url).port);
    const server = (context: string): number => portOf(connections.find(([name]) => name === context)?.[1].server ?? '');
    /** One that can be ended: it is good as long as a Secret is there. */
    const firstToken = async (account: string): Promise<string> => {
      const api = client.cell();
      const secret = { apiVersion: 'v1', kind: 'Secret', metadata: { name: MORTAL, namespace: NAMESPACE } };
      const { metadata } = (await api.find(Secrets, secret.metadata)) ?? (await api.create(Secrets, secret));
      const answer = await api.post(`/api/v1/namespaces/${NAMESPACE}/serviceaccounts/${account}/token`, {
        apiVersion: 'authentication.k8s.io/v1',
        kind: 'TokenRequest',
        spec: { boundObjectRef: { apiVersion: 'v1', kind: 'Secret', name: MORTAL, uid: metadata.uid } },
      });
      return (mortal = (answer as { status: { token: string } }).status.token);
    };
    const kubeletOf = (side: Side, context: string): Kubelet =>
      startKubelet({
        transport: transports.get(context) as ClosableTransport,
        namespace: NAMESPACE,
        image,
        folder: join(dir, side === 'hub' ? 'h' : 'c'),
        nodes: ['n1', 'n2'],
        serverPort: server(context),
        ports: [server('prod'), gitPort],
        ...(side === 'cell' ? { firstToken } : {}),
      });
    kubelets = { hub: kubeletOf('hub', 'hub'), cell: kubeletOf('cell', 'prod') };
    // As they are called in the steps.
    const bin = join(dir, 'bin');
    mkdirSync(bin);
    const shim = (name: string, command: string): void =>
      writeFileSync(join(bin, name), `#!/bin/sh\nexec ${command} "$@"\n`, { mode: 0o755 });
    shim('kubectl', kubectl);
    shim('kubenode', `${process.execPath} ${join(image.app, 'bin/kubenode.js')}`);
  }, 180_000);

  afterAll(async () => {
    await Promise.all(SIDES.map(({ side }) => kubelets?.[side].stop()));
    for (const transport of transports?.values() ?? []) await transport.close();
    gitServer?.close();
    await git?.close();
    await planes?.stop();
    rmSync(dir, { recursive: true, force: true });
  }, 60_000);

  /** In a shell, as a person who stops at the first command that fails; a question to which the answer is no is no failure. */
  async function shell(commands: string): Promise<{ out: string; err: string }> {
    const prod = inlineConnection(contextOf(readFileSync(planes.kubeconfig, 'utf8'), 'prod')).server;
    const here = commands
      .replaceAll('https://api.prod.example:6443', prod)
      .replaceAll('https://git.example/platform/fleet.git', `https://127.0.0.1:${gitPort}/platform/fleet.git`);
    const trap = `trap 'case $BASH_COMMAND in *can-i*) ;; *) exit 1 ;; esac' ERR`;
    const child = spawn('bash', ['-c', `set -u -o pipefail -o errtrace\n${trap}\n${here}\ntrue`], {
      cwd: dir,
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, PATH: `${join(dir, 'bin')}:${process.env['PATH'] ?? ''}`, KUBECONFIG: planes.kubeconfig },
    });
    let [out, err] = ['', ''];
    child.stdout.on('data', (chunk: Buffer) => (out += chunk.toString()));
    child.stderr.on('data', (chunk: Buffer) => (err += chunk.toString()));
    const code = await new Promise((resolve) => child.once('close', resolve));
    if (code !== 0) throw new Error(`${here}\nended with ${String(code)}:\n${out}\n${err}\n${troubles()}`);
    return { out, err };
  }

  const troubles = (): string => SIDES.flatMap(({ side }) => kubelets[side].troubles).join('\n');
  const logs = (): string =>
    SIDES.flatMap(({ side }) => [...kubelets[side].pods].map(([name, { process }]) => `${name}:\n${process.log().slice(-1500)}`)).join(
      '\n',
    );
  const alive = (side: Side): RunningPod[] => [...kubelets[side].pods.values()].filter(({ endedIn }) => endedIn === undefined);
  const tokens = new Map<Side, string>();
  const metrics = async (side: Side, { process }: Pick<RunningPod, 'process'>): Promise<Map<string, number>> => {
    const { status, body } = await process.scrape(8443, tokens.get(side));
    expect(status).toBe(200);
    return new Map(
      body
        .split('\n')
        .filter((line) => line !== '' && !line.startsWith('#'))
        .map((line) => [/^\w+/.exec(line)?.[0] ?? '', Number(line.split(' ').at(-1))]),
    );
  };
  const holder = async (side: Side): Promise<string> =>
    (await client[side]().find(Leases, { namespace: NAMESPACE, name: `kubenode-${side}` }))?.spec?.holderIdentity ?? '';
  const leader = async (side: Side): Promise<RunningPod> => {
    const leading = async (): Promise<RunningPod | undefined> => {
      const [name = ''] = (await holder(side)).split('_');
      return alive(side).find(({ object }) => object.metadata.name === name);
    };
    await until(`a leader of the ${side}`, 30, async () => (await leading()) !== undefined);
    return (await leading()) as RunningPod;
  };
  /** And those before are gone. */
  async function rolledOut(side: Side, context: string): Promise<void> {
    await shell(`kubectl --context ${context} -n ${NAMESPACE} rollout status deployment/kubenode-${side} --timeout=60s`);
    await until('two pods', 40, () => alive(side).length === 2);
  }

  it('steps 2 to 5 and 7 can be followed word for word', async () => {
    // The rollout of step 2 ends when both pods answered their probes.
    const outputs: Record<number, { out: string; err: string }[]> = {};
    for (const step of [2, 3, 4, 5]) for (const commands of commandsOf(step)) (outputs[step] ??= []).push(await shell(commands));
    const outOf = (step: number): string => outputs[step]?.map(({ out }) => out).join('') ?? '';
    // One of them was changed after its rollout.
    await rolledOut('hub', 'hub');
    for (const step of [2, 3]) expect(outOf(step)).toMatch(/deployment "kubenode-(hub|cell)" successfully rolled out/);
    // No warning: of pod security, deprecation, or a value that means nothing.
    expect(
      Object.values(outputs)
        .flatMap((each) => each.map(({ err }) => err))
        .join(''),
    ).toBe('');
    // As the comments beside the commands describe.
    const answers = commandsOf(4)
      .join('')
      .split('\n')
      .flatMap((line) => (line.includes('can-i') ? [/# (yes|no)$/.exec(line)?.[1]] : []));
    expect(answers).toEqual(['yes', 'no']);
    expect(outOf(4).match(/^(yes|no)$/gm)).toEqual(answers);
    for (const { side, context } of SIDES) {
      for (const commands of commandsOf(7)) await shell(commands.replaceAll('--context prod', `--context ${context}`));
      tokens.set(side, (await shell(`kubectl --context ${context} -n monitoring create token prometheus`)).out.trim());
    }
  }, 180_000);

  it('each pod has the user, the rights, the file system and the memory that its manifest gives it', async () => {
    for (const { side } of SIDES) {
      expect(alive(side)).toHaveLength(2);
      for (const { process, object } of alive(side)) {
        const [container] = object.spec.containers;
        const { Uid, Gid, Groups, NoNewPrivs, CapEff, CapBnd, NSpid } = process.state();
        expect({ Uid, Gid, Groups: Groups?.trim(), NoNewPrivs, CapEff, CapBnd }).toEqual({
          Uid: '65532\t65532\t65532\t65532',
          Gid: '65532\t65532\t65532\t65532',
          Groups: '65532',
          NoNewPrivs: '1',
          CapEff: '0000000000000000',
          CapBnd: '0000000000000000',
        });
        expect(NSpid?.split('\t').at(-1)).toBe('1');
        expect((await process.get(8080, container?.livenessProbe?.httpGet.path ?? '')).status).toBe(200);
        const { limits = {}, requests = {} } = container?.resources ?? {};
        const resident = (await metrics(side, { process })).get('process_resident_memory_bytes');
        const peak = process.peakBytes() ?? resident ?? Infinity;
        expect(peak).toBeLessThan(bytesOf(limits['memory'] ?? ''));
        expect(resident).toBeLessThan(bytesOf(requests['memory'] ?? ''));
      }
    }
  });

  it('the Service for metrics selects both pods, by the port that answers', async () => {
    for (const { side } of SIDES) {
      const path = `/apis/discovery.k8s.io/v1/namespaces/${NAMESPACE}/endpointslices`;
      const slices = async () =>
        (
          (await client[side]().request({
            method: 'GET',
            path,
            query: { labelSelector: `kubernetes.io/service-name=kubenode-${side}-metrics` },
          })) as {
            items: {
              ports: { port: number; name: string }[];
              endpoints?: { targetRef: { name: string }; conditions: { ready: boolean } }[];
            }[];
          }
        ).items;
      const ready = async () => (await slices())[0]?.endpoints?.filter(({ conditions }) => conditions.ready).length;
      await until('both endpoints', 20, async () => (await ready()) === 2);
      const [slice] = await slices();
      expect(slice?.ports).toMatchObject([{ name: 'https', port: 8443 }]);
      expect(slice?.endpoints?.map(({ targetRef }) => targetRef.name).toSorted()).toEqual(
        alive(side)
          .map(({ object }) => object.metadata.name)
          .toSorted(),
      );
      await until('one of the two to lead', 20, async () => {
        const leading = await Promise.all(alive(side).map(async (pod) => (await metrics(side, pod)).get('kubenode_leader')));
        return leading.filter((each) => each === 1).length === 1 && leading.includes(0);
      });
    }
  });

  it('metrics are for who may read them: no other user, neither strangers nor other accounts', async () => {
    for (const { side, context } of SIDES) {
      const other = (await shell(`kubectl --context ${context} -n monitoring create token default`)).out.trim();
      for (const { process } of alive(side)) {
        expect((await process.scrape(8443)).status).toBe(401);
        expect((await process.scrape(8443, `${tokens.get(side)}x`)).status).toBe(401);
        expect((await process.scrape(8443, other)).status).toBe(403);
        expect((await process.get(8080, '/metrics')).status).toBe(404);
      }
    }
  });

  it('a commit comes from Git through the pods of hub and cell to a Machine', async () => {
    const { hub, cell } = { hub: client.hub(), cell: client.cell() };
    try {
      await until('the commit', 60, async () => (await hub.get(Fleets, { name: 'main' })).status?.commit !== undefined);
      await until('the cluster', 30, async () => (await hub.list(Clusters)).items.length === 1);
      await until('a machine', 60, async () => (await cell.list(Machines, { namespace: 'web' })).items.length === 1);
      const ledger = async () => await cell.find(DisruptionLedgers, { name: LEDGER_NAME });
      await until('the ledger', 30, async () => ((await ledger())?.status?.epoch ?? 0) > 0);
    } catch (error) {
      throw new Error(`${String(error)}\n${logs()}`, { cause: error });
    }
    // These pods have no seccomp profile, so as under deploy/seccomp.json.
    expect((await hub.get(Fleets, { name: 'main' })).status?.isolation).toBe('namespaces');
    const [machine] = (await cell.list(Machines, { namespace: 'web' })).items;
    expect(machine?.metadata.managedFields?.map(({ manager }) => manager)).toContain('kubenode-machineset');
    for (const commands of commandsOf(6)) await shell(commands);
    for (const [group, answer] of [
      ['web-team', 'yes'],
      ['others', 'no'],
    ])
      expect((await shell(`kubectl --context prod -n web auth can-i patch machines --as jo --as-group ${group}`)).out).toBe(`${answer}\n`);
    // With what the text explains of the owner table.
    const refused = await shell(
      `kubectl --context prod patch machineset web-a -n web --type merge -p '{"spec":{"provider":{"name":"other"}}}'`,
    ).catch((error: Error) => error.message);
    expect(refused).toContain('spec.provider is written by the hub, from Git: change it in fleet/ or rules/');
  }, 180_000);

  it('a token that is renewed in its file is taken up when the one before it has ended', async () => {
    const api = client.cell();
    const before = await holder('cell');
    // As a kubelet does: the new one is there before the old one ends.
    for (const pod of alive('cell')) await pod.renewToken();
    await api.request({ method: 'DELETE', path: `/api/v1/namespaces/${NAMESPACE}/secrets/${MORTAL}` });
    const review = { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenReview', spec: { token: mortal } };
    const isGood = async (): Promise<boolean> =>
      ((await api.post('/apis/authentication.k8s.io/v1/tokenreviews', review)) as { status: { authenticated?: boolean } }).status
        .authenticated === true;
    await until('the first token to end', 60, async () => !(await isGood()));
    const renewedAt = async (): Promise<number> =>
      Date.parse((await api.get(Leases, { namespace: NAMESPACE, name: 'kubenode-cell' })).spec?.renewTime ?? '');
    const from = await renewedAt();
    await until('the Lease to be renewed with the new token', 30, async () => (await renewedAt()) > from + 5000);
    expect(await holder('cell')).toBe(before);
    for (const pod of alive('cell')) expect(await pod.ready()).toBe(true);
  }, 120_000);

  it('a leader that is evicted gives way at once, another takes over, and a third comes', async () => {
    for (const { side, context } of SIDES) {
      await rolledOut(side, context);
      const first = await leader(side);
      const second = alive(side).find((pod) => pod !== first) as RunningPod;
      const evict = ({ object }: RunningPod) => {
        const { name } = object.metadata;
        return client[side]().post(`/api/v1/namespaces/${NAMESPACE}/pods/${name}/eviction`, {
          apiVersion: 'policy/v1',
          kind: 'Eviction',
          metadata: { name, namespace: NAMESPACE },
        });
      };
      const at = performance.now();
      await evict(first);
      // One at a time.
      await expect(evict(second)).rejects.toMatchObject({ status: 429 });
      // That one, or the one that is started instead of the first.
      const another = async (): Promise<boolean> => {
        const name = await holder(side);
        return name !== '' && !name.startsWith(`${first.object.metadata.name}_`);
      };
      await until(`another to lead the ${side}`, 30, another);
      // Sooner than its Lease would have run out.
      expect(performance.now() - at).toBeLessThan(12_000);
      await until('it to end', 30, () => first.endedIn !== undefined);
      expect(first.endedIn).toBeLessThan(first.object.spec.terminationGracePeriodSeconds * 1000);
      await until('it to report it', 20, async () => (await metrics(side, await leader(side))).get('kubenode_leader') === 1);
      await rolledOut(side, context);
    }
  }, 180_000);

  it('nothing ended unasked, and no request was refused, which would have been seen', async () => {
    expect(troubles()).toBe('');
    const refused = (): string[] => judge(audited.read()).refused;
    expect(refused()).toEqual([]);
    // By rights, and by a policy.
    const as = (account: string): string => `kubectl --context prod --as system:serviceaccount:${NAMESPACE}:${account}`;
    const [machine] = (await client.cell().list(Machines, { namespace: 'web' })).items;
    const tried = [`${as('kubenode-sync')} get secrets -A`, `${as('kubenode-machine')} -n web label machine ${machine?.metadata.name} a=b`];
    for (const command of tried) await expect(shell(command)).rejects.toThrow('forbidden');
    await until('both in the audit log', 20, () => refused().length === 2);
    expect(refused()).toEqual([
      expect.stringMatching(/kubenode-sync: list secrets .*: secrets is forbidden/),
      expect.stringMatching(/kubenode-machine: patch machines web\/web-a-.*: .*metadata.labels of machines are written by/),
    ]);
  }, 60_000);
});
