/** For tests: renders a fleet of a few files. */
import type { Finding } from '../finding.ts';
import { RenderError } from '../errors.ts';
import { render, type Rendered, type RenderOptions } from '../render.ts';
import { childBundle } from './child-bundle.ts';

export const ENTRY = 'fleet/main.ts';

/** A fleet of one file, or of several. */
export async function renderFleet(source: string | Record<string, string>, options: Partial<RenderOptions> = {}): Promise<Rendered> {
  const files = new Map(Object.entries(typeof source === 'string' ? { [ENTRY]: source } : source));
  return render(files, { childPath: await childBundle(), entry: ENTRY, signal: AbortSignal.timeout(30_000), ...options });
}

/** What is wrong with a fleet that must not render. */
export async function refused(
  source: string | Record<string, string>,
  options: Partial<RenderOptions> = {},
): Promise<Finding & { findings: readonly Finding[] }> {
  const error: unknown = await renderFleet(source, options).then(
    () => new Error('it rendered'),
    (error: unknown) => error,
  );
  if (!(error instanceof RenderError)) throw error;
  return { ...error.findings[0], findings: error.findings };
}

/** A cluster and a pool, and in them what `body` makes. */
export const inCluster = (
  body: string,
  head = '',
): string => `import { fleet, KubeObject, MachineSet, MachineComponentSet, DefenderPolicy, release } from 'kubenode/constructs';
${head}
fleet.cluster('prod', { labels: { stage: 'prod' } });
fleet.clusters({ stage: 'prod' }, (cluster) => {
  const web = cluster.pool('web');
${body}
});
`;

/** A fleet that runs `code` at the top of its only module, and is sound otherwise. */
export const running = (code: string): string => `import { fleet } from 'kubenode/constructs';
${code}
fleet.cluster('prod').pool('web');
`;

/** What each of the expressions gives when a fleet tries it: how it was refused (code, or name and message), or `done`. */
export async function attempts(expressions: readonly string[], options: Partial<RenderOptions> = {}): Promise<Record<string, string>> {
  const tries = expressions.map((expression) => `[${JSON.stringify(expression)}, async () => { await (${expression}); }],`);
  const code = `
    const results = {};
    for (const [name, attempt] of [${tries.join('\n')}]) {
      try { await attempt(); results[name] = 'done'; }
      catch (error) { results[name] = error.code ?? error.name + ': ' + error.message; }
    }
    console.log(JSON.stringify(results));`;
  const { log } = await renderFleet(running(code), options);
  return JSON.parse(log) as Record<string, string>;
}
