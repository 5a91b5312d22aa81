/**
 * Runs the suites that want a real API server against one, beside the embedded server, then integration tests and the whole tour on control planes
 * of a hub and three cells:
 *
 *   npm run test:kubernetes                            everything
 *   npm run test:kubernetes -- --record                and keeps what the real server answered
 *   npm run test:kubernetes -- test/conformance        arguments are vitest's; with a path among them there is no tour
 *   npm run test:kubernetes -- tour                    only the tour
 *   npm run test:kubernetes -- --tour-steps=FILE       and writes its steps there, one JSON line each
 *   KUBENODE_KUBERNETES=1.30 npm run test:kubernetes   on another version, all but what compares answers word by word with the usual one's
 */
import { spawn, type ChildProcess } from 'node:child_process';
import { readdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { findPrograms, type Programs } from '../../tools/kubernetes/programs.ts';
import { isUsual, wantedVersion } from '../../tools/kubernetes/versions.ts';
import { judge, openAudits } from './audit.ts';
import { startControlPlane, startControlPlanes, type ControlPlanes } from './control-plane.ts';

const root = join(dirname(fileURLToPath(import.meta.url)), '../..');
const print = (line: string): void => void process.stderr.write(`${line}\n`);

/** Its exit code. It is asked to end when the signal is sent. */
async function ended(child: ChildProcess, signal: AbortSignal): Promise<number> {
  const stop = (): void => void child.kill('SIGTERM');
  signal.addEventListener('abort', stop, { once: true });
  if (signal.aborted) stop();
  const code = await new Promise<number>((resolve, reject) => {
    child.once('error', reject);
    child.once('exit', (exit) => resolve(exit ?? 1));
  });
  signal.removeEventListener('abort', stop);
  return code;
}

async function vitest(args: readonly string[], env: Record<string, string>, signal: AbortSignal): Promise<number> {
  const child = spawn(
    process.execPath,
    [join(root, 'node_modules/vitest/vitest.mjs'), 'run', '--project', 'conformance', '--project', 'kubernetes', ...args],
    { cwd: root, stdio: 'inherit', env: { ...process.env, ...env } },
  );
  return await ended(child, signal);
}

interface Step {
  step: string;
  ok: boolean;
  ms: number;
  detail: string;
}

/** Both parts, on these API servers, where every identity has the rights of `kubenode install` and no others: no request may have been refused. */
async function tour({ kubeconfig, audits }: ControlPlanes, stepsFile: string | undefined, signal: AbortSignal): Promise<number> {
  const audited = openAudits(audits);
  print('\nthe tour, on real API servers');
  const child = spawn(
    process.execPath,
    [join(root, 'bin/kubenode.js'), 'tour', '-o', 'json', '--control-planes', kubeconfig, '--patience', PATIENCE, '--repository', root],
    { cwd: root, stdio: ['ignore', 'pipe', 'inherit'] },
  );
  const steps: Step[] = [];
  const lines = createInterface({ input: child.stdout }).on('line', (line) => {
    // Written by the command `tour`.
    const step = JSON.parse(line) as Step;
    steps.push(step);
    print(` ${step.ok ? '✓' : '×'} ${step.step} ${step.ms}ms${step.ok ? '' : `\n   ${step.detail}`}`);
  });
  const read = new Promise((resolve) => lines.once('close', resolve));
  const code = await ended(child, signal);
  await read;
  const { requests, identities, refused, byAdministrator } = judge(audited.read());
  const problems = [...refused.map((each) => `refused ${each}`), ...byAdministrator.map((each) => `by the administrator, ${each}`)];
  const ok = problems.length === 0;
  if (code === 0 || !ok) {
    const step = 'all of it with the rights of `kubenode install`, and no request was refused';
    const detail = ok ? `${requests} requests by ${identities} identities` : problems.slice(0, 50).join('\n   ');
    steps.push({ step, ok, ms: 0, detail });
    print(` ${ok ? '✓' : '×'} ${step}\n   ${detail}`);
  }
  if (stepsFile !== undefined) writeFileSync(stepsFile, steps.map((step) => `${JSON.stringify(step)}\n`).join(''));
  const good = steps.filter(({ ok }) => ok);
  const seconds = steps.reduce((sum, { ms }) => sum + ms, 0) / 1000;
  print(` ${good.length} of ${steps.length} steps of the tour came true on real API servers, in ${seconds.toFixed(0)} s\n`);
  return ok ? code : 1;
}

/** On two processors with eight API servers and controller managers beside it. */
const PATIENCE = '2';

const OF_ANY_VERSION = (): string[] => [
  ...['conformance/kind-rules', 'least-privilege', 'integration', 'faults'].map((each) => `test/${each}`),
  ...readdirSync(join(root, 'test/kubernetes'))
    .filter((name) => name.endsWith('.test.ts') && name !== 'client-go.test.ts')
    .map((name) => `test/kubernetes/${name}`),
];

async function main(): Promise<number> {
  const own = /^--(record|tour-steps=(?<file>.+))$/;
  const args = process.argv.slice(2);
  const given = args.filter((arg) => !own.test(arg) && arg !== 'tour');
  const onlyTour = args.includes('tour');
  const stepsFile = args.map((arg) => own.exec(arg)?.groups?.['file']).find((file) => file !== undefined);
  const interrupted = new AbortController();
  const { signal } = interrupted;
  // More than once: npm passes on what the terminal has sent already.
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(name, () => interrupted.abort(new Error(name)));
  const programs = await findPrograms(print);
  print(`kube-apiserver and etcd ${programs.source === 'built' ? 'built in' : 'from'} ${programs.folder}`);
  const withTour = onlyTour || given.every((arg) => arg.startsWith('-'));
  const withPlanes = withTour || given.some((arg) => arg.includes('integration'));
  let planes: ControlPlanes | undefined;
  // What is recorded, and the embedded server, speak as the usual version.
  if (!isUsual(wantedVersion()) && withTour) given.push(...OF_ANY_VERSION());
  try {
    if (programs.controllerManager === undefined)
      print(
        'there is no kube-controller-manager: what it does is not tested, and the tour, whose agents need its certificates, is not run',
      );
    else if (withPlanes) planes = await startControlPlanes(programs, ['hub', 'test', 'pre', 'prod']);
    const tests = onlyTour ? 0 : await suites(programs, given, args.includes('--record'), planes?.kubeconfig, signal);
    if (signal.aborted) return 130;
    const toured = withTour && planes !== undefined ? await tour(planes, stepsFile, signal) : 0;
    return tests === 0 ? toured : tests;
  } finally {
    await planes?.stop();
  }
}

async function suites(
  programs: Programs,
  args: readonly string[],
  record: boolean,
  controlPlanes: string | undefined,
  signal: AbortSignal,
): Promise<number> {
  const plane = await startControlPlane(programs);
  try {
    if (signal.aborted) return 130;
    return await vitest(
      args,
      {
        KUBENODE_TEST_KUBECONFIG: plane.kubeconfig,
        ...(plane.controllers ? { KUBENODE_TEST_CONTROLLERS: 'yes' } : {}),
        ...(programs.kubectl === undefined ? {} : { KUBENODE_TEST_KUBECTL: programs.kubectl }),
        ...(controlPlanes === undefined ? {} : { KUBENODE_TEST_CONTROL_PLANES: controlPlanes }),
        ...(record ? { KUBENODE_TEST_RECORD: 'yes' } : {}),
      },
      signal,
    );
  } finally {
    await plane.stop();
  }
}

try {
  process.exitCode = await main();
} catch (error) {
  print(error instanceof Error ? error.message : String(error));
  process.exitCode = 1;
}
