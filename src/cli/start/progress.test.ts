import { afterEach, beforeEach, expect, it } from 'vitest';
import { API_VERSION } from '../../api/kind.ts';
import { Fleets } from '../../api/fleet.ts';
import { Machines, type Machine } from '../../api/machine.ts';
import { RemedyOperationJobs, type RemedyOperationJob } from '../../api/remedy-operation-job.ts';
import { Rollouts, type Rollout } from '../../api/rollout.ts';
import { systemClock } from '../../kube/clock.ts';
import { createClient } from '../../kube/http-client.ts';
import { fakeApiServer, type FakeApiServer } from '../../kube/testing/api-server.ts';
import { recordingLog } from '../../kube/testing/log.ts';
import { waitFor } from '../../kube/testing/wait-for.ts';
import { followProgress, type Progress } from './progress.ts';

type Phase = 'Pending' | 'Waiting' | 'Verified' | 'Blocked';
const STAGES = ['test', 'prod'];
const RULES = Array.from({ length: 8 }, (_, index) => `NodeRemedier/rule-${index}`);
const FIRST = ['DefenderPolicy/default', 'MachineComponentSet/local-kubelet', 'MachineSet/web/web', 'Namespace/web', ...RULES];

let hub: FakeApiServer;
let cell: FakeApiServer;
let progress: Progress;
let lines: string[];
const log = recordingLog();

beforeEach(() => {
  hub = fakeApiServer();
  cell = fakeApiServer();
  lines = [];
  const clients = new Map([
    ['hub', createClient(hub.transport)],
    ['test', createClient(cell.transport)],
  ]);
  progress = followProgress({
    clients,
    output: { print: () => undefined, report: (word, message) => void lines.push(`${word}: ${message}`), live: false, plain: true },
    clock: systemClock(),
    log,
    signal: new AbortController().signal,
  });
});
afterEach(() => progress.stop());

/** Where each unit stands on each cluster. */
function rollout(units: string[], of: (unit: string, cluster: string) => Phase, name = 'main-1'): Rollout {
  return {
    apiVersion: API_VERSION,
    kind: 'Rollout',
    metadata: { name },
    spec: {
      fleet: 'main',
      commit: 'c',
      sequence: Number(name.slice('main-'.length)),
      stages: STAGES.map((stage) => ({ name: stage, clusters: [stage], soakSeconds: 0, maxClusters: 1 })),
      units: units.map((unit) => ({ unit, clusters: STAGES.map((each) => ({ name: each, digest: 'd' })) })),
    },
    status: {
      phase: units.every((unit) => STAGES.every((each) => of(unit, each) === 'Verified')) ? 'Done' : 'Progressing',
      units: units.map((unit) => ({
        unit,
        phase: STAGES.every((each) => of(unit, each) === 'Verified') ? 'Done' : 'Progressing',
        lane: 'Forward',
        clusters: STAGES.map((each) => ({
          name: each,
          phase: of(unit, each),
          lane: 'Forward',
          ...(of(unit, each) === 'Verified' ? { verifiedAt: '2026-11-20T00:00:00Z' } : {}),
          ...(of(unit, each) === 'Blocked' ? { message: 'no route' } : {}),
        })),
      })),
    },
  };
}

const machine = (phase: 'Pending' | 'Provisioning' | 'Installing' | 'Running'): Machine => ({
  apiVersion: API_VERSION,
  kind: 'Machine',
  metadata: { namespace: 'web', name: 'a' },
  spec: {},
  status: { phase },
});

async function begin(): Promise<void> {
  hub.put(Fleets, {
    apiVersion: API_VERSION,
    kind: 'Fleet',
    metadata: { name: 'main' },
    spec: { source: { path: '/x' }, stages: [{ name: 'test', clusterSelector: {} }] },
    status: { conditions: [{ type: 'Ready', status: 'False', reason: 'X', message: 'y', lastTransitionTime: '2026-11-20T00:00:00Z' }] },
  });
  await progress.firstState(10_000);
  await waitFor(() => hub.watches.open === 3 && cell.watches.open === 2, { what: `watches; ${JSON.stringify(log.lines)}` });
  progress.start();
  lines.length = 0;
}
const reported = async (line: string): Promise<void> =>
  void (await waitFor(() => lines.includes(line), { what: `${line}; reported: ${lines.join('\n')}` }));

it('reports what is only applied and accepted in one line a cluster, and of what changes machines step by step', async () => {
  await begin();
  const order: Phase[] = ['Pending', 'Waiting', 'Verified'];
  const pairs = STAGES.flatMap((cluster) => FIRST.map((unit) => `${cluster} ${unit}`));
  for (let step = 0; step <= pairs.length; step += 1) {
    // One unit in one cluster after the other is applied, and the one before it verified.
    hub.put(
      Rollouts,
      rollout(FIRST, (unit, cluster) => order[Math.max(0, Math.min(2, step - pairs.indexOf(`${cluster} ${unit}`)))] ?? 'Pending'),
    );
  }
  hub.put(
    Rollouts,
    rollout(FIRST, () => 'Verified'),
  );
  await reported('done: main-1: all 12 units are done on every cluster');
  const component = 'main-1 MachineComponentSet/local-kubelet';
  const machines = 'main-1 MachineSet/web/web';
  expect(lines).toEqual([
    `doing: ${component} on test: applied`,
    `done: ${component} on test: verified`,
    `doing: ${machines} on test: applied`,
    `done: ${machines} on test: verified`,
    'done: main-1 DefenderPolicy/default, Namespace/web, 8 NodeRemediers on test: verified',
    `doing: ${component} on prod: applied`,
    `done: ${component} on prod: verified`,
    `done: ${component}: done on every cluster`,
    `doing: ${machines} on prod: applied`,
    `done: ${machines} on prod: verified`,
    `done: ${machines}: done on every cluster`,
    'done: main-1 DefenderPolicy/default, Namespace/web, 8 NodeRemediers on prod: verified',
    'done: main-1: all 12 units are done on every cluster',
  ]);
});

