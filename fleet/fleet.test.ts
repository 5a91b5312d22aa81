/** The reference fleet works as its comments describe, and a fleet of your own elsewhere is rendered and checked in the same way. */
import { execFile } from 'node:child_process';
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { parseAllDocuments } from 'yaml';
import { expect, it } from 'vitest';
import type { MachineComponent } from '../src/api/machine-component.ts';
import type { MachineSet } from '../src/api/machine-set.ts';
import { checkRules } from '../src/rules/check.ts';
import { judgeObject } from '../src/cli/object-rules.ts';
import { findingText } from '../src/sync/render/finding.ts';
import { render } from '../src/sync/render/render.ts';
import { childBundle } from '../src/sync/render/testing/child-bundle.ts';
import { typecheck } from '../src/sync/render/type-check.ts';
import { validate, type Valid } from '../src/sync/render/validate.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const entry = 'fleet/main.ts';
const signal = AbortSignal.timeout(120_000);

/** As sync sees a commit: text by path. */
function filesOf(root: string): Map<string, string> {
  const files = ['fleet', 'rules'].flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).map((name) => `${folder}/${name}`),
  );
  return new Map(
    files.filter((path) => /(?<!\.test)\.(ts|json)$/.test(path)).map((path) => [path, readFileSync(join(root, path), 'utf8')]),
  );
}

async function valid(files: Map<string, string>): Promise<Valid> {
  const result = validate(await render(files, { childPath: await childBundle(), entry, signal, verify: true }), {
    checkRules,
    judgeObject,
  });
  if (result.ok) return result.valid;
  throw new Error(result.findings.map(findingText).join('\n'));
}

const reference = filesOf(ROOT);
let rendered: Promise<Valid> | undefined;
const referenceFleet = () => (rendered ??= valid(reference));

const digests = ({ clusters }: Valid) => clusters.map(({ name, units }) => [name, units.map(({ key, digest }) => [key, digest])]);

it('renders three clusters of one, two and four nodes', async () => {
  const { clusters } = await referenceFleet();
  expect(clusters.map(({ name, cluster }) => [name, cluster.metadata.labels])).toEqual([
    ['pre', { stage: 'pre' }],
    ['prod', { stage: 'prod' }],
    ['test', { stage: 'test' }],
  ]);
  const sizes = clusters.map(
    ({ units }) => units.flatMap(({ objects }) => objects).find((object) => object.kind === 'MachineSet') as MachineSet,
  );
  expect(sizes.map(({ spec }) => spec.replicas)).toEqual([2, 4, 1]);
  expect(clusters[0]?.units.map(({ key }) => key)).toEqual([
    'DefenderPolicy/default',
    'MachineComponentSet/local-detector',
    'MachineComponentSet/local-kubelet',
    'MachineComponentSet/local-runtime',
    'MachineSet/web/web',
    'NodeRemedier/disk-watermark',
    'NodeRemedier/hung-kernel-task',
    'NodeRemedier/kernel-deadlock',
    'NodeRemedier/kubelet-unhealthy',
    'NodeRemedier/not-ready',
    'NodeRemedier/readonly-filesystem',
    'NodeRemedier/runtime-restarting',
    'NodeRemedier/runtime-unhealthy',
    'Namespace/web',
  ]);
});

it('names only variables in templates that an agent fills in', async () => {
  const { clusters } = await referenceFleet();
  const components = clusters
    .flatMap(({ units }) => units.flatMap(({ objects }) => objects))
    .filter((object) => object.kind === 'MachineComponent') as MachineComponent[];
  const variables = components.flatMap(({ spec }) => JSON.stringify(spec).match(/\{\{.*?\}\}/g) ?? []);
  expect(new Set(variables)).toEqual(new Set(['{{dir}}', '{{root}}', '{{machine.nodeName}}', '{{machine.providerID}}', '{{bootstrap}}']));
  for (const { spec } of components)
    for (const { content } of spec.files ?? []) expect(Object.keys(JSON.parse(content) as object)).toContain('bootstrap');
});

it('a version bump is one line, and changes one unit of each cluster', async () => {
  const files = reference;
  const bumped = new Map(files);
  bumped.set('fleet/versions.ts', (files.get('fleet/versions.ts') ?? '').replace("localKubelet('1.0.0')", "localKubelet('1.0.1')"));
  const [before, after] = [await referenceFleet(), await valid(bumped)];
  const changed = after.clusters.map(({ units }, index) =>
    units
      .filter(({ key, digest }) => before.clusters[index]?.units.find((unit) => unit.key === key)?.digest !== digest)
      .map(({ key }) => key),
  );
  expect(changed).toEqual(Array.from({ length: 3 }, () => ['MachineComponentSet/local-kubelet']));
  // And its revert gives the digests that were verified.
  expect(digests(await valid(files))).toEqual(digests(before));
});

it('a version that was never packed is refused where it is asked for', async () => {
  const files = new Map(reference);
  files.set('fleet/versions.ts', (files.get('fleet/versions.ts') ?? '').replace("localKubelet('1.0.0')", "localKubelet('7.7.7')"));
  await expect(valid(files)).rejects.toMatchObject({
    findings: [
      {
        code: 'ReleaseInvalid',
        message: expect.stringContaining('no version 7.7.7 of local-kubelet') as unknown,
        trace: expect.arrayContaining([expect.stringMatching(/^fleet\/versions\.ts:\d+/)]) as unknown,
      },
    ],
  });
});

it('type-checks', async () => {
  expect(await typecheck(reference, { entry, signal })).toEqual({ checked: true, findings: [] });
}, 120_000);

it('renders and type-checks the same as a repository of its own elsewhere on the disk', async () => {
  const elsewhere = mkdtempSync(join(tmpdir(), 'kubenode-fleet-'));
  try {
    for (const folder of ['fleet', 'rules']) cpSync(join(ROOT, folder), join(elsewhere, folder), { recursive: true });
    // Only the files count, not what is beside them.
    writeFileSync(join(elsewhere, 'package.json'), '{ "type": "commonjs", "imports": { "#x": "./x.ts" } }');
    const files = filesOf(elsewhere);
    expect(digests(await valid(files))).toEqual(digests(await referenceFleet()));
    expect(await typecheck(files, { entry, signal })).toEqual({ checked: true, findings: [] });
  } finally {
    rmSync(elsewhere, { recursive: true, force: true });
  }
});

it('is also what `cdk8s synth` writes', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'kubenode-synth-'));
  try {
    const [, app = ''] = /^app: node (.+)$/m.exec(readFileSync(join(ROOT, 'cdk8s.yaml'), 'utf8')) ?? [];
    await promisify(execFile)(process.execPath, app.split(' '), { cwd: ROOT, env: { CDK8S_OUTDIR: folder } });
    const { clusters } = await referenceFleet();
    for (const { name, cluster, units } of clusters) {
      const written = parseAllDocuments(readFileSync(join(folder, `${name}.k8s.yaml`), 'utf8')).map(
        (document) => document.toJS() as unknown,
      );
      const objects = [cluster, ...new Set(units.flatMap((unit) => unit.objects))];
      expect(written).toHaveLength(objects.length);
      expect(written).toEqual(expect.arrayContaining(objects));
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
