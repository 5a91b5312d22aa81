import { Engine, type RuleProperties, type TopLevelCondition } from 'json-rules-engine';
import type { Node } from '../src/api/builtin.ts';
import { API_VERSION } from '../src/api/kind.ts';
import { Machines, type Machine } from '../src/api/machine.ts';
import { NodeRemediers, type NodeRemedier } from '../src/api/node-remedier.ts';
import { observeHeartbeats, type Heartbeats } from '../src/rules/heartbeats.ts';
import { compileRule, indexRules, rulesReading } from '../src/rules/index.ts';
import { runPass } from '../src/rules/pass.ts';
import { changes, takeSnapshot, type Snapshot } from '../src/rules/snapshot.ts';
import type { Benchmark } from './harness.ts';

const NODES = 10_000;
const RULES = [20, 100];
const DETECTED = 20;
const T0 = Date.UTC(2026, 0, 1);

const benchmark: Benchmark = {
  processes: 2,
  about: `
Rules of three leaves each (a condition, the machine's phase, the architecture) over nodes with ${DETECTED + 4} conditions, evaluated as a cell does it: a
snapshot of the objects, what differs from the one before, the rules that read that, json-rules-engine on a fresh Engine, and the judgement of
its answer. \`one-node\` is one evaluation by all rules (median of 200), \`full-pass\` all rules on ${NODES.toLocaleString('en-US')} nodes, \`one-percent\` a
hundredth of the nodes with one condition changed. The reference is json-rules-engine alone as its documentation shows it, a fresh Engine a node with all
rules and the Node object as a fact: it has no index of what a rule reads, so it runs all rules after any change, and it concludes from
what is absent.`,
  goals: { 'rules/one-percent/100': { of: 'ratio', most: 0.2 } },
  async run(report) {
    for (const count of RULES) {
      const rules = Array.from({ length: count }, (_, index) => ruleOf(index));
      const index = indexRules(rules.map(compileRule));
      const all = rulesReading(index, undefined);
      const bare = rules.map(bareRule);
      const fleet = Array.from({ length: NODES }, (_, number) => memberOf(number));
      const evaluated = async (member: Member, names: readonly string[]): Promise<void> =>
        void (await runPass({ index, names, snapshot: member.snapshot, observations: [] }));

      const ours: number[] = [];
      const theirs: number[] = [];
      for (const member of fleet.slice(0, 250)) {
        ours.push(await timed(() => evaluated(member, all)));
        theirs.push(await timed(() => bareRun(bare, member.node)));
      }
      report({
        name: `rules/one-node/${count}`,
        tier: 'S',
        unit: 'µs',
        value: median(ours.slice(50)) * 1000,
        reference: median(theirs.slice(50)) * 1000,
      });

      const full = await timed(async () => {
        for (const member of fleet) await evaluated(member, all);
      });
      const bareFull = await timed(async () => {
        for (const { node } of fleet) await bareRun(bare, node);
      });
      report({ name: `rules/full-pass/${count}`, tier: 'S', unit: 'ms', value: full, reference: bareFull });

      const changed = fleet.filter((_, number) => number % 100 === 0).map((member) => sick(member));
      const part = await timed(async () => {
        for (const member of changed) {
          const snapshot = snapshotOf(member.machine, member.node, member.heartbeats);
          await evaluated({ ...member, snapshot }, rulesReading(index, changes(member.snapshot, snapshot)));
        }
      });
      const barePart = await timed(async () => {
        for (const { node } of changed) await bareRun(bare, node);
      });
      report({ name: `rules/one-percent/${count}`, tier: 'S', unit: 'ms', value: part, reference: barePart });
    }
  },
};
export default benchmark;

interface Member {
  machine: Machine;
  node: Node;
  heartbeats: Heartbeats;
  snapshot: Snapshot;
}

const detected = (index: number): string => `Detected${index % DETECTED}`;

