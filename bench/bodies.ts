/** Requests on Machines as large as real ones: 12 components, about 8.5 kB stored with managedFields. */
import { setTimeout as pause } from 'node:timers/promises';
import { CustomResourceDefinitions, Namespaces } from '../src/api/builtin.ts';
import { API_VERSION } from '../src/api/kind.ts';
import { MANAGERS } from '../src/api/names.ts';
import { Machines } from '../src/api/machine.ts';
import type { Resource } from '../src/api/resource.ts';
import type { ApiRequest, Transport } from '../src/api/transport.ts';
import type { Client } from '../src/kube/client.ts';
import { createClient } from '../src/kube/http-client.ts';
import { bytesOf, closedLoop } from './load.ts';

/** A label that each Machine has another value of. */
const OWN = 'bench.kubenode.io/own';
const COMPONENTS = 12;
const BENCH = 'bench';
const pathIn = (namespace: string): string => `/apis/kubenode.io/v1alpha1/namespaces/${namespace}/machines`;
const TIME = '2026-11-20T10:00:00Z';
const numbers = Array.from({ length: COMPONENTS }, (_, index) => index);

/** What Machines need to be there. */
export async function prepare(transport: Transport): Promise<void> {
  const client = createClient(transport);
  await client.create(CustomResourceDefinitions, Machines.crd());
  await client.create(Namespaces, { apiVersion: 'v1', kind: 'Namespace', metadata: { name: BENCH } });
  await served(client, Machines);
}

/** A real server serves a kind some time after it was made. */
export async function served(client: Client, kind: Resource): Promise<void> {
  const deadline = performance.now() + 30_000;
  for (;;) {
    try {
      await client.list(kind, { limit: 1 });
      return;
    } catch (error) {
      if (performance.now() > deadline) throw error;
      await pause(50);
    }
  }
}

/** So many Machines whose spec and status have been written as controllers and agents write them. */
export async function fill(transport: Transport, machines: number): Promise<void> {
  await closedLoop(machines, 16, async (index) => {
    await bytesOf(transport, createMachine(index));
    await bytesOf(transport, patchStatus(index, 1));
  });
}

export const machineName = (index: number): string => `machine-${index}`;

export function createMachine(index: number, namespace: string = BENCH): ApiRequest {
  const metadata = {
    name: machineName(index),
    namespace,
    labels: { 'kubenode.io/machine-set': 'web', 'node.example.com/role': 'web', [OWN]: machineName(index) },
  };
  const spec = { failureDomain: 'rack-a', provider: { name: 'bench' }, labels: { role: 'web' }, components: entries(1) };
  return request('POST', pathIn(namespace), 'application/json', 'kubenode-machineset', {
    apiVersion: API_VERSION,
    kind: 'Machine',
    metadata,
    spec,
  });
}

/** A Machine with nothing in it, for what does not depend on its size. */
export function createSmall(index: number): ApiRequest {
  const metadata = { name: machineName(index), namespace: BENCH, labels: { [OWN]: machineName(index) } };
  return request('POST', pathIn(BENCH), 'application/json', 'bench', { apiVersion: API_VERSION, kind: 'Machine', metadata, spec: {} });
}

/** A server-side apply that changes one entry. */
export function applyEntries(index: number, revision: number): ApiRequest {
  const metadata = { name: machineName(index), namespace: BENCH };
  const object = { apiVersion: API_VERSION, kind: 'Machine', metadata, spec: { components: entries(revision) } };
  const sent = request(
    'PATCH',
    `${pathIn(BENCH)}/${machineName(index)}`,
    'application/apply-patch+yaml',
    MANAGERS.machineComponentSet,
    object,
  );
  return { ...sent, query: { ...sent.query, force: 'true' } };
}

/** A merge patch of the whole status, as a controller writes it; something in it is new. */
export function patchStatus(index: number, revision: number, namespace: string = BENCH): ApiRequest {
  const agent = { version: '0.1.0', apiLevel: 1, bootID: '0b6a1a6e-52ad-4a52-8a07-0d3d9f3a3f7e', os: 'linux', arch: 'amd64' };
  const components = numbers.map((each) => ({
    name: `component-${each}`,
    version: `1.${revision}.0`,
    content: '5f1c0a3f9e0d4b7c8a6e2d1f',
    revision,
    running: revision,
    state: 'Healthy',
    previous: '1.0.0',
    bootID: agent.bootID,
    switchedAt: TIME,
    healthySince: TIME,
  }));
  const condition = { type: 'AgentReady', status: 'True', reason: 'Working', message: `at revision ${revision}`, lastTransitionTime: TIME };
  const body = { status: { phase: 'Running', agent, components, conditions: [condition] } };
  return request('PATCH', `${pathIn(namespace)}/${machineName(index)}/status`, 'application/merge-patch+json', MANAGERS.agent, body);
}

/** A small write to one Machine, to be sent to who watches it. Another one each time: what changes nothing makes no event. */
export function nudge(index: number): ApiRequest {
  const body = { metadata: { annotations: { 'bench.kubenode.io/nudge': String(++nudges) } } };
  return request('PATCH', `${pathIn(BENCH)}/${machineName(index)}`, 'application/merge-patch+json', 'bench', body);
}

let nudges = 0;

/** The two ways to watch one Machine of many. */
export const ONE_OF_MANY = {
  name: (index: number) => ({ fieldSelector: `metadata.name=${machineName(index)}` }),
  label: (index: number) => ({ labelSelector: `${OWN}=${machineName(index)}` }),
};

export function watchMachine(index: number, query: Record<string, string> = ONE_OF_MANY.name(index)): ApiRequest {
  return { method: 'GET', path: pathIn(BENCH), query: { watch: 'true', ...query }, headers: { accept: 'application/json' } };
}

function entries(revision: number): object[] {
  return numbers.map((each) => ({
    name: `component-${each}`,
    action: 'Install',
    version: `1.${each === 0 ? revision : 1}.0`,
    values: { logLevel: 'info', cacheSize: '512Mi' },
    setUID: '9a4f3a2c-8a1e-4c0e-9d53-5f8b2c7d1e60',
    setRevision: 1,
    joinedRevision: 0,
    revision: each === 0 ? revision : 1,
    attempt: 1,
  }));
}

function request(method: ApiRequest['method'], path: string, type: string, fieldManager: string, body: object): ApiRequest {
  const headers = { accept: 'application/json', 'content-type': type, 'user-agent': 'kubenode-bench' };
  return { method, path, query: { fieldValidation: 'Strict', fieldManager }, headers, body: JSON.stringify(body) };
}
