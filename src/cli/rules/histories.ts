/** Recorded histories of a fleet's rules, `rules/histories/<rule>/*.json`, and what came of replaying them. */
import { messageOf } from '../../api/errors.ts';
import { parseHistory, type History } from '../../rules/history.ts';
import { validationErrorText } from '../../rules/validation-error.ts';
import { replay, type Replay } from '../../rules/replay.ts';
import { listTree, readTreeFile } from '../tree-files.ts';
import type { FleetRule } from './fleet-rules.ts';
import { cliError } from '../errors.ts';

export const HISTORIES = 'rules/histories';

export interface HistoryRun {
  rule: string;
  /** In the repository; empty where there is no history. */
  file: string;
  /** What it is about, in its own words. */
  name: string;
  passed: boolean;
  /** Clusters whose rule this was, when clusters have different ones. */
  clusters: string[];
  /** What happened: one line a job, or why there was none. */
  report: string[];
  /** Why it did not pass. */
  wrong: string[];
}

/** Replays the histories of these rules. A rule without one, and one without a rule, do not pass. `wanted` empty: all. */
export async function runHistories(root: string, rules: readonly FleetRule[], wanted: readonly string[]): Promise<HistoryRun[]> {
  const names = [...new Set(rules.map(({ rule }) => rule.metadata.name))];
  const unknown = wanted.find((name) => !names.includes(name));
  if (unknown !== undefined)
    throw cliError('NotFound', `the fleet has no rule "${unknown}"${names.length === 0 ? '' : `; it has ${names.join(', ')}`}`, {
      next: 'kubenode rules check',
    });
  const histories = historiesOf(root);
  const folders = [...histories.keys()];
  const runs: HistoryRun[] = [];
  for (const name of wanted.length === 0 ? [...new Set([...names, ...folders])].sort() : wanted) {
    const own = rules.filter(({ rule }) => rule.metadata.name === name);
    const files = histories.get(name) ?? [];
    if (own.length === 0) runs.push(without(name, `${HISTORIES}/${name}`, `the fleet has no rule "${name}"`));
    else if (files.length === 0) runs.push(without(name, '', `it has no history: write ${HISTORIES}/${name}/heals.json`));
    for (const file of files) for (const each of own) runs.push(await runOne(root, `${HISTORIES}/${name}/${file}`, each, own.length > 1));
  }
  return runs;
}

async function runOne(root: string, file: string, { rule, clusters }: FleetRule, several: boolean): Promise<HistoryRun> {
  const base = { rule: rule.metadata.name, file, clusters: several ? clusters : [] };
  const read = readHistory(root, file);
  if (Array.isArray(read)) return { ...base, name: '', passed: false, report: [], wrong: read };
  try {
    const replayed = await replay([rule], read);
    return { ...base, name: read.name, passed: replayed.differences.length === 0, report: reportOf(replayed), wrong: replayed.differences };
  } catch (error) {
    return { ...base, name: read.name, passed: false, report: [], wrong: [messageOf(error)] };
  }
}

/** The history, or what is wrong with the file. */
function readHistory(root: string, path: string): History | string[] {
  let value: unknown;
  try {
    value = JSON.parse(readTreeFile(root, path));
  } catch (error) {
    return [messageOf(error)];
  }
  // Without it every history would pass in which nothing happens.
  if (value !== null && typeof value === 'object' && !('expect' in value))
    return ['expect: must be set; hint: name the jobs that are made, or [] when the rule must not fire'];
  const { history, errors } = parseHistory(value);
  return history ?? errors.map(validationErrorText);
}

function reportOf({ jobs, last }: Replay): string[] {
  if (jobs.length > 0)
    return jobs.map(
      ({ action, at, ends, endsAt, ending }) =>
        `${at} s ${action} → ${ends}${endsAt === undefined ? '' : ` at ${endsAt} s`}${ending === '' ? '' : `: ${ending}`}`,
    );
  const [explanation] = last;
  if (explanation === undefined) return ['no job: the rule is not about this machine'];
  return explanation.missing.length === 0
    ? [`no job: ${explanation.summary}`]
    : explanation.missing.map((missing) => `no job: ${missing}`).slice(0, 3);
}

const without = (rule: string, file: string, why: string): HistoryRun => ({
  rule,
  file,
  name: '',
  passed: false,
  clusters: [],
  report: [],
  wrong: [why],
});

/** Names of the recorded histories by rule. */
function historiesOf(root: string): Map<string, string[]> {
  const found = new Map<string, string[]>();
  for (const path of listTree(root, HISTORIES)) {
    const [rule, file, ...deeper] = path.slice(HISTORIES.length + 1).split('/');
    if (rule === undefined || file === undefined) continue;
    const files = found.get(rule) ?? [];
    found.set(rule, files);
    if (deeper.length === 0 && file.endsWith('.json')) files.push(file);
  }
  return found;
}
