/**
 * What schedulers and kubelets do with the pods of one namespace, as far as processes go: binds them to nodes, mounts what they mount, starts them,
 * asks their probes, reports to the API server, and ends them when they are to end.
 */
import { chmodSync, chownSync, existsSync, mkdirSync, renameSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Transport } from '../../src/api/transport.ts';
import type { Client } from '../../src/kube/client.ts';
import { hasReason } from '../../src/kube/api-error.ts';
import { createClient } from '../../src/kube/http-client.ts';
import type { Image } from './in-cluster-image.ts';
import { startPod, type Container, type PodProcess } from './in-cluster-pod.ts';

interface Projection {
  serviceAccountToken?: { path: string; expirationSeconds: number };
  configMap?: { name: string; items: { key: string; path: string }[] };
  downwardAPI?: { items: { path: string; fieldRef: { fieldPath: string } }[] };
}

interface Probe {
  httpGet: { path: string; port: number; scheme?: string };
}

export interface PodObject {
  metadata: { name: string; namespace: string; uid: string; deletionTimestamp?: string; labels?: Record<string, string> };
  spec: {
    nodeName?: string;
    serviceAccountName: string;
    terminationGracePeriodSeconds: number;
    enableServiceLinks?: boolean;
    securityContext?: { fsGroup?: number };
    volumes?: { name: string; emptyDir?: object; configMap?: { name: string }; projected?: { sources: Projection[] } }[];
    containers: (Container & { name: string; image: string; readinessProbe?: Probe; livenessProbe?: Probe })[];
  };
}

export interface RunningPod {
  object: PodObject;
  process: PodProcess;
  /** As its readiness probe asks. */
  ready(): Promise<boolean>;
  /** Puts a new token of its own where the pod finds the one that it has. */
  renewToken(): Promise<void>;
  /** How long it took to end, ms; undefined: it runs, or ended unasked. */
  endedIn: number | undefined;
}

export interface KubeletOptions {
  /** The administrator's. */
  transport: Transport;
  namespace: string;
  image: Image;
  folder: string;
  nodes: readonly string[];
  /** Port of this API server on this machine. */
  serverPort: number;
  /** Other ports of this machine that pods reach as they are. */
  ports: readonly number[];
  /** Of a ServiceAccount, with which pods begin; absent: one of their own, as always when it is renewed. */
  firstToken?: (account: string) => Promise<string>;
}

export interface Kubelet {
  /** By name; those that have gone stay. */
  readonly pods: ReadonlyMap<string, RunningPod>;
  /** What went wrong, also with processes that ended unasked. */
  readonly troubles: readonly string[];
  stop(): Promise<void>;
}