function ruleOf(index: number): NodeRemedier {
  const leaf = (fact: string, value: string) => ({ fact, operator: 'equal', value });
  return NodeRemediers.parse({
    apiVersion: API_VERSION,
    kind: 'NodeRemedier',
    metadata: { name: `rule-${index}`, uid: `uid-${index}` },
    spec: {
      when: {
        all: [leaf(`condition.${detected(index)}.status`, 'True'), leaf('machine.phase', 'Running'), leaf('node.architecture', 'amd64')],
      },
      holdsForSeconds: 30,
      ladder: [{ action: 'Reboot' }, { action: 'Human' }],
      healedWhen: { condition: detected(index), is: 'False', forSeconds: 300 },
      mode: 'Enforce',
    },
  });
}

/** The same question in the library's own words. */
function bareRule(rule: NodeRemedier, index: number): RuleProperties {
  const condition = { fact: 'conditions', path: `$.${detected(index)}`, operator: 'equal', value: 'True' };
  const phase = { fact: 'machine', path: '$.phase', operator: 'equal', value: 'Running' };
  const architecture = { fact: 'info', path: '$.architecture', operator: 'equal', value: 'amd64' };
  const conditions: TopLevelCondition = { all: [condition, phase, architecture] };
  return { name: rule.metadata.name, conditions, event: { type: 'match' } };
}

async function bareRun(rules: readonly RuleProperties[], node: Node): Promise<void> {
  const engine = new Engine([...rules]);
  const conditions = Object.fromEntries((node.status?.conditions ?? []).map(({ type, status }) => [type, status]));
  await engine.run({ conditions, machine: { phase: 'Running' }, info: node.status?.nodeInfo ?? {} });
}

const iso = (ms: number): string => new Date(ms).toISOString();

function memberOf(number: number): Member {
  const name = `node-${number}`;
  const types = ['MemoryPressure', 'DiskPressure', 'PIDPressure', ...Array.from({ length: DETECTED }, (_, index) => detected(index))];
  const times = (ms: number) => ({ lastHeartbeatTime: iso(ms), lastTransitionTime: iso(T0) });
  const conditionsAt = (ms: number) => [
    { type: 'Ready', status: 'True' as const, reason: 'KubeletReady', ...times(ms) },
    ...types.map((type) => ({ type, status: 'False' as const, reason: `No${type}`, ...times(ms) })),
  ];
  const nodeAt = (ms: number): Node => ({
    apiVersion: 'v1',
    kind: 'Node',
    metadata: { name, uid: `node-uid-${number}` },
    spec: {},
    status: { conditions: conditionsAt(ms), nodeInfo: { architecture: 'amd64', kernelVersion: '6.1.0' } },
  });
  const machine = Machines.parse({
    apiVersion: API_VERSION,
    kind: 'Machine',
    metadata: { namespace: 'web', name, uid: `machine-uid-${number}` },
    spec: {},
    status: { phase: 'Running', nodeRef: { name, uid: `node-uid-${number}` } },
  });
  const node = nodeAt(T0 + 60_000);
  const first = observeHeartbeats(undefined, `node-uid-${number}`, conditionsAt(T0), T0);
  const heartbeats = observeHeartbeats(first, `node-uid-${number}`, conditionsAt(T0 + 60_000), T0 + 60_000);
  return { machine, node, heartbeats, snapshot: snapshotOf(machine, node, heartbeats) };
}

function sick(member: Member): Member {
  const conditions = (member.node.status?.conditions ?? []).map((each) =>
    each.type === detected(0) ? { ...each, status: 'True' as const, reason: 'Ill', lastTransitionTime: iso(T0 + 60_000) } : each,
  );
  return { ...member, node: { ...member.node, status: { ...member.node.status, conditions } } };
}

function snapshotOf(machine: Machine, node: Node, heartbeats: Heartbeats): Snapshot {
  const nowMs = T0 + 60_000;
  return takeSnapshot({
    nowMs,
    machine,
    node,
    heartbeats,
    kubeletFreshUntilMs: nowMs + 40_000,
    agentFreshUntilMs: nowMs + 180_000,
    peers: {},
    pause: { paused: false, releasedAtMs: undefined },
  });
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const began = performance.now();
  await work();
  return performance.now() - began;
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}
