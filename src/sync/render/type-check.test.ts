import { beforeAll, expect, it } from 'vitest';
import { ENTRY, inCluster } from './testing/fleets.ts';
import { typecheck } from './type-check.ts';

const signal = AbortSignal.timeout(60_000);

// The first check after a change of the sources makes declarations of them.
beforeAll(() => findingsOf({ [ENTRY]: '' }), 120_000);

async function findingsOf(files: Record<string, string>): Promise<unknown[]> {
  const result = await typecheck(new Map(Object.entries(files)), { entry: ENTRY, signal });
  if (!result.checked) throw new Error(result.reason);
  return result.findings;
}

it('finds what rendering would not: misspelt props, wrong values, at their lines', async () => {
  const body = `  new MachineSet(web, 'web', { provider: 'local', replicaz: 3 });
  new MachineComponentSet(cluster, 'a', { component: '1.0.0', batches: 7 });
  new DefenderPolicy(cluster, 'd', { limits: [{ name: 'a', scope: 'Node', maxUnavailable: 1 }] });`;
  expect(await findingsOf({ [ENTRY]: inCluster(body), 'fleet/unused.ts': 'not typescript' })).toMatchObject([
    { code: 'TS2561', file: ENTRY, line: 6, column: 51, message: expect.stringContaining("Did you mean to write 'replicas'?") as unknown },
    { code: 'TS2322', line: 7, column: 43 },
    { code: 'TS2322', line: 7, column: 63 },
    { code: 'TS2322', line: 8, column: 60 },
  ]);
});

it('knows what rendering offers: the packages, JSON, text, a log; and that Node is not there', async () => {
  const files = {
    [ENTRY]: `import { ConfigMap } from 'cdk8s-plus-27';
import { Construct } from 'constructs';
import { ApiObject } from 'cdk8s';
import { fleet, Kubelet } from 'kubenode/constructs';
import sizes from './sizes.json' with { type: 'json' };
import unit from './web.service' with { type: 'text' };
import license from '../LICENSE' with { type: 'text' };
const lengths: number[] = [sizes.prod, unit.length, license.length];
console.log(lengths, ConfigMap, Construct, ApiObject, fleet, Kubelet);
process.exit(1);`,
    'fleet/sizes.json': '{ "prod": 4 }',
    'fleet/web.service': '[Service]',
    LICENSE: 'do what you like',
  };
  expect(await findingsOf(files)).toMatchObject([{ code: 'TS2591', line: 10 }]);
});

it('refuses TypeScript that rendering cannot strip, and types imported as values', async () => {
  const files = {
    [ENTRY]: "import { T } from './a.ts';\nenum A { B }\nexport const t: T = { a: A.B };",
    'fleet/a.ts': 'export interface T { a: number }',
  };
  expect((await findingsOf(files)).map((finding) => (finding as { code: string }).code)).toEqual(['TS1484', 'TS1294']);
});

it('reports when there is no entry, and refuses paths that lead out', async () => {
  expect(await findingsOf({ 'fleet/other.ts': '' })).toMatchObject([{ code: 'RenderNotFound', file: ENTRY }]);
  await expect(findingsOf({ [ENTRY]: '', '../out.ts': '' })).rejects.toThrow('"../out.ts" leads out of the commit');
});

it('ends when the caller no longer wants it', async () => {
  await expect(typecheck(new Map([[ENTRY, '']]), { entry: ENTRY, signal: AbortSignal.abort(new Error('not now')) })).rejects.toThrow(
    'not now',
  );
});