it('reports a commit that changes a rule or two step by step', async () => {
  await begin();
  hub.put(
    Rollouts,
    rollout(['NodeRemedier/not-ready'], (_, cluster) => (cluster === 'test' ? 'Waiting' : 'Pending')),
  );
  hub.put(
    Rollouts,
    rollout(['NodeRemedier/not-ready'], () => 'Verified'),
  );
  await reported('done: main-1 NodeRemedier/not-ready: done on every cluster');
  expect(lines.slice(0, 2)).toEqual([
    'doing: main-1 NodeRemedier/not-ready on test: applied',
    'done: main-1 NodeRemedier/not-ready on test: verified',
  ]);
});

it('reports each unit that is in trouble, however many there are', async () => {
  await begin();
  const blocked = rollout(FIRST, (unit) => (unit === 'NodeRemedier/rule-3' ? 'Blocked' : 'Waiting'));
  hub.put(Rollouts, blocked);
  const units = blocked.status?.units?.map((unit) =>
    unit.unit === 'NodeRemedier/rule-3' ? { ...unit, phase: 'Halted' as const, message: 'test: refused' } : unit,
  );
  hub.put(Rollouts, { ...blocked, status: { ...blocked.status, ...(units === undefined ? {} : { units }) } });
  await reported('failed: main-1 NodeRemedier/rule-3 halted: test: refused');
  expect(lines).toContain('waiting: main-1 NodeRemedier/rule-3 on test: no route');
});

it('reports nothing that ended before it started, and nothing of the first moments of a machine', async () => {
  hub.put(
    Rollouts,
    rollout(FIRST, () => 'Verified'),
  );
  cell.put(Machines, machine('Running'));
  await begin();
  hub.put(
    Rollouts,
    rollout(['Namespace/web'], () => 'Verified', 'main-2'),
  );
  await reported('done: main-2 Namespace/web: done on every cluster');
  for (const phase of ['Pending', 'Provisioning', 'Installing', 'Running'] as const) {
    cell.put(Machines, { ...machine(phase), metadata: { namespace: 'web', name: 'b' } });
  }
  await reported('done: test: machine b is Running');
  expect(lines.filter((line) => !line.includes('main-2'))).toEqual([
    'doing: test: machine b is Installing',
    'done: test: machine b is Running',
  ]);
});

const job = (name: string, status: RemedyOperationJob['status']): RemedyOperationJob => ({
  apiVersion: API_VERSION,
  kind: 'RemedyOperationJob',
  metadata: { namespace: 'web', name },
  spec: {
    rule: 'readonly-filesystem',
    machine: { name: 'a', uid: 'u' },
    node: 'node-a',
    rung: 0,
    attempt: 1,
    action: 'Reboot',
    timeoutSeconds: 60,
    healedWhen: { condition: 'ReadonlyFilesystem', is: 'False', forSeconds: 60 },
    priority: 1,
    matchedSince: '2026-11-20T00:00:00Z',
    why: 'ReadonlyFilesystem is True',
  },
  ...(status === undefined ? {} : { status }),
});

it('prints each step of a repair once, a refusal with the limit, and what a rule in Shadow would do', async () => {
  cell.put(RemedyOperationJobs, job('old', { phase: 'Succeeded' }));
  await begin();
  cell.put(RemedyOperationJobs, job('a', undefined));
  for (let times = 0; times < 2; times += 1)
    cell.put(
      RemedyOperationJobs,
      job('a', { phase: 'Pending', verdict: { allowed: false, limit: 'Unavailable' }, answer: 'Unavailable 1/1' }),
    );
  for (const phase of ['Granted', 'Running', 'Verifying'] as const) cell.put(RemedyOperationJobs, job('a', { phase }));
  cell.put(RemedyOperationJobs, job('a', { phase: 'Failed', explanation: 'the node did not come back' }));
  cell.put(RemedyOperationJobs, job('b', { phase: 'NeedsHuman', explanation: 'the ladder is over' }));
  cell.put(RemedyOperationJobs, job('c', { phase: 'Shadow' }));
  await reported(
    'warning: test: rule readonly-filesystem on node node-a: it would begin with Reboot now, and does nothing: its mode is Shadow',
  );
  const repair = 'test: rule readonly-filesystem on node node-a: Reboot';
  expect(lines.slice(0, -1)).toEqual([
    `waiting: ${repair} waits for Defender: Unavailable 1/1`,
    `doing: ${repair} is Granted`,
    `doing: ${repair} is Running`,
    `doing: ${repair} is over; waiting for the proof that the node is healthy`,
    `failed: ${repair} is Failed: the node did not come back`,
    `failed: ${repair} is NeedsHuman: the ladder is over`,
  ]);
});
