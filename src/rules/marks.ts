/**
 * What facts with time remember of one machine between two samples: since when a condition is unhealthy, when it became so, and which numbers
 * are above their band. Read from `Machine.status.observations` and written back to it.
 *
 * Keys: `for/RULE/DIGEST` the clock of a rule, `bad/TYPE` the clock of a condition, `rise/TYPE/N` one rise, `high/FACT/…` inside of a band.
 */
import { DEFAULT_CLEARS_AFTER_SECONDS } from '../api/node-remedier/values.ts';
import { MAX_RISES } from '../api/facts.ts';
import type { Observation } from '../api/machine.ts';
import { advance, clockOf, observationOf, type MatchClock, type Sample } from './clock.ts';
import type { CompiledRule, RuleIndex } from './index.ts';
import type { ConditionFacts } from './snapshot.ts';

export const ruleKey = (rule: CompiledRule): string => `for/${rule.name}/${rule.digest}`;

/** As many as the schema of Machine takes; rises, which sort last, are lost first. */
const MAX_OBSERVATIONS = 128;
/** A condition that is healthy for longer than this has recovered. */
export const BAD_CLEARS_AFTER_MS = DEFAULT_CLEARS_AFTER_SECONDS * 1000;

export class Marks {
  readonly #clocks = new Map<string, MatchClock>();
  readonly #nowMs: number;
  readonly #index: RuleIndex;

  /** `releasedAtMs`: end of the last Change or Repair on the machine; what was seen before it no longer counts (docs/protocols.md#f2). */
  constructor(index: RuleIndex, observations: readonly Observation[], nowMs: number, releasedAtMs: number | undefined) {
    this.#index = index;
    this.#nowMs = nowMs;
    for (const observation of observations) {
      const read = clockOf(observation);
      if (read !== undefined && (releasedAtMs === undefined || read.clock.firstSeenMs >= releasedAtMs))
        this.#clocks.set(read.key, read.clock);
    }
  }

  /** Whether a rule that does not match has anything to report. */
  knows(rule: CompiledRule): boolean {
    return this.#clocks.has(ruleKey(rule));
  }

  /** The clock of a rule after this sample. */
  sampleRule(rule: CompiledRule, sample: Pick<Sample, 'matches' | 'stamp' | 'transitionsMs'>): MatchClock | undefined {
    const { holdsForMs, clearsAfterMs } = rule;
    return this.#sample(ruleKey(rule), { ...sample, holdsForMs, clearsAfterMs });
  }

  /** Takes note of a condition, for the facts below; twice in one sample is as once. A condition that is unknown keeps what is known of it. */
  notice(type: string, condition: ConditionFacts | undefined): void {
    const before = this.#clocks.get(`bad/${type}`);
    const matches = condition?.health === 'Unhealthy';
    const transition = condition?.transition.replaceAll(/[#~]/g, '') ?? '';
    // Unhealthy for the first time, or by a later transition than the last one: a rise. An earlier one is an old log line, read once more.
    const newer = before === undefined || later(transition, before.stamp);
    if (matches && newer) this.#rise(type);
    const stamp = newer ? transition : before.stamp;
    const window = this.#index.windows.get(type) ?? 0;
    const clearsAfterMs = BAD_CLEARS_AFTER_MS;
    const transitionsMs = [Date.parse(transition)];
    // Where only rises are counted it does not matter how long it lasts, and it is written once.
    if (matches && !newer && before.open && !this.#index.aged.has(type)) return;
    const next = this.#sample(`bad/${type}`, { matches, stamp, transitionsMs, holdsForMs: Number.POSITIVE_INFINITY, clearsAfterMs });
    // A rise that is still counted must not be taken for a new one.
    if (next === undefined && before !== undefined && this.#nowMs - before.lastSeenMs <= window && condition?.health !== 'Healthy')
      this.#clocks.set(`bad/${type}`, { ...before, open: false });
  }

  /** Since when the condition is unhealthy; undefined while it is not. */
  badSinceMs(type: string): number | undefined {
    const clock = this.#clocks.get(`bad/${type}`);
    return clock?.open === true ? clock.firstSeenMs : undefined;
  }

  /** When the condition became unhealthy inside of the last `windowMs`, oldest first. */
  rises(type: string, windowMs: number): number[] {
    return this.#risesOf(type)
      .map((key) => this.#clocks.get(key)?.firstSeenMs ?? 0)
      .filter((ms) => this.#nowMs - ms <= windowMs);
  }

  /** Whether a number is above its band: from `enter` until `leave`. */
  band(key: string, value: number, enter: number, leave: number): boolean {
    const name = `high/${key}`;
    const before = this.#clocks.get(name);
    const high = value >= enter || (before !== undefined && value > leave);
    if (!high) this.#clocks.delete(name);
    else if (before === undefined) this.#clocks.set(name, { firstSeenMs: this.#nowMs, lastSeenMs: this.#nowMs, open: true, stamp: '' });
    return high;
  }

  /** The observations to keep, in a stable order: only of rules that run, and only what is not over. */
  observations(): Observation[] {
    const rules = new Set([...this.#index.rules.values()].map(ruleKey));
    return [...this.#clocks]
      .filter(([key, clock]) => this.#isKept(key, clock, rules))
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .slice(0, MAX_OBSERVATIONS)
      .map(([key, clock]) => observationOf(key, clock));
  }

  #isKept(key: string, clock: MatchClock, rules: ReadonlySet<string>): boolean {
    const [kind, ...rest] = key.split('/');
    const agoMs = this.#nowMs - clock.lastSeenMs;
    if (kind === 'for') return rules.has(key) && (clock.open || agoMs <= (this.#index.rules.get(rest[0] ?? '')?.clearsAfterMs ?? 0));
    if (kind === 'rise') return agoMs <= (this.#index.windows.get(rest.slice(0, -1).join('/')) ?? -1);
    if (kind === 'high') return this.#index.bands.has(rest.join('/'));
    return kind === 'bad' && this.#index.watched.has(rest.join('/'));
  }

  #sample(key: string, sample: Omit<Sample, 'nowMs'>): MatchClock | undefined {
    const next = advance(this.#clocks.get(key), { ...sample, nowMs: this.#nowMs });
    if (next === undefined) this.#clocks.delete(key);
    else this.#clocks.set(key, next);
    return next;
  }

  #risesOf(type: string): string[] {
    const prefix = `rise/${type}/`;
    return [...this.#clocks.keys()]
      .filter((key) => key.startsWith(prefix) && !key.slice(prefix.length).includes('/'))
      .sort((a, b) => Number(a.slice(prefix.length)) - Number(b.slice(prefix.length)));
  }

  #rise(type: string): void {
    const rises = this.#risesOf(type);
    for (const old of rises.slice(0, Math.max(0, rises.length + 1 - MAX_RISES))) this.#clocks.delete(old);
    const next = Number(rises.at(-1)?.split('/').at(-1) ?? 0) + 1;
    this.#clocks.set(`rise/${type}/${next}`, { firstSeenMs: this.#nowMs, lastSeenMs: this.#nowMs, open: true, stamp: '' });
  }
}

/** By the detector's own clock, which only orders its own transitions. */
function later(transition: string, than: string): boolean {
  return Date.parse(transition) > Date.parse(than);
}
