/** Requests on Machines as large as real ones: 12 components, about 8.5 kB stored with managedFields. */
import { CustomResourceDefinitions, Namespaces } from '../src/api/builtin.ts';
import { API_VERSION } from '../src/api/kind.ts';
import { MANAGERS } from '../src/api/names.ts';
import { Machines } from '../src/api/machine.ts';
import type { ApiRequest, Transport } from '../src/api/transport.ts';
import { createClient } from '../src/kube/httpclient.ts';

const COMPONENTS = 12;
const PATH = '/apis/kubenode.io/v1alpha1/namespaces/bench/machines';
const TIME = '2026-11-20T10:00:00Z';
const numbers = Array.from({ length: COMPONENTS }, (_, index) => index);

/** What Machines need to be there. */
export async function prepare(transport: Transport): Promise<void> {
  const client = createClient(transport);
  await client.create(CustomResourceDefinitions, Machines.crd());
  await client.create(Namespaces, { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'bench' } });
}

export const machineName = (index: number): string => `machine-${index}`;

export function createMachine(index: number): ApiRequest {
  const metadata = {
    name: machineName(index),
    namespace: 'bench',
    labels: { 'kubenode.io/machine-set': 'web', 'node.example.com/role': 'web' },
  };
  const spec = { failureDomain: 'rack-a', provider: { name: 'bench' }, labels: { role: 'web' }, components: entries(1) };
  return request('POST', PATH, 'application/json', 'kubenode-machineset', { apiVersion: API_VERSION, kind: 'Machine', metadata, spec });
}

/** A server-side apply that changes one entry. */
export function applyEntries(index: number, revision: number): ApiRequest {
  const metadata = { name: machineName(index), namespace: 'bench' };
  const object = { apiVersion: API_VERSION, kind: 'Machine', metadata, spec: { components: entries(revision) } };
  const sent = request('PATCH', `${PATH}/${machineName(index)}`, 'application/apply-patch+yaml', MANAGERS.machineComponentSet, object);
  return { ...sent, query: { ...sent.query, force: 'true' } };
}

/** A merge patch of the whole status, as a controller writes it; something in it is new. */
export function patchStatus(index: number, revision: number): ApiRequest {
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
  return request('PATCH', `${PATH}/${machineName(index)}/status`, 'application/merge-patch+json', MANAGERS.agent, body);
}

/** A small write to one Machine, to be told to who watches it. Another one each time: what changes nothing makes no event. */
export function nudge(index: number): ApiRequest {
  const body = { metadata: { annotations: { 'bench.kubenode.io/nudge': String(++nudges) } } };
  return request('PATCH', `${PATH}/${machineName(index)}`, 'application/merge-patch+json', 'bench', body);
}

let nudges = 0;

export function watchMachine(index: number): ApiRequest {
  return {
    method: 'GET',
    path: PATH,
    query: { watch: 'true', fieldSelector: `metadata.name=${machineName(index)}` },
    headers: { accept: 'application/json' },
  };
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
