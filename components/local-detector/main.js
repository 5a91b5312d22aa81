#!/usr/bin/env node
// Stands in for node-problem-detector: turns lines of the node's kernel log into Node conditions, as its kernel monitor does. It speaks as the
// node, whose kubelet's certificate it uses.
import { closeSync, existsSync, fstatSync, openSync, readSync } from 'node:fs';
import { cell, every } from './cell.js';
import { NODE_IDENTITY } from './nodeidentity.js';
import { log, service } from './service.js';

const RULES = [
  {
    type: 'KernelDeadlock',
    reason: 'TaskHung',
    pattern: /task \S+:\w+ blocked for more than \w+ seconds\./,
    healthy: 'KernelHasNoDeadlock',
  },
  {
    type: 'ReadonlyFilesystem',
    reason: 'FilesystemIsReadOnly',
    pattern: /Remounting filesystem read-only/,
    healthy: 'FilesystemIsNotReadOnly',
  },
];

service((state) => {
  const call = cell(state.config.bootstrap, NODE_IDENTITY);
  const conditions = new Map();
  const now = () => new Date().toISOString();
  for (const rule of RULES)
    conditions.set(rule.type, { type: rule.type, status: 'False', reason: rule.healthy, message: '', lastTransitionTime: now() });
  // As --k8s-exporter-heartbeat-period: how soon a node is known to be healed hangs on it.
  const heartbeatMs = (state.config.heartbeatSeconds ?? 300) * 1000;
  let offset;
  let reportedAt = -Infinity;
  let changed = true;

  function readNewLines() {
    let file;
    try {
      file = openSync('var/log/kern.log', 'r');
    } catch (error) {
      if (error.code !== 'ENOENT') throw error;
      offset = 0;
      return [];
    }
    try {
      const size = fstatSync(file).size;
      // Like a kernel log after a restart: what was there before the detector started is not news. A shorter file was rotated.
      offset = offset === undefined ? size : size < offset ? 0 : offset;
      const bytes = Buffer.alloc(Math.min(size - offset, 65_536));
      const read = readSync(file, bytes, 0, bytes.length, offset);
      const end = bytes.subarray(0, read).lastIndexOf(10) + 1;
      offset += end;
      return bytes.subarray(0, end).toString('utf8').split('\n');
    } finally {
      closeSync(file);
    }
  }

  every(1000, log, async () => {
    for (const line of readNewLines()) {
      for (const rule of RULES) {
        if (!rule.pattern.test(line)) continue;
        log(`${rule.type}: ${line}`);
        conditions.set(rule.type, {
          type: rule.type,
          status: 'True',
          reason: rule.reason,
          message: line.slice(0, 512),
          lastTransitionTime: now(),
        });
        changed = true;
      }
    }
    if (!changed && performance.now() - reportedAt < heartbeatMs) return;
    if (!existsSync(NODE_IDENTITY)) return; // nor has it its certificate
    const status = { conditions: [...conditions.values()].map((condition) => ({ ...condition, lastHeartbeatTime: now() })) };
    const patched = await call(
      'PATCH',
      `/api/v1/nodes/${state.config.nodeName}/status`,
      { status },
      'application/strategic-merge-patch+json',
    );
    if (patched.status === 404) return; // the kubelet has not registered the Node yet
    if (patched.status !== 200) throw new Error(`writing conditions: ${patched.status} ${patched.body?.message ?? ''}`);
    changed = false;
    reportedAt = performance.now();
  });
});
