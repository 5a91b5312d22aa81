#!/usr/bin/env node
// Stands in for the kubelet: has its own certificate, registers the Node, renews its Lease, keeps its Ready condition, and lets go
// of its pods when they are to end. It runs no pods.
import { readFileSync } from 'node:fs';
import { arch, cpus, platform, release as kernel, totalmem } from 'node:os';
import { cell, every } from './cell.js';
import { nodeIdentity, NODE_IDENTITY } from './nodeidentity.js';
import { log, service } from './service.js';

const LEASES = '/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases';
const ARCH = arch() === 'x64' ? 'amd64' : arch();

/** What the functions below need of this node. `statusAt`: when its status was last written. */
function kubeletOf(state) {
  const { bootstrap, nodeName, providerID } = state.config;
  return {
    state,
    nodeName,
    providerID,
    version: `v${state.release.version}`,
    path: `/api/v1/nodes/${nodeName}`,
    bootID: readFileSync('run/kubenode/boot-id', 'utf8').trim(),
    asNode: cell(bootstrap, NODE_IDENTITY),
    identity: nodeIdentity(bootstrap, nodeName, log),
    statusAt: 0,
  };
}

async function call({ asNode, identity }, ...request) {
  const answer = await asNode(...request);
  if (answer.status === 401) identity.drop();
  return answer;
}

const failed = (doing, { status, body }) => new Error(`${doing}: ${status} ${body?.message ?? ''}`);

async function register(kubelet) {
  const { nodeName, providerID, path } = kubelet;
  const found = await call(kubelet, 'GET', path);
  if (found.status === 200) return found.body;
  if (found.status !== 404) throw new Error(`reading the Node: ${found.status}`);
  const labels = { 'kubernetes.io/hostname': nodeName, 'kubernetes.io/os': 'linux', 'kubernetes.io/arch': ARCH };
  const node = { apiVersion: 'v1', kind: 'Node', metadata: { name: nodeName, labels }, spec: { providerID } };
  const made = await call(kubelet, 'POST', '/api/v1/nodes', node);
  if (made.status !== 201 && made.status !== 409) throw failed('registering the Node', made);
  log(`registered Node ${nodeName}`);
  return made.status === 201 ? made.body : (await call(kubelet, 'GET', path)).body;
}

const readyOf = (node) => node.status?.conditions?.find((condition) => condition.type === 'Ready');

function statusOf({ state, nodeName, providerID, bootID, version }, before, now) {
  const ready = {
    type: 'Ready',
    status: 'True',
    reason: 'KubeletReady',
    message: 'local-kubelet is posting ready status',
    lastHeartbeatTime: now,
    lastTransitionTime: before?.status === 'True' ? before.lastTransitionTime : now,
  };
  // Of `state`, since the configuration may be read again.
  const resources = { cpu: String(cpus().length), memory: `${Math.floor(totalmem() / 1024)}Ki`, pods: String(state.config.maxPods ?? 110) };
  return {
    conditions: [ready],
    addresses: [
      { type: 'InternalIP', address: '127.0.0.1' },
      { type: 'Hostname', address: nodeName },
    ],
    capacity: resources,
    allocatable: resources,
    nodeInfo: {
      architecture: ARCH,
      bootID,
      containerRuntimeVersion: 'local-runtime',
      kernelVersion: kernel(),
      kubeProxyVersion: '',
      kubeletVersion: version,
      machineID: providerID,
      operatingSystem: platform(),
      osImage: 'stand-in',
      systemUUID: providerID,
    },
  };
}

async function reportStatus(kubelet, node) {
  const status = statusOf(kubelet, readyOf(node), new Date().toISOString());
  const patched = await call(kubelet, 'PATCH', `${kubelet.path}/status`, { status }, 'application/strategic-merge-patch+json');
  if (patched.status !== 200) throw failed("writing the Node's status", patched);
  kubelet.statusAt = performance.now();
}

async function renew(kubelet) {
  const { nodeName } = kubelet;
  const renewTime = new Date().toISOString().replace('Z', '000Z');
  const spec = { holderIdentity: nodeName, leaseDurationSeconds: 40, renewTime };
  const patched = await call(kubelet, 'PATCH', `${LEASES}/${nodeName}`, { spec }, 'application/merge-patch+json');
  if (patched.status === 200) return;
  if (patched.status !== 404) throw failed('renewing the Lease', patched);
  const metadata = { name: nodeName, namespace: 'kube-node-lease' };
  const made = await call(kubelet, 'POST', LEASES, { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', metadata, spec });
  if (made.status !== 201) throw failed('making the Lease', made);
}

// Only the kubelet ends the pods of a node that answers: the API server waits until the kubelet reports that their containers are gone.
async function endPods(kubelet) {
  const listed = await call(kubelet, 'GET', `/api/v1/pods?fieldSelector=spec.nodeName%3D${kubelet.nodeName}&resourceVersion=0`);
  if (listed.status !== 200) throw failed('reading the pods', listed);
  for (const { metadata } of listed.body.items) {
    // It is the moment at which the grace is over.
    if (metadata.deletionTimestamp === undefined || Date.parse(metadata.deletionTimestamp) > Date.now()) continue;
    const options = { apiVersion: 'v1', kind: 'DeleteOptions', gracePeriodSeconds: 0, preconditions: { uid: metadata.uid } };
    const ended = await call(kubelet, 'DELETE', `/api/v1/namespaces/${metadata.namespace}/pods/${metadata.name}`, options);
    if (ended.status === 200) log(`pod ${metadata.namespace}/${metadata.name} has ended`);
    else if (ended.status !== 404 && ended.status !== 409) throw failed(`ending pod ${metadata.namespace}/${metadata.name}`, ended);
  }
}

// As the kubelet: the Lease every 10 s; the status every 5 minutes, or at once when what is there is not what is true.
async function heartbeat(kubelet) {
  await renew(kubelet);
  const node = await register(kubelet);
  const { kubeletVersion, bootID } = node.status?.nodeInfo ?? {};
  const differs = readyOf(node)?.status !== 'True' || kubeletVersion !== kubelet.version || bootID !== kubelet.bootID;
  if (differs || performance.now() - kubelet.statusAt > 300_000) await reportStatus(kubelet, node);
}

service((state) => {
  const kubelet = kubeletOf(state);
  let isRunning = false;
  every(10_000, log, async () => {
    await kubelet.identity.keep();
    if (isRunning) return;
    isRunning = true;
    every(2000, log, () => endPods(kubelet));
    every(10_000, log, () => heartbeat(kubelet));
  });
});