export function startKubelet(options: KubeletOptions): Kubelet {
  const { transport, namespace, image, folder, nodes, serverPort, ports } = options;
  const admin = createClient(transport, { userAgent: 'scheduler' });
  /** The identity of a kubelet, with the rights that Kubernetes gives it. */
  const asNode = (node: string): Client =>
    createClient(
      (request) =>
        transport({
          ...request,
          headers: { ...request.headers, 'impersonate-user': `system:node:${node}`, 'impersonate-group': 'system:nodes' },
        }),
      { userAgent: 'kubelet' },
    );
  const path = (name = ''): string => `/api/v1/namespaces/${namespace}/pods${name === '' ? '' : `/${name}`}`;
  const pods = new Map<string, RunningPod>();
  const troubles: string[] = [];
  const working = new Set<string>();
  const ended = new AbortController();
  let started = 0;

  async function bind(pod: PodObject): Promise<void> {
    const { name } = pod.metadata;
    const target = { apiVersion: 'v1', kind: 'Node', name: nodes[started++ % nodes.length] };
    await admin.post(`${path(name)}/binding`, { apiVersion: 'v1', kind: 'Binding', metadata: { name }, target });
  }

  async function tokenOf({ metadata, spec }: PodObject, expirationSeconds: number): Promise<string> {
    const answer = await asNode(spec.nodeName ?? '').post(
      `/api/v1/namespaces/${namespace}/serviceaccounts/${spec.serviceAccountName}/token`,
      {
        apiVersion: 'authentication.k8s.io/v1',
        kind: 'TokenRequest',
        spec: { expirationSeconds, boundObjectRef: { apiVersion: 'v1', kind: 'Pod', name: metadata.name, uid: metadata.uid } },
      },
    );
    return (answer as { status: { token: string } }).status.token;
  }

  async function configMapOf({ spec }: PodObject, name: string): Promise<{ data: Record<string, string> }> {
    const path = `/api/v1/namespaces/${namespace}/configmaps/${name}`;
    return (await asNode(spec.nodeName ?? '').request({ method: 'GET', path })) as { data: Record<string, string> };
  }

  async function projected(pod: PodObject, sources: readonly Projection[], token?: string): Promise<Record<string, string>> {
    const files: Record<string, string> = {};
    for (const { serviceAccountToken, configMap, downwardAPI } of sources) {
      if (serviceAccountToken !== undefined)
        files[serviceAccountToken.path] = token ?? (await tokenOf(pod, serviceAccountToken.expirationSeconds));
      if (configMap !== undefined) {
        const { data } = await configMapOf(pod, configMap.name);
        for (const { key, path } of configMap.items) files[path] = data[key] ?? '';
      }
      for (const { path, fieldRef } of downwardAPI?.items ?? []) {
        if (fieldRef.fieldPath !== 'metadata.namespace') throw new Error(`which value is ${fieldRef.fieldPath}?`);
        files[path] = pod.metadata.namespace;
      }
    }
    return files;
  }

  async function start(pod: PodObject): Promise<void> {
    const { name } = pod.metadata;
    const [container, ...more] = pod.spec.containers;
    if (container === undefined || more.length > 0) throw new Error(`pod ${name} has ${more.length + 1} containers`);
    const own = join(folder, String(pods.size + 1));
    const { fsGroup } = pod.spec.securityContext ?? {};
    const volumes = new Map<string, string>();
    let renewToken: RunningPod['renewToken'] = () => Promise.reject(new Error(`pod ${name} has no token`));
    for (const volume of pod.spec.volumes ?? []) {
      const at = join(own, 'v', volume.name);
      mkdirSync(at, { recursive: true });
      volumes.set(volume.name, at);
      if (volume.emptyDir !== undefined) {
        if (fsGroup !== undefined) chownSync(at, 0, fsGroup);
        chmodSync(at, 0o2770);
      } else if (volume.configMap !== undefined) {
        const { data } = await configMapOf(pod, volume.configMap.name);
        writeAtomically(at, data, fsGroup);
      } else if (volume.projected !== undefined) {
        const { sources } = volume.projected;
        const write = async (token?: string): Promise<void> => writeAtomically(at, await projected(pod, sources, token), fsGroup);
        await write(await options.firstToken?.(pod.spec.serviceAccountName));
        renewToken = () => write();
      } else throw new Error(`which volume is ${volume.name} of pod ${name}?`);
    }
    const process = await startPod({
      name,
      image,
      container,
      fsGroup,
      env: await environment(pod, container),
      volumes,
      folder: own,
      reaches: new Map([[443, serverPort], ...ports.map((port) => [port, port] as const)]),
    });
    const probed = container.readinessProbe?.httpGet;
    const running: RunningPod = {
      object: pod,
      process,
      renewToken,
      endedIn: undefined,
      ready: async () =>
        probed === undefined ||
        (await process.get(probed.port, probed.path).then(
          ({ status }) => status >= 200 && status < 400,
          () => false,
        )),
    };
    pods.set(name, running);
    void watchEnd(name, process);
    await reportPod(running, false);
  }

  async function watchEnd(name: string, process: PodProcess): Promise<void> {
    const { code, signal } = await process.ended;
    if (working.has(`end ${name}`) || ended.signal.aborted) return;
    troubles.push(`pod ${name} ended by itself (${signal ?? code}):\n${process.log().slice(-2000)}`);
  }

  /** The environment that kubelet and runtime give: from the image, from the services of the namespace, and from the pod. */
  async function environment(pod: PodObject, container: Container): Promise<Record<string, string>> {
    const env: Record<string, string> = {
      PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
      HOSTNAME: pod.metadata.name,
      HOME: '/',
      KUBERNETES_SERVICE_HOST: '127.0.0.1',
      KUBERNETES_SERVICE_PORT: '443',
      KUBERNETES_SERVICE_PORT_HTTPS: '443',
      KUBERNETES_PORT: 'tcp://127.0.0.1:443',
    };
    if (pod.spec.enableServiceLinks !== false) {
      const list = (await admin.request({ method: 'GET', path: `/api/v1/namespaces/${namespace}/services` })) as ServiceList;
      for (const { metadata, spec } of list.items) {
        const prefix = metadata.name.toUpperCase().replaceAll('-', '_');
        const [{ port } = { port: 0 }] = spec.ports;
        env[`${prefix}_SERVICE_HOST`] = spec.clusterIP;
        env[`${prefix}_SERVICE_PORT`] = String(port);
        env[`${prefix}_PORT`] = `tcp://${spec.clusterIP}:${port}`;
      }
    }
    for (const { name, value, valueFrom } of container.env ?? []) {
      if (valueFrom !== undefined) throw new Error(`where does ${name} come from?`);
      env[name] = value ?? '';
    }
    return env;
  }

  /** Its status, as its node reports it. */
  async function reportPod({ object }: RunningPod, ready: boolean): Promise<void> {
    const { name } = object.metadata;
    const [container] = object.spec.containers;
    const now = new Date().toISOString();
    const condition = (type: string, is: boolean) => ({ type, status: is ? 'True' : 'False', lastTransitionTime: now });
    const podIP = `10.244.0.${[...pods.keys()].indexOf(name) + 1}`;
    const status = {
      phase: 'Running',
      podIP,
      podIPs: [{ ip: podIP }],
      startTime: now,
      conditions: [condition('Initialized', true), condition('ContainersReady', ready), condition('Ready', ready)],
      containerStatuses: [
        {
          name: container?.name,
          image: container?.image,
          imageID: 'local',
          ready,
          started: true,
          restartCount: 0,
          state: { running: { startedAt: now } },
        },
      ],
    };
    await asNode(object.spec.nodeName ?? '').request({
      method: 'PATCH',
      path: `${path(name)}/status`,
      headers: { 'content-type': 'application/strategic-merge-patch+json' },
      body: JSON.stringify({ status }),
    });
  }

  async function end(pod: PodObject): Promise<void> {
    const { name } = pod.metadata;
    const running = pods.get(name);
    if (running !== undefined) {
      const at = performance.now();
      running.process.signal('SIGTERM');
      const late = setTimeout(() => void running.process.stop(), pod.spec.terminationGracePeriodSeconds * 1000);
      const { code, signal } = await running.process.ended;
      clearTimeout(late);
      running.endedIn = performance.now() - at;
      if (code !== 0)
        troubles.push(`pod ${name} was asked to end and did so with ${signal ?? code}:\n${running.process.log().slice(-2000)}`);
    }
    await asNode(pod.spec.nodeName ?? '').request({
      method: 'DELETE',
      path: path(name),
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ apiVersion: 'v1', kind: 'DeleteOptions', gracePeriodSeconds: 0, preconditions: { uid: pod.metadata.uid } }),
    });
  }

  const isReady = new Map<string, boolean>();
  async function probe(running: RunningPod): Promise<void> {
    const { name } = running.object.metadata;
    const ready = await running.ready();
    if (isReady.get(name) === ready || working.has(`end ${name}`)) return;
    await reportPod(running, ready);
    isReady.set(name, ready);
  }

  /** One thing of one pod at a time; what fails is tried again. */
  function once(what: string, work: () => Promise<void>, forgets = true): void {
    if (working.has(what)) return;
    working.add(what);
    let failures = 0;
    void (async () => {
      while (!ended.signal.aborted) {
        try {
          await work();
          break;
        } catch (error) {
          // Rights and ConfigMaps are known a moment after what they are of.
          failures += 1;
          if (failures === 50) troubles.push(`${what}: ${error instanceof Error ? error.message : String(error)}`);
          await delay(200);
        }
      }
      if (forgets) working.delete(what);
    })();
  }

  async function syncPods(): Promise<void> {
    const { items } = (await admin.request({ method: 'GET', path: path() })) as { items: PodObject[] };
    for (const pod of items) {
      const { name, deletionTimestamp } = pod.metadata;
      const running = pods.get(name);
      if (deletionTimestamp !== undefined) once(`end ${name}`, () => end(pod), false);
      else if (pod.spec.nodeName === undefined) once(`bind ${name}`, () => bind(pod), false);
      else if (running === undefined) once(`start ${name}`, () => start(pod), false);
      else once(`probe ${name}`, () => probe(running));
    }
  }

  /** Endpoints are of pods whose Node is there and answers. */
  async function heartbeat(node: string): Promise<void> {
    const now = new Date().toISOString();
    const path = '/api/v1/nodes';
    const status = {
      conditions: [{ type: 'Ready', status: 'True', reason: 'KubeletReady', lastHeartbeatTime: now, lastTransitionTime: began }],
    };
    const object = { apiVersion: 'v1', kind: 'Node', metadata: { name: node } };
    await asNode(node)
      .post(path, object)
      .catch((error: unknown) => {
        if (!hasReason(error, 'AlreadyExists')) throw error;
      });
    await asNode(node).request({
      method: 'PATCH',
      path: `${path}/${node}/status`,
      headers: { 'content-type': 'application/strategic-merge-patch+json' },
      body: JSON.stringify({ status }),
    });
  }

  const began = new Date().toISOString();
  const beating = (async () => {
    while (!ended.signal.aborted) {
      for (const node of nodes) once(`heartbeat of ${node}`, () => heartbeat(node));
      await delay(10_000, undefined, { signal: ended.signal }).catch(() => undefined);
    }
  })();

  const syncing = (async () => {
    while (!ended.signal.aborted) {
      await syncPods().catch((error: unknown) => troubles.push(`syncing pods: ${String(error)}`));
      await delay(200);
    }
  })();

  return {
    pods,
    troubles,
    async stop() {
      ended.abort(new Error('the kubelets stop'));
      await Promise.all([syncing, beating]);
      await Promise.all([...pods.values()].map(({ process }) => process.stop()));
    },
  };
}

interface ServiceList {
  items: { metadata: { name: string }; spec: { clusterIP: string; ports: { port: number }[] } }[];
}

let versions = 0;

/** As a kubelet changes a projected volume: a folder beside the last, to which a link is turned in one step. */
function writeAtomically(at: string, files: Record<string, string>, fsGroup: number | undefined): void {
  const folder = `..${(versions += 1)}`;
  mkdirSync(join(at, folder), { mode: 0o755 });
  for (const [name, text] of Object.entries(files)) {
    const file = join(at, folder, name);
    writeFileSync(file, text, { mode: 0o640 });
    if (fsGroup !== undefined) chownSync(file, 0, fsGroup);
  }
  symlinkSync(folder, join(at, '..data_tmp'));
  renameSync(join(at, '..data_tmp'), join(at, '..data'));
  for (const name of Object.keys(files)) if (!existsSync(join(at, name))) symlinkSync(join('..data', name), join(at, name));
}
