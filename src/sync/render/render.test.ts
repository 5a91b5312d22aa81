import { Construct, RootConstruct } from 'constructs';
import { describe, expect, it } from 'vitest';
import { canonical } from '../../api/digest.ts';
import { checkRules } from '../../rules/check.ts';
import { judgeObject } from '../../cli/object-rules.ts';
import { RenderError } from './errors.ts';
import { findingText } from './finding.ts';
import { render } from './render.ts';
import { ENTRY, inCluster, refused, renderFleet, running } from './testing/fleets.ts';
import { walls } from './wall.ts';
import { validate } from './validate.ts';

const machineSet = "  new MachineSet(web, 'web', { provider: 'local' });";

describe.concurrent('a fleet', () => {
  it('renders to the objects of each cluster, sorted, each with the line that made it', async () => {
    const source = inCluster(
      `${machineSet}
  new MachineComponentSet(cluster, 'kubelet', { component: kubelet });`,
      "const kubelet = release('kubelet', '1.0.0', { any: { url: 'k.tgz', sha256: 'a' } });\nconsole.log('hello', { from: 'fleet' });\nfleet.cluster('bare');",
    );
    const rendered = await renderFleet(source, { verify: true });
    expect(rendered.clusters.map((cluster) => [cluster.name, cluster.location, cluster.objects.length])).toEqual([
      ['bare', 'fleet/main.ts:4:7', 0],
      ['prod', 'fleet/main.ts:5:7', 4],
    ]);
    expect(
      rendered.clusters[1]?.objects.map(({ object, location, constructPath }) => [
        `${object.kind}/${object.metadata.name}`,
        location,
        constructPath,
      ]),
    ).toEqual([
      // Where it was released, not where a set first named it.
      ['MachineComponent/kubelet-1.0.0', 'fleet/main.ts:2:17', 'prod/MachineComponent:kubelet-1.0.0'],
      ['MachineComponentSet/kubelet', 'fleet/main.ts:9:3', 'prod/MachineComponentSet:kubelet'],
      ['MachineSet/web', 'fleet/main.ts:8:3', 'prod/pool:web/MachineSet:web'],
      ['Namespace/web', 'fleet/main.ts:7:23', 'prod/Namespace:web'],
    ]);
    expect(rendered.log).toBe('hello {"from":"fleet"}\n');
    expect(rendered.ms).toBeGreaterThan(0);
  });

  it('may be many files, JSON, text, and cdk8s-plus', async () => {
    const rendered = await renderFleet({
      [ENTRY]: "import './clusters.ts';\nimport './deep/er/objects.mts';",
      'fleet/clusters.ts':
        "import { fleet } from 'kubenode/constructs';\nimport sizes from '../sizes.json' with { type: 'json' };\nfleet.cluster('prod', { labels: { size: String(sizes.prod) } });",
      'sizes.json': '{ "prod": 7 }',
      'fleet/deep/er/objects.mts': `import { fleet, type Pool } from 'kubenode/constructs';
import { ConfigMap } from 'cdk8s-plus-27';
import { named } from './name.js';
import unit from './web.service' with { type: 'text' };
const make = (pool: Pool): void => void new ConfigMap(pool, 'unit', { metadata: { name: named }, data: { unit } });
fleet.allClusters((cluster) => make(cluster.pool('web')));`,
      'fleet/deep/er/name.js': "export const named = 'units';",
      'fleet/deep/er/web.service': '[Service]\nExecStart=/bin/true\n',
    });
    expect(rendered.clusters[0]?.object).toMatchObject({ metadata: { labels: { size: '7' } } });
    expect(rendered.clusters[0]?.objects[0]).toMatchObject({
      object: { kind: 'ConfigMap', metadata: { name: 'units', namespace: 'web' }, data: { unit: '[Service]\nExecStart=/bin/true\n' } },
      location: 'fleet/deep/er/objects.mts:5:41',
    });
  });

  it('gives the same objects behind every wall', async () => {
    const all = await Promise.all((await walls()).map((wall) => renderFleet(inCluster(machineSet), { walls: [wall] })));
    expect(new Set(all.map((rendered) => canonical(rendered.clusters))).size).toBe(1);
    expect(all.at(-1)?.isolation).toBe('process');
  });

  it('gives the same objects wrapped in constructs, at another line', async () => {
    const wrapped = inCluster(
      "  new Team(web, 'team');",
      `import { Construct } from 'constructs';
class Team extends Construct {
  constructor(scope: Construct, id: string) {
    super(scope, id);
    new MachineSet(this, 'web', { provider: 'local' });
  }
}`,
    );
    const [plain, inTeam] = await Promise.all([renderFleet(inCluster(machineSet)), renderFleet(wrapped)]);
    const digests = (rendered: typeof plain) => {
      const result = validate(rendered, { checkRules, judgeObject });
      return result.ok ? result.valid.clusters.map(({ units }) => units.map(({ key, digest }) => [key, digest])) : result.findings;
    };
    expect(digests(inTeam)).toEqual(digests(plain));
    expect(inTeam.clusters[0]?.objects[0]?.location).toBe('fleet/main.ts:12:3');
  });

  it('leads to the line that makes a subclass, not to its super()', async () => {
    const source = inCluster(
      "  const sets = ['a', 'b'].map((name) => new Web(web, name));\n  sets[0]?.addJsonPatch();",
      `class Base extends MachineSet {
  constructor(scope: any, name: string) {
    super(scope, name, { provider: 'local' });
  }
}
class Web extends Base {}`,
    );
    const rendered = await renderFleet(source);
    expect(rendered.clusters[0]?.objects.map(({ location }) => location)).toEqual([
      'fleet/main.ts:11:41',
      'fleet/main.ts:11:41',
      'fleet/main.ts:10:23',
    ]);
  });

  it('has the digests that its packages make of names', async () => {
    const { log } = await renderFleet(
      running("console.log(new Construct(new RootConstruct('röot'), 'child').node.addr);").replace(
        /^/,
        "import { Construct, RootConstruct } from 'constructs';\n",
      ),
    );
    expect(log.trim()).toBe(new Construct(new RootConstruct('röot'), 'child').node.addr);
  });

  it('names the files that import each other, where one is read before it has run', async () => {
    const circle = {
      [ENTRY]: "import { fleet } from 'kubenode/constructs';\nimport './sets.ts';\nfleet.cluster('prod').pool('web');\n",
      'fleet/sets.ts': "import { names } from './names.ts';\nexport const k0 = 'a';\nconsole.log(names);\n",
      'fleet/names.ts': "import type { T } from './main.ts';\nimport { upper } from './upper.ts';\nexport const names: T[] = [upper];\n",
      'fleet/upper.ts': "import { k0 } from './sets.ts';\nexport const upper = k0.toUpperCase();\n",
    };
    expect(await refused(circle)).toMatchObject({
      code: 'RenderThrew',
      file: 'fleet/upper.ts',
      line: 2,
      message:
        "ReferenceError: Cannot access 'k0' before initialization; files import each other: fleet/upper.ts → fleet/sets.ts → fleet/names.ts → fleet/upper.ts",
      next: 'move what they need of each other into a file that imports none of them',
    });
    const alone = await refused(running('console.log(k0);\nconst k0 = 1;'));
    expect(alone.message).toBe("ReferenceError: Cannot access 'k0' before initialization");
    expect(alone.next).toBeUndefined();
  });

  it('can be refused behind a weak wall', async () => {
    const bare = (await walls()).slice(-1);
    expect(await refused(inCluster(machineSet), { isolationAtLeast: 'namespaces', walls: bare })).toMatchObject({
      code: 'RenderIsolation',
      message: 'the fleet must be rendered behind "namespaces", and "process" is what this machine has',
    });
  });

  it('ends when the caller no longer wants it', async () => {
    const aborted = renderFleet(running('for (;;) {}'), { signal: AbortSignal.timeout(300) });
    await expect(aborted).rejects.toMatchObject({ name: 'TimeoutError' });
    await expect(renderFleet(running(''), { signal: AbortSignal.abort(new Error('not now')) })).rejects.toThrow('not now');
  });
});

