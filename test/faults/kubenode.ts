/** The real program, as a person or a supervisor runs it. */
import { spawn } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { Connection } from '../../src/kube/connect.ts';
import { waitFor } from '../../src/kube/testing/wait-for.ts';
import { startKillable } from './killable.ts';

const ENTRY = fileURLToPath(new URL('../../bin/kubenode.js', import.meta.url));

/** Writes a kubeconfig with the one context `x`; what is given is put over the good one. */
export function writeKubeconfig(
  file: string,
  { server, ca, token }: Connection,
  over: { cluster?: object; user?: object; more?: object } = {},
): string {
  const authority = ca === undefined ? {} : { 'certificate-authority-data': Buffer.from(ca).toString('base64') };
  const config = {
    clusters: [{ name: 'c', cluster: { server, ...authority, ...over.cluster } }],
    users: [{ name: 'u', user: over.user ?? { token } }],
    contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
    'current-context': 'x',
    ...over.more,
  };
  writeFileSync(file, JSON.stringify(config), { mode: 0o600 });
  return file;
}

export async function kubenode(...args: string[]): Promise<{ code: number | null; stdout: string; stderr: string }> {
  const child = spawn(process.execPath, [ENTRY, ...args], { stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, LC_ALL: 'C' } });
  const output = { stdout: '', stderr: '' };
  for (const name of ['stdout', 'stderr'] as const) child[name].setEncoding('utf8').on('data', (text: string) => (output[name] += text));
  return await new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code) => resolve({ code, ...output }));
  });
}

export interface Line {
  msg: string;
  level: number;
  error?: string;
  next?: string;
}

export interface RunningController {
  lines(): Line[];
  /** Its first line that fits, of those after the first `from`. */
  waitForLog(text: string | RegExp, from?: number): Promise<Line>;
  kill(): Promise<void>;
}

/** `kubenode controller …`; ends with the test, however that ends. */
export async function startController(logFile: string, ...args: string[]): Promise<RunningController> {
  const running = await startKillable(process.execPath, [ENTRY, 'controller', ...args], logFile);
  const lines = (): Line[] =>
    readFileSync(logFile, 'utf8')
      .split('\n')
      .filter((line) => line.startsWith('{') && line.endsWith('}'))
      .map((line) => JSON.parse(line) as Line);
  return {
    lines,
    async waitForLog(text, from = 0) {
      const fits = (line: string): boolean => (typeof text === 'string' ? line.includes(text) : text.test(line));
      const found = (): Line | undefined =>
        lines()
          .slice(from)
          .find(({ msg, error = '' }) => fits(`${msg} ${error}`));
      return await waitFor(() => running.ended || found(), { deadlineMs: 60_000 }).then(
        (line) => (line === true ? Promise.reject(new Error(`the controller ended:\n${running.output()}`)) : line),
        () => Promise.reject(new Error(`the controller did not log ${String(text)}, but\n${running.output()}`)),
      );
    },
    kill: () => running.kill(),
  };
}
