import { existsSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import type { Output } from '../output.ts';
import { FAULTS } from '../tour/rules.ts';
import { versionLines } from '../version-lines.ts';
import { CELLS } from './prepare.ts';
import type { Progress } from './progress.ts';
import type { StateFolder } from './state.ts';

export interface WelcomeOptions {
  output: Output;
  state: StateFolder;
  repository: string;
  branch: string | undefined;
  progress: Progress;
  /** Of API servers that were given, by context. */
  servers: Readonly<Record<string, string>> | undefined;
}

/** What is there and what to try: commands that can be pasted as they stand. */
export function welcome({ output, state, repository, progress, branch, servers }: WelcomeOptions): void {
  const here = (path: string): string => {
    const short = relative(process.cwd(), path);
    return short === '' ? '.' : short.startsWith('..') ? path : short;
  };
  const kubectl = `kubectl --kubeconfig ${here(state.kubeconfig)}`;
  const fleet = progress.fleet();
  const ready = fleet?.status?.conditions?.find((condition) => condition.type === 'Ready');
  const bump = bumpLine(repository);
  const at = (name: string): string => (servers === undefined ? '' : ` on ${servers[name]}`);
  const lines = [
    '',
    `KubeNode follows ${branch === undefined ? 'the branch checked out in' : `branch ${branch} of`} ${here(repository)}${fleet?.status?.commit === undefined ? '' : `, commit ${fleet.status.commit.slice(0, 10)}`}`,
    ...(ready?.status === 'False' ? [`  but: ${ready.reason}: ${ready.message}`] : []),
    `  hub    ${progress.clusters().length} clusters declared${at('hub')}`,
    ...CELLS.map((cell) => `  ${cell.padEnd(6)} ${progress.machines(cell).length} machines so far${at(cell)}`),
    '',
    'Explore:',
    `  ${kubectl} --context test get machines -A`,
    `  ${kubectl} --context hub get rollouts`,
    '  npx kubenode status',
    '',
    'Change something:',
    ...(bump === undefined
      ? [`  edit ${here(join(repository, 'fleet'))}, then commit`]
      : [`  in ${here(bump.file)}, line ${bump.line}, make ${bump.from} ${bump.to}:`, `    ${bump.text.trim()}`]),
    `  git ${here(repository) === '.' ? '' : `-C ${here(repository)} `}commit -am 'Bump a component'     test, then pre, then prod follow`,
    `  git ${here(repository) === '.' ? '' : `-C ${here(repository)} `}revert --no-edit HEAD             and they go back at once`,
    ...(existsSync(join(repository, 'rules', 'readonly-filesystem.ts'))
      ? [
          '',
          'Make a node ill (its rule is in Shadow: 30 s later it reports what it would do):',
          `  uid=$(${kubectl} --context test get machines -A -o jsonpath='{.items[0].metadata.uid}')`,
          `  echo '${FAULTS.readonly}' >> ${here(state.nodes)}/$uid/root/var/log/kern.log`,
          `  ${kubectl} --context test get remedyoperationjobs -A`,
          '  npx kubenode why --context test rule/readonly-filesystem     or the name of a node, or of a job',
          `  It stays ill: only a boot clears what its kernel logged. To have it repaired, make the mode 'Enforce' in ${here(join(repository, 'rules', 'readonly-filesystem.ts'))},`,
          '  and commit: each stage tries the rule in Shadow first, for ten minutes or more; `npx kubenode rollout show` shows until when.',
        ]
      : []),
    '',
    servers === undefined
      ? 'Ctrl-C stops everything; the next start goes on from there.'
      : 'Ctrl-C stops controllers and nodes; the API servers keep what is on them, and the next start goes on from there.',
    '',
  ];
  output.print(lines.join('\n'));
}

/** The line of the fleet that names a version, and the next version that is packed. */
export function bumpLine(repository: string): { file: string; line: number; text: string; from: string; to: string } | undefined {
  const file = join(repository, 'fleet', 'versions.ts');
  const lockFile = join(repository, 'fleet', 'artifacts.lock.json');
  if (!existsSync(file) || !existsSync(lockFile)) return undefined;
  const lock = JSON.parse(readFileSync(lockFile, 'utf8')) as Record<string, Record<string, unknown>>;
  for (const { component, version, line, text } of versionLines(readFileSync(file, 'utf8'))) {
    const versions = Object.keys(lock[component] ?? {});
    const next = versions[versions.indexOf(version) + 1];
    if (versions.includes(version) && next !== undefined) return { file, line, text, from: version, to: next };
  }
  return undefined;
}