describe.concurrent('a fleet that does not run is refused with its line', () => {
  const errors: [what: string, source: string | Record<string, string>, finding: object][] = [
    ['a syntax error', 'const a = ;', { code: 'RenderSyntax', file: ENTRY, line: 1, column: 11 }],
    ['a type error that stripping meets', 'const a: = 1;', { code: 'RenderSyntax', line: 1 }],
    [
      'an enum',
      'export {};\nenum A { B }',
      { code: 'RenderSyntax', line: 2, column: 1, next: expect.stringContaining('without enum') as unknown },
    ],
    [
      'JSON that is none',
      { [ENTRY]: "import a from './a.json' with { type: 'json' };\na;", 'fleet/a.json': '{\n  "a": }' },
      { code: 'RenderSyntax', file: 'fleet/a.json' },
    ],
    [
      'JSON that breaks off in a line',
      { [ENTRY]: "import a from './a.json' with { type: 'json' };\na;", 'fleet/a.json': '{\n  "a": 1 "b"}' },
      { code: 'RenderSyntax', file: 'fleet/a.json', line: 2, column: 10 },
    ],
    [
      'a default import of a package',
      "import x from 'cdk8s';\nx;",
      { code: 'RenderImport', line: 1, column: 15, next: expect.stringContaining('no default export') as unknown },
    ],
    [
      'JSON without its attribute',
      { [ENTRY]: "import a from './a.json';", 'fleet/a.json': '{}' },
      { code: 'RenderImport', line: 1, column: 15, next: "import value from './a.json' with { type: 'json' }" },
    ],
    [
      'text without its attribute',
      { [ENTRY]: "import a from './a.sh';", 'fleet/a.sh': '' },
      { code: 'RenderImport', next: "import text from './a.sh' with { type: 'text' }" },
    ],
    [
      'a package',
      "import x from 'lodash';",
      { code: 'RenderImport', message: expect.stringContaining('cdk8s, cdk8s-plus-27, constructs, kubenode/constructs') as unknown },
    ],
    [
      'another package',
      "import x from 'lodash';",
      { next: 'a fleet that needs other packages renders in its own CI and hands over plain YAML' },
    ],
    [
      'files, by Node',
      "import x from 'node:fs/promises';",
      { code: 'RenderImport', line: 1, column: 15, next: "import text from './file' with { type: 'text' }" },
    ],
    ['an alias of package.json', "import x from '#lib';", { code: 'RenderImport', next: expect.stringContaining('aliases') as unknown }],
    ['an alias of the home', "import x from '~/lib';", { code: 'RenderImport', next: expect.stringContaining('aliases') as unknown }],
    ['a path of the machine', "import x from '/etc/passwd';", { code: 'RenderImport', next: undefined }],
    ['a URL', "import x from 'https://a.example/x.js';", { code: 'RenderImport', next: undefined }],
    [
      'a file a second time',
      { [ENTRY]: "import './a.ts?again';", 'fleet/a.ts': '' },
      { message: 'must not import "./a.ts?again": a "?" or "#" would run the file twice' },
    ],
    ['a module while it runs', 'export {};\nexport const a = () => import("./a.ts");', { code: 'RenderImport', line: 2, column: 24 }],
    [
      'code as JSON',
      { [ENTRY]: "import a from './a.ts' with { type: 'json' };", 'fleet/a.ts': '' },
      { code: 'RenderImport', message: '"fleet/a.ts" is code, and no json' },
    ],
    [
      'a folder',
      { [ENTRY]: "import './nodes/';", 'fleet/nodes/index.ts': '' },
      { code: 'RenderNotFound', next: 'did you mean "./nodes/index.ts"?' },
    ],
    ['what it was before it was TypeScript', { [ENTRY]: "import '../a.mjs';", 'a.mts': '' }, { next: 'did you mean "../a.mts"?' }],
    ['what is like nothing', { [ENTRY]: "import './b.ts';", 'fleet/a.ts': '' }, { code: 'RenderNotFound', next: undefined }],
    [
      'a default import of a file without one',
      { [ENTRY]: "import './b.ts';\nimport a from './a.ts';\na;", 'fleet/a.ts': 'export const b = 1;', 'fleet/b.ts': '' },
      { code: 'RenderImport', file: ENTRY, line: 2, column: 15, next: expect.stringContaining('no default export') as unknown },
    ],
    [
      'a type imported as a value, in another file than the first that has its name',
      {
        [ENTRY]: "import './a.ts';\nconst T = 1;\nT;",
        'fleet/a.ts': "export const a = 1;\nimport { T } from '../t.ts';\nT;",
        't.ts': 'export interface T {}',
      },
      { code: 'RenderImport', file: 'fleet/a.ts', line: 2, column: 19 },
    ],
    ['an alias', "import x from '@/lib';", { code: 'RenderImport', next: expect.stringContaining('aliases') as unknown }],
    [
      'a missing file',
      { [ENTRY]: "\nimport './nodes';", 'fleet/nodes.ts': '' },
      { code: 'RenderNotFound', line: 2, column: 8, message: 'the commit has no file "fleet/nodes"', next: 'did you mean "./nodes.ts"?' },
    ],
    [
      'a missing file in another',
      { [ENTRY]: "import './a.ts';", 'fleet/a.ts': "\n\nimport '../rules/x.ts';" },
      { code: 'RenderNotFound', file: 'fleet/a.ts', line: 3 },
    ],
    [
      'a type imported as a value',
      { [ENTRY]: "import { T } from './a.ts';\nlet t: T;", 'fleet/a.ts': 'export interface T {}' },
      { code: 'RenderImport', line: 1, next: 'if T is a type: import type { T } from …' },
    ],
    [
      'a type exported again as a value',
      { [ENTRY]: "export { T } from './a.ts';", 'fleet/a.ts': 'export interface T {}' },
      { code: 'RenderImport', line: 1, next: 'if T is a type: import type { T } from …' },
    ],
    [
      'an exception',
      { [ENTRY]: "import { f } from './a.ts';\nf();", 'fleet/a.ts': "export const f = () => {\n  throw new TypeError('no');\n};" },
      { code: 'RenderThrew', file: 'fleet/a.ts', line: 2, message: 'TypeError: no', trace: ['fleet/main.ts:2:1'] },
    ],
    [
      'an exception whose message resembles the location of another file',
      "throw new Error('\\nfleet:///fleet/other.ts:99\\n  no\\n  ^^^');",
      { code: 'RenderThrew', file: ENTRY, line: 1 },
    ],
    [
      'a late value that throws what is no Error',
      inCluster(
        "  new ConfigMap(web, 'a', { metadata: { name: 'a' }, data: { a: Lazy.any({ produce() { throw 'late'; } }) as never } });",
        "import { Lazy } from 'cdk8s';\nimport { ConfigMap } from 'cdk8s-plus-27';",
      ),
      { code: 'RenderValue', message: "Failed serializing construct at path 'prod/pool:web/a/Resource' with name 'a': late" },
    ],
    [
      'an exception that is none',
      "throw 'text';",
      { code: 'RenderThrew', file: ENTRY, message: 'threw "text", which is not an Error and has no line' },
    ],
    [
      'a rejection that is not handled',
      running("void Promise.reject(new Error('later'));"),
      { code: 'RenderThrew', message: 'Error: later', line: 2 },
    ],
    [
      'a rejection that is not handled, with no Error',
      running("void Promise.reject('late');"),
      { code: 'RenderThrew', file: ENTRY, message: 'threw "late", which is not an Error and has no line' },
    ],
    ['a promise that never settles', 'await new Promise(() => {});', { code: 'RenderNeverSettles', file: ENTRY }],
    [
      'no cluster',
      'export {};',
      { code: 'RenderEmpty', file: ENTRY, message: 'the fleet declares no cluster; an empty fleet deletes nothing' },
    ],
    [
      'no object',
      "import { fleet } from 'kubenode/constructs';\nfleet.cluster('a');",
      { code: 'RenderEmpty', message: 'no cluster has any object; an empty fleet deletes nothing' },
    ],
    [
      'a selector that matches nothing',
      inCluster('').replace("{ stage: 'prod' }, (", "{ stage: 'prd' }, ("),
      {
        code: 'ClusterMissing',
        line: 4,
        column: 7,
        message: 'there is no cluster with the labels stage=prd in this commit; declared: prod',
      },
    ],
    [
      'a cluster declared twice',
      inCluster('', "fleet.cluster('prod');"),
      { code: 'ClusterDeclared', line: 3, message: 'cluster "prod" is declared twice, first at fleet/main.ts:2:7' },
    ],
    [
      'an object of cdk8s without a name',
      inCluster("  new ConfigMap(web, 'x', { data: {} });", "import { ConfigMap } from 'cdk8s-plus-27';"),
      { code: 'NameMissing', line: 6 },
    ],
    [
      'an object of a chart of its own without a name',
      inCluster(
        "  new ApiObject(new Chart(cluster, 'c'), 'x', { apiVersion: 'v1', kind: 'A' });",
        "import { ApiObject, Chart } from 'cdk8s';",
      ),
      { code: 'NameMissing', line: 6 },
    ],
    [
      'an object in no cluster',
      inCluster(
        '',
        "import { App, Chart } from 'cdk8s';\nnew KubeObject(new Chart(new App(), 'c'), { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'lost' } });",
      ),
      { code: 'RenderInvalid', line: 3, object: 'ConfigMap/lost', message: 'is in no cluster, so nothing would apply it' },
    ],
    [
      'a failed validation of a construct',
      inCluster("  web.node.addValidation({ validate: () => ['too small'] });"),
      { code: 'RenderInvalid', line: 5, object: 'prod/pool:web', message: 'too small' },
    ],
    [
      'a digest that was cut',
      inCluster("  release('a', '1', { any: { url: 'x', sha256: sha256('abc') } });", "import { sha256 } from 'kubenode/constructs';"),
      { code: 'ReleaseInvalid', line: 6 },
    ],
    [
      'a component that is none',
      inCluster("  new MachineComponentSet(cluster, 'a', { component: '1.0.0' as any });"),
      { code: 'ReleaseInvalid', line: 6, message: '`component` of "a" must be a release' },
    ],
  ];

  it.each(errors)('%s', async (_, source, finding) => {
    expect(await refused(source)).toMatchObject(finding);
  });

  it('an entry that the commit does not have', async () => {
    expect(await refused({ 'fleet/other.ts': '' })).toMatchObject({
      code: 'RenderNotFound',
      message: 'the commit has no file "fleet/main.ts"',
    });
  });

  it('values that JSON would change without a word, each with its field', async () => {
    const values = ['null', 'NaN', '1n', '() => 1', 'new Date(0)', 'new Map()', "Symbol('x')", '[[1, undefined]]', 'deep'];
    const body = values.map(
      (value, index) =>
        `  new KubeObject(web, { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'a${index}' }, data: { list: [${value}] } });`,
    );
    const head = 'let deep: unknown = 1;\nfor (let i = 0; i < 70; i++) deep = { deep };';
    const { findings } = await refused(inCluster(body.join('\n'), head));
    expect(findings.map(({ object, line, path, message }) => [object, line, path?.slice(0, 20), message])).toEqual([
      ['ConfigMap/a0', 7, 'data.list[0]', 'must not be undefined: a list has values only'],
      ['ConfigMap/a1', 8, 'data.list[0]', 'must be a finite number, got NaN'],
      ['ConfigMap/a2', 9, 'data.list[0]', 'must be JSON, got a bigint'],
      ['ConfigMap/a3', 10, 'data.list[0]', 'must be JSON, got a function'],
      ['ConfigMap/a4', 11, 'data.list[0]', 'must be a plain value, got a Date: write the time as text'],
      ['ConfigMap/a5', 12, 'data.list[0]', 'must be a plain value, got a Map'],
      ['ConfigMap/a6', 13, 'data.list[0]', 'must be JSON, got a symbol'],
      ['ConfigMap/a7', 14, 'data.list[0][0][1]', 'must not be undefined: a list has values only'],
      ['ConfigMap/a8', 15, 'data.list[0].deep.de', 'must not be nested deeper than 64'],
    ]);
  });

  it('keys that would change what an object is', async () => {
    const source = {
      [ENTRY]: inCluster(
        "  new KubeObject(web, { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'a' }, data });",
        "import data from './a.json' with { type: 'json' };",
      ),
      'fleet/a.json': '{ "__proto__": { "polluted": "yes" } }',
    };
    expect(await refused(source)).toMatchObject({ code: 'RenderValue', line: 6, message: 'must not have a key "__proto__"' });
  });
});

it('an error is one readable text, with all findings in it', async () => {
  const body = "  new KubeObject(web, { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'a' }, data: { a: NaN, b: 1n } });";
  const error: unknown = await renderFleet(inCluster(body)).catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(RenderError);
  expect((error as RenderError).message).toBe(
    'fleet/main.ts:6:3: ConfigMap/a in prod: `data.a`: must be a finite number, got NaN (and 1 more)',
  );
  expect((error as RenderError).findings.map(findingText)[1]).toContain('`data.b`');
});

it('a child that is not there is an error, not a hang', async () => {
  const rendering = render(new Map([[ENTRY, '']]), { childPath: '/nowhere/child.mjs', entry: ENTRY, signal: AbortSignal.timeout(5000) });
  await expect(rendering).rejects.toThrow('/nowhere/child.mjs');
});
