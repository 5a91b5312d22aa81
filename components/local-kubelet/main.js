#!/usr/bin/env node
// Stands in for the kubelet: has its own certificate, registers the Node, renews its Lease, keeps its Ready condition, and lets go
// of its pods when they are to end. It runs no pods.
import { readFileSync } from 'node:fs';
import { arch, cpus, platform, release as kernel, totalmem } from 'node:os';
import { cell, every } from './cell.js';
import { nodeIdentity, NODE_IDENTITY } from './nodeidentity.js';
import { log, service } from './service.js';

service((state) => {
  const { bootstrap, nodeName, providerID } = state.config;
  const asNode = cell(bootstrap, NODE_IDENTITY);
  const identity = nodeIdentity(bootstrap, nodeName, log);
  const path = `/api/v1/nodes/${nodeName}`;
  const lease = `/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/${nodeName}`;
  const bootID = readFileSync('run/kubenode/boot-id', 'utf8').trim();
  let statusAt = 0;

  async function call(...request) {
    const answer = await asNode(...request);
    if (answer.status === 401) identity.drop();
    return answer;
  }

  const micro = () => new Date().toISOString().replace('Z', '000Z');

  async function register() {
    const found = await call('GET', path);
    if (found.status === 200) return found.body;
    if (found.status !== 404) throw new Error(`reading the Node: ${found.status}`);
    const node = {
      apiVersion: 'v1',
      kind: 'Node',
      metadata: {
        name: nodeName,
        labels: {
          'kubernetes.io/hostname': nodeName,
          'kubernetes.io/os': 'linux',
          'kubernetes.io/arch': arch() === 'x64' ? 'amd64' : arch(),
        },
      },
      spec: { providerID },
    };
    const made = await call('POST', '/api/v1/nodes', node);
    if (made.status !== 201 && made.status !== 409) throw new Error(`registering the Node: ${made.status} ${made.body?.message ?? ''}`);
    log(`registered Node ${nodeName}`);
    return made.status === 201 ? made.body : (await call('GET', path)).body;
  }

  async function reportStatus(node) {
    const now = new Date().toISOString();
    const before = node.status?.conditions?.find((condition) => condition.type === 'Ready');
    const ready = {
      type: 'Ready',
      status: 'True',
      reason: 'KubeletReady',
      message: 'local-kubelet is posting ready status',
      lastHeartbeatTime: now,
      lastTransitionTime: before?.status === 'True' ? before.lastTransitionTime : now,
    };
    const resources = {
      cpu: String(cpus().length),
      memory: `${Math.floor(totalmem() / 1024)}Ki`,
      pods: String(state.config.maxPods ?? 110),
    };
    const status = {
      conditions: [ready],
      addresses: [
        { type: 'InternalIP', address: '127.0.0.1' },
        { type: 'Hostname', address: nodeName },
      ],
      capacity: resources,
      allocatable: resources,
      nodeInfo: {
        architecture: arch() === 'x64' ? 'amd64' : arch(),
        bootID,
        containerRuntimeVersion: 'local-runtime',
        kernelVersion: kernel(),
        kubeProxyVersion: '',
        kubeletVersion: `v${state.release.version}`,
        machineID: providerID,
        operatingSystem: platform(),
        osImage: 'stand-in',
        systemUUID: providerID,
      },
    };
    const patched = await call('PATCH', `${path}/status`, { status }, 'application/strategic-merge-patch+json');
    if (patched.status !== 200) throw new Error(`writing the Node's status: ${patched.status} ${patched.body?.message ?? ''}`);
    statusAt = performance.now();
  }

  async function renew() {
    const spec = { holderIdentity: nodeName, leaseDurationSeconds: 40, renewTime: micro() };
    const patched = await call('PATCH', lease, { spec }, 'application/merge-patch+json');
    if (patched.status === 200) return;
    if (patched.status !== 404) throw new Error(`renewing the Lease: ${patched.status} ${patched.body?.message ?? ''}`);
    const object = {
      apiVersion: 'coordination.k8s.io/v1',
      kind: 'Lease',
      metadata: { name: nodeName, namespace: 'kube-node-lease' },
      spec,
    };
    const made = await call('POST', '/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases', object);
    if (made.status !== 201) throw new Error(`making the Lease: ${made.status} ${made.body?.message ?? ''}`);
  }

  // Nobody else ends the pods of a node that answers: the API server waits until the kubelet says that their containers are gone.
  async function endPods() {
    const listed = await call('GET', `/api/v1/pods?fieldSelector=spec.nodeName%3D${nodeName}&resourceVersion=0`);
    if (listed.status !== 200) throw new Error(`reading the pods: ${listed.status} ${listed.body?.message ?? ''}`);
    for (const { metadata } of listed.body.items) {
      // It is the moment at which the grace is over.
      if (metadata.deletionTimestamp === undefined || Date.parse(metadata.deletionTimestamp) > Date.now()) continue;
      const options = { apiVersion: 'v1', kind: 'DeleteOptions', gracePeriodSeconds: 0, preconditions: { uid: metadata.uid } };
      const ended = await call('DELETE', `/api/v1/namespaces/${metadata.namespace}/pods/${metadata.name}`, options);
      if (ended.status === 200) log(`pod ${metadata.namespace}/${metadata.name} has ended`);
      else if (ended.status !== 404 && ended.status !== 409)
        throw new Error(`ending pod ${metadata.namespace}/${metadata.name}: ${ended.status} ${ended.body?.message ?? ''}`);
    }
  }

  // As the kubelet: the Lease every 10 s; the status every 5 minutes, or at once when what is there is not what is true.
  async function heartbeat() {
    await renew();
    const node = await register();
    const ready = node.status?.conditions?.find((condition) => condition.type === 'Ready');
    const differs =
      ready?.status !== 'True' ||
      node.status?.nodeInfo?.kubeletVersion !== `v${state.release.version}` ||
      node.status?.nodeInfo?.bootID !== bootID;
    if (differs || performance.now() - statusAt > 300_000) await reportStatus(node);
  }

  let has = false;
  every(10_000, log, async () => {
    await identity.keep();
    if (has) return;
    has = true;
    every(2000, log, endPods);
    every(10_000, log, heartbeat);
  });
});
