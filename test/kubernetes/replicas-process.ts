/** One `kubenode controller --cell` that takes turns with others: stopped, woken and killed by a test. */
import { spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { kubeconfigText } from '@kubenode/embedded';
import type { Connection } from '../../src/kube/connect.ts';
import { openGate, type Gate, type Write } from './replicas-gate.ts';

interface Line {
  msg: string;
  /** By performance.now() of this process. */
  at: number;
  [field: string]: unknown;
}

export interface Replica {
  readonly gate: Gate;
  /** What it logged. */
  readonly lines: readonly Line[];
  /** How often it was elected. */
  terms(): number;
  leads(): boolean;
  /** Undefined while it lives. */
  readonly ended: { code: number | null; signal: NodeJS.Signals | null; at: number } | undefined;
  signal(name: 'SIGSTOP' | 'SIGCONT' | 'SIGKILL' | 'SIGTERM'): void;
  /** Writes that took effect since then, but for the Lease by which it stands and what it reports about itself. */
  effects(since: number): Write[];
  close(): Promise<void>;
}

const entry = fileURLToPath(new URL('../../bin/kubenode.js', import.meta.url));
const LEADS = 'leads';
const OVER = 'no longer leads';

/**
 * What a controller reports of a Machine by an apply to its status orders nothing and frees nothing: a late one is corrected by the leader, which
 * sees it. Its own repairs it notes there by a JSON patch, conditioned on what it read.
 */
const isStatusReport = ({ method, path, body }: Write): boolean =>
  method === 'PATCH' && !Array.isArray(body) && /\/machines\/[^/]+\/status$/.test(path);

const takesEffect = (write: Write): boolean =>
  (write.status ?? 0) < 300 && !isStatusReport(write) && !/\/leases(\/|$)|\/events(\/|$)|\/selfsubject/.test(write.path);

export async function startReplica(name: string, connection: Connection, dir: string, leaseSeconds: number): Promise<Replica> {
  const gate = await openGate(connection);
  const kubeconfig = join(dir, `${name}.kubeconfig`);
  const { token = '' } = connection;
  const text = kubeconfigText({ cluster: 'cell', server: gate.server, authority: gate.authority, token: String(token) });
  writeFileSync(kubeconfig, text, { mode: 0o600 });
  const args = ['controller', '--cell', '--leader-elect', 'true', '--lease-seconds', `${leaseSeconds}`, '--kubeconfig', kubeconfig];
  const child = spawn(process.execPath, [entry, ...args], {
    stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
    env: { ...process.env, KUBENODE_PARENT: 'ipc' },
  });
  // One that is stopped does not see that its parent is gone: the process at the other end of this pipe reports it.
  const guard = spawn('/bin/sh', ['-c', 'cat >/dev/null; kill -KILL "$1"', 'sh', `${child.pid}`], { stdio: ['pipe', 'ignore', 'ignore'] });
  const lines: Line[] = [];
  let ended: Replica['ended'];
  if (child.stdout === null) throw new Error('its output is not piped');
  createInterface({ input: child.stdout }).on('line', (line) => {
    lines.push({ ...(JSON.parse(line) as { msg: string }), at: performance.now() });
  });
  const gone = new Promise<void>((resolve) => {
    child.once('exit', (code, signal) => {
      ended = { code, signal, at: performance.now() };
      guard.kill('SIGKILL');
      resolve();
    });
  });
  return {
    gate,
    lines,
    terms: () => lines.filter(({ msg }) => msg === LEADS).length,
    leads: () => ended === undefined && lines.findLast(({ msg }) => msg === LEADS || msg === OVER)?.msg === LEADS,
    get ended() {
      return ended;
    },
    signal: (signal) => void child.kill(signal),
    effects: (since) => gate.writes.filter((write) => write.at >= since && takesEffect(write)),
    async close() {
      if (ended === undefined) child.kill('SIGKILL');
      await gone;
      await gate.close();
    },
  };
}
