import { existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { Command } from 'commander';
import { FACTS } from '../../api/facts.ts';
import { findingText } from '../../sync/render/finding.ts';
import type { Isolation } from '../../sync/render/wall.ts';
import { EXIT } from '../exit.ts';
import { fleetFlags, ofCommand, reportIsolation, type FleetFlags } from '../fleet-flags.ts';
import { namedFolder } from '../fleet-folder.ts';
import { table, type Output } from '../output.ts';
import { outputFlag } from '../output-flag.ts';
import { fleetRules, type ClusterFindings, type FleetRules } from '../rules/fleet-rules.ts';
import { runHistories, type HistoryRun } from '../rules/histories.ts';
import { DEFAULT_INCLUDE } from '../../sync/fleet/entry.ts';
import type { RunCommand } from '../program.ts';
import { cliError } from '../errors.ts';

/** `kubenode rules check|test|facts`. Works on files alone: no server is asked. */
export function rulesCommand(program: Command, run: RunCommand): void {
  const rules = program.command('rules').description('check and test the repair rules of a fleet, before they are committed');

  fleetFlags(rules.command('check [folder]'))
    .description('render the fleet in a folder and check its rules as the hub does, and its types; exit code 1 when something is found')
    .action((folder: string | undefined, flags: FleetFlags) =>
      run(async (output) => reportCheck(await load(namedFolder(folder), flags, output, true), flags.output === 'json', output)),
    );

  fleetFlags(rules.command('test [folder-or-rule...]'))
    .description('replay the recorded histories of rules, rules/histories/<rule>/*.json, under virtual time')
    .action((words: string[], flags: FleetFlags) =>
      run(async (output) => {
        const { folder, names } = sorted(words, flags.entry);
        const root = namedFolder(folder);
        const loaded = await load(root, flags, output);
        if (loaded.findings.length > 0) return reportCheck(loaded, flags.output === 'json', output);
        return reportTest(await runHistories(root, loaded.rules, names), flags.output === 'json', output, loaded.isolation);
      }),
    );

  rules
    .command('facts')
    .description('list everything that a rule may read')
    .addOption(outputFlag(['wide', 'json'], 'more columns, or one JSON list'))
    .action((flags: { output?: 'wide' | 'json' }) => run(async (output) => facts(flags.output, output)));
}

async function load(root: string, flags: FleetFlags, output: Output, types = false): Promise<FleetRules> {
  const { bundleFor } = await import('../bundles.ts');
  const tree = { root, entry: flags.entry, include: flags.include ?? DEFAULT_INCLUDE };
  const loaded = await fleetRules(tree, await bundleFor('render'), AbortSignal.timeout(120_000), {
    types,
    ...(flags.isolation === undefined ? {} : { isolationAtLeast: flags.isolation }),
  }).catch((error: unknown) => {
    throw ofCommand(error);
  });
  reportIsolation(loaded.isolation, output);
  return loaded;
}

/** A word that names a folder with a fleet is the folder, at most one; the others are rules. */
function sorted(words: readonly string[], entry: string): { folder: string | undefined; names: string[] } {
  const isFolder = (word: string): boolean =>
    existsSync(join(word, entry)) || (existsSync(word) && statSync(word).isDirectory() && word.includes('/'));
  const folders = words.filter(isFolder);
  if (folders.length > 1) throw cliError('Usage', `one fleet at a time, got the folders ${folders.join(' and ')}`);
  return { folder: folders[0], names: words.filter((word) => !isFolder(word)) };
}

export function reportCheck({ rules, clusters, findings, isolation, untyped }: FleetRules, json: boolean, output: Output): number {
  const code = findings.length === 0 ? EXIT.ok : EXIT.failed;
  if (untyped !== undefined) output.report('warning', `types were not checked: ${untyped}`);
  if (json) {
    const listed = rules.map(({ rule, clusters, location }) => ({ name: rule.metadata.name, mode: rule.spec.mode, clusters, location }));
    output.print(JSON.stringify({ ok: findings.length === 0, isolation, rules: listed, findings }));
    return code;
  }
  if (findings.length > 0) {
    for (const finding of findings) output.print(findingLines(finding).join('\n'));
    const would = findings.every(isUnread) ? 'not notice' : 'refuse this fleet';
    output.report('failed', `${count(findings.length, 'error')}: the hub would ${would}`);
    return code;
  }
  if (rules.length === 0) {
    output.report('warning', 'the fleet has no repair rules');
    return code;
  }
  output.print(
    table(
      ['NAME', 'MODE', 'HOLDS', 'LADDER', 'PRIORITY', 'CLUSTERS', 'WHERE'],
      rules.map(({ rule: { metadata, spec }, clusters, location }) => [
        metadata.name,
        spec.mode ?? 'Shadow',
        `${spec.holdsForSeconds}s`,
        spec.ladder.map(({ action }) => action).join('>'),
        String(spec.priority ?? 0),
        clusters.join(','),
        location.replace(/:\d+$/, ''),
      ]),
    ),
  );
  output.report('done', `${count(rules.length, 'rule')} in ${count(clusters.length, 'cluster')}, no errors`);
  return code;
}

/** The hub removes types without reading them, and does not read what nothing imports. */
const isUnread = ({ code }: ClusterFindings): boolean => code === 'FileUnused' || /^TS\d+$/.test(code);

function findingLines({ clusters, next, ...finding }: ClusterFindings): string[] {
  const where = clusters.length > 1 ? { ...finding, cluster: clusters.join(', ') } : finding;
  return [findingText(where), ...(next === undefined ? [] : [`  hint: ${next}`])];
}

export function reportTest(runs: readonly HistoryRun[], json: boolean, output: Output, isolation: Isolation): number {
  const failed = runs.filter(({ passed }) => !passed).length;
  const code = failed === 0 && runs.length > 0 ? EXIT.ok : EXIT.failed;
  if (json) {
    output.print(JSON.stringify({ ok: code === EXIT.ok, isolation, passed: runs.length - failed, failed, histories: runs }));
    return code;
  }
  for (const [rule, own] of Map.groupBy(runs, (each) => each.rule)) {
    output.print(rule);
    for (const { file, name, passed, clusters, report, wrong } of own) {
      const position = [
        file.endsWith('.json') ? file.slice(file.lastIndexOf('/') + 1) : file,
        clusters.length === 0 ? '' : `(${clusters.join(', ')})`,
      ]
        .filter((part) => part !== '')
        .join(' ');
      const title = [position, name].filter((part) => part !== '').join(': ');
      output.print(`  ${passed ? 'ok  ' : 'FAIL'}  ${title === '' ? wrong[0] : title}`);
      for (const line of title === '' ? wrong.slice(1) : wrong) output.print(`          ${line}`);
      for (const line of report) output.print(`        ${line}`);
    }
  }
  const rules = new Set(runs.map(({ rule }) => rule)).size;
  const summary = `${count(rules, 'rule')}, ${count(runs.length, 'history', 'histories')}`;
  if (runs.length === 0) output.report('failed', 'there is nothing to test: the fleet has no repair rules');
  else if (failed > 0) output.report('failed', `${summary}: ${failed} failed`);
  else output.report('done', `${summary}: all passed`);
  return code;
}

function count(number: number, one: string, many = `${one}s`): string {
  return `${number} ${number === 1 ? one : many}`;
}

function facts(format: 'wide' | 'json' | undefined, output: Output): number {
  if (format === 'json') {
    output.print(
      JSON.stringify(
        FACTS.map((each) => ({ params: [], ...each, fact: each.pattern })),
        null,
        2,
      ),
    );
    return EXIT.ok;
  }
  const wide = format === 'wide';
  output.print(
    table(
      ['FACT', 'TYPE', 'VALUES', ...(wide ? ['MISSING', 'MISSING-WHEN', 'SOURCE'] : ['SOURCE'])],
      FACTS.map((each) => {
        const { pattern, type, missing, missingWhen, source } = each;
        const values = 'values' in each ? each.values.join(',') : 'params' in each ? `(${each.params.join(',')})` : '';
        return [pattern, type, values, ...(wide ? [missing, missingWhen, source] : [source])];
      }),
    ),
  );
  return EXIT.ok;
}
