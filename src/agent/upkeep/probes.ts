import { messageOf } from '../../api/errors.ts';
import type { Clock } from '../../api/ports.ts';
import { withDeadline } from '../../kube/clock.ts';
import type { ProbeSpec } from '../generation/spec.ts';
import { endOf, short } from '../errors.ts';
import type { Manifest } from '../generation/manifest.ts';
import { environmentOf } from '../ports/environment.ts';
import type { Network } from '../ports/network.ts';
import type { Runner } from '../ports/runner.ts';
import type { Units } from '../ports/units.ts';

/**
 * `switch`: after a switch, at the pace the probes name; a unit that a probe names must not have been restarted since.
 * `steady`: ever after, more slowly; a component is unhealthy after three failures in a row of one probe.
 */
export type ProbeMode = 'switch' | 'steady';

export interface ProbeView {
  /** Every probe has succeeded as often in a row as it must. */
  passed: boolean;
  /** A probe failed as often in a row as makes it count. */
  broken: boolean;
  /** It cannot pass any more, however long the agent waits. */
  hopeless: boolean;
  /** What fails, for people. */
  message: string | undefined;
}

export interface Probing {
  view(): ProbeView;
  stop(): void;
}

export interface ProbePorts {
  clock: Clock;
  units: Units;
  network: Network;
  runner: Runner;
  root: string;
}

interface Tracked {
  probe: ProbeSpec;
  /** Not written in the component: every unit must stay up, but may need several starts until it does. */
  implied: boolean;
  successes: number;
  failures: number;
  hopeless: boolean;
  message: string | undefined;
}

const FAILURES = 3;
const STEADY_MS = 10_000;
/** Starting a program costs what many requests do. */
const STEADY_EXEC_MS = 30_000;
/** And while the unit is starting, a probe of it fails and takes processor time from it. */
const FIRST_EXEC_MS = 800;

const IMPLIED = { timeoutSeconds: 3, periodSeconds: 2, successThreshold: 1 };

/** How one component is probed. */
interface Round {
  readonly manifest: Manifest;
  readonly mode: ProbeMode;
  readonly ports: ProbePorts;
  readonly onChange: () => void;
  readonly ended: AbortController;
  readonly timers: Set<() => void>;
  /** Invocations of its units, as they were observed last. */
  readonly invocations: Map<string, string>;
}

/** `invocations`: of the units, as they were started for the switch. Calls `onChange` when the view may have changed. */
export function startProbes(
  manifest: Manifest,
  mode: ProbeMode,
  invocations: ReadonlyMap<string, string>,
  ports: ProbePorts,
  onChange: () => void,
): Probing {
  const ended = new AbortController();
  const timers = new Set<() => void>();
  const round: Round = { manifest, mode, ports, onChange, ended, timers, invocations: new Map(invocations) };
  const tracked = trackedOf(manifest);
  for (const each of tracked) later(round, firstMs(round, each), each);
  return {
    view: () => ({
      passed: tracked.every((each) => each.successes >= (mode === 'steady' ? 1 : each.probe.successThreshold)),
      broken: tracked.some((each) => each.failures >= FAILURES),
      hopeless: tracked.some((each) => each.hopeless),
      message: tracked.find((each) => each.message !== undefined)?.message,
    }),
    stop() {
      ended.abort(new Error('probing ended'));
      for (const cancel of timers) cancel();
      timers.clear();
    },
  };
}

/** The probes of a component, and one for each unit that none of them names. */
function trackedOf({ probes, units }: Manifest): Tracked[] {
  const named = new Set(probes.map((probe) => probe.unit));
  const implied = units
    .filter((unit) => !named.has(unit.name))
    .map((unit) => ({ probe: { name: `unit ${unit.name}`, unit: unit.name, ...IMPLIED }, implied: true }));
  return [...probes.map((probe) => ({ probe, implied: false })), ...implied].map((each) => ({
    ...each,
    successes: 0,
    failures: 0,
    hopeless: false,
    message: undefined,
  }));
}

function later(round: Round, ms: number, each: Tracked): void {
  const { timers, ports } = round;
  const cancel = ports.clock.setTimer(ms, () => {
    timers.delete(cancel);
    void probeOnce(round, each);
  });
  timers.add(cancel);
}

async function probeOnce(round: Round, each: Tracked): Promise<void> {
  const { probe } = each;
  const failure = await attempt(round, each).catch((error: unknown) => messageOf(error));
  if (round.ended.signal.aborted) return;
  if (failure === undefined) {
    each.successes++;
    each.failures = 0;
  } else {
    each.successes = 0;
    each.failures++;
  }
  each.message = failure === undefined ? undefined : short(`probe ${probe.name}: ${failure}`, 300);
  const period = probe.periodSeconds * 1000;
  const calm = round.mode === 'steady' && failure === undefined;
  later(round, calm ? Math.max(period * 5, probe.exec === undefined ? STEADY_MS : STEADY_EXEC_MS) : period, each);
  round.onChange();
}

/** What failed. */
async function attempt(round: Round, each: Tracked): Promise<string | undefined> {
  const { ports, ended } = round;
  const { unit, url, exec, timeoutSeconds } = each.probe;
  if (unit !== undefined) return await unitFailure(round, each, unit);
  if (exec !== undefined) {
    const command = { argv: exec, environment: environmentOf(ports.root), cwd: ports.root === '' ? '/' : ports.root };
    const result = await ports.runner({ ...command, timeoutMs: timeoutSeconds * 1000 }, ended.signal);
    return result.ok ? undefined : endOf(result);
  }
  const late = (): Error => new Error(`no answer within ${timeoutSeconds} s`);
  const status = await withDeadline(ports.clock, timeoutSeconds * 1000, ended.signal, late, (signal) =>
    ports.network.status(url ?? '', signal),
  );
  return status >= 200 && status < 300 ? undefined : `${url} answered ${status}`;
}

async function unitFailure({ mode, ports, invocations }: Round, each: Tracked, name: string): Promise<string | undefined> {
  const status = (await ports.units.list()).find((unit) => unit.name === name);
  const before = invocations.get(name);
  if (status?.running !== true) {
    each.hopeless = mode === 'switch' && !each.implied;
    return `it does not run${status?.exit === undefined ? '' : ` (${status.exit})`}`;
  }
  if (mode === 'steady' || before === status.invocation) return undefined;
  if (each.implied || before === undefined) {
    // Up again: it counts when it is still the same one next time.
    invocations.set(name, status.invocation);
    return before === undefined ? undefined : 'it was started again';
  }
  each.hopeless = true;
  return 'it ended since the switch and was started again';
}

function firstMs({ mode, manifest }: Round, { probe: { unit, exec, periodSeconds } }: Tracked): number {
  if (mode === 'steady') return 0;
  // A process that ends at once runs at first: a unit must have run for some time.
  if (unit !== undefined) return periodSeconds * 1000;
  return exec !== undefined && manifest.units.length > 0 ? Math.min(FIRST_EXEC_MS, periodSeconds * 1000) : 0;
}
