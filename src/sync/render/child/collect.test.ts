/* oxlint-disable no-new -- in cdk8s making something is enough */
import { ApiObject, App, Chart, Lazy, Size } from 'cdk8s';
import { Construct, type IConstruct } from 'constructs';
import { describe, expect, test } from 'vitest';
import { Fleet } from '../../../constructs/fleet.ts';
import { KubeObject, type Cluster } from '../../../constructs/index.ts';
import { rememberOrigin } from '../../../constructs/origin.ts';
import type { Finding } from '../finding.ts';
import type { ChildOutput } from '../wire.ts';
import { collect } from './collect.ts';

const entry = 'fleet/main.ts';

/** What one cluster comes to. */
function collected(build: (cluster: Cluster) => void, made: readonly IConstruct[] = [], unsigned: Finding[] = []): ChildOutput {
  const fleet = new Fleet();
  fleet.cluster('prod');
  fleet.allClusters(build);
  return collect(fleet.build(), new Set(made), { entry, unsigned });
}

const map = (scope: Construct, name: string, more: object = {}): KubeObject =>
  new KubeObject(scope, { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name }, ...more });

function objects(output: ChildOutput): { path: string; location: string; object: unknown }[] {
  if (!output.ok) throw new Error(output.findings.map(({ message }) => message).join('; '));
  return output.clusters.flatMap((cluster) => cluster.objects as { path: string; location: string; object: unknown }[]);
}

const findings = (output: ChildOutput): Finding[] => (output.ok ? [] : output.findings);

/** What is reported of a value of one object. */
const ofValue = (data: unknown): [path: string | undefined, message: string][] =>
  findings(collected((cluster) => void map(cluster, 'a', { data }))).map(({ path, message }) => [path, message]);

describe('the objects of a cluster', () => {
  test('are sorted by version, kind, namespace, name and location, however they were made', () => {
    const output = collected((cluster) => {
      const [web, db] = [cluster.pool('web'), cluster.pool('db')];
      map(web, 'b');
      map(web, 'a');
      map(db, 'c');
      map(cluster, 'z');
      new KubeObject(web, { apiVersion: 'apps/v1', kind: 'DaemonSet', metadata: { name: 'z' } });
      new KubeObject(web, { apiVersion: 'apps/v1', kind: 'ControllerRevision', metadata: { name: 'z' } });
      map(web, 'a');
    });
    expect(objects(output).map(({ path }) => path)).toEqual([
      'prod/pool:web/ControllerRevision:z',
      'prod/pool:web/DaemonSet:z',
      'prod/ConfigMap:z',
      'prod/pool:db/ConfigMap:c',
      'prod/pool:web/ConfigMap:a',
      'prod/pool:web/ConfigMap:a#2',
      'prod/pool:web/ConfigMap:b',
      'prod/Namespace:db',
      'prod/Namespace:web',
    ]);
  });

  test('have the location where they were made, or the entry where none is known; so has the cluster', () => {
    const output = collected((cluster) => {
      rememberOrigin(cluster, 'fleet/clusters.ts:2:1');
      rememberOrigin(map(cluster, 'a'), 'fleet/a.ts:7:3');
      map(cluster, 'b');
    });
    expect(objects(output).map(({ location }) => location)).toEqual(['fleet/a.ts:7:3', entry]);
    expect(output).toMatchObject({
      ok: true,
      clusters: [{ name: 'prod', location: 'fleet/clusters.ts:2:1', object: { kind: 'Cluster', metadata: { name: 'prod' } } }],
    });
    expect(collected(() => undefined)).toMatchObject({ clusters: [{ location: entry, objects: [] }] });
  });

  test('go with what is not signed', () => {
    const unsigned = [{ code: 'X', message: 'not signed' }];
    expect(collected(() => undefined, [], unsigned)).toMatchObject({ ok: true, unsigned });
  });

  test('may report themselves what is wrong with them, each with its location', () => {
    const output = collected((cluster) => {
      const construct = new Construct(cluster, 'part');
      construct.node.addValidation({ validate: () => ['too small', 'too late'] });
      rememberOrigin(construct, 'fleet/a.ts:7:3');
    });
    const reported = { code: 'RenderInvalid', cluster: 'prod', object: 'prod/part', file: 'fleet/a.ts', line: 7, column: 3 };
    expect(findings(output)).toEqual([
      { ...reported, message: 'too small' },
      { ...reported, message: 'too late' },
    ]);
  });

  test('an object that is in no cluster is refused; other constructs may be anywhere', () => {
    const chart = new Chart(new App(), 'elsewhere');
    const [lost, known] = ['lost', 'known'].map((name) => map(chart, name));
    if (lost === undefined || known === undefined) throw new Error('not made');
    rememberOrigin(known, 'fleet/a.ts:7:3');
    let inside: IConstruct = chart;
    const output = collect(
      (() => {
        const fleet = new Fleet();
        fleet.cluster('prod');
        fleet.allClusters((cluster) => (inside = map(cluster, 'a')));
        return fleet.build();
      })(),
      new Set([chart, lost, known]),
      { entry, unsigned: [] },
    );
    expect(inside).not.toBe(chart);
    expect(findings(output).map(({ object, file, line, code }) => [object, file, line, code])).toEqual([
      ['ConfigMap/lost', entry, undefined, 'RenderInvalid'],
      ['ConfigMap/known', 'fleet/a.ts', 7, 'RenderInvalid'],
    ]);
    let own: IConstruct[] = [];
    expect(collected((cluster) => (own = [map(cluster, 'a')]), own).ok).toBe(true);
  });
});

describe('a value', () => {
  test.each<[what: string, value: unknown]>([
    ['null and undefined in an object', { a: null, b: undefined }],
    ['numbers, also none and less', [0, -1, 1.5]],
    ['texts and booleans', { a: '', b: true }],
    ['a token of cdk8s', { a: Lazy.any({ produce: () => 'late' }) }],
  ])('may be %s', (_what, data) => {
    expect(ofValue(data)).toEqual([]);
  });

  test.each<[what: string, value: unknown, path: string, message: string]>([
    // cdk8s makes it undefined.
    ['null in a list', { a: [1, null] }, 'data.a[1]', 'must not be undefined: a list has values only'],
    ['undefined in a list', [undefined], 'data[0]', 'must not be undefined: a list has values only'],
    ['no number', { a: Number.NaN }, 'data.a', 'must be a finite number, got NaN'],
    ['a number without an end', { a: [-Infinity] }, 'data.a[0]', 'must be a finite number, got -Infinity'],
    ['a function', { a: () => 1 }, 'data.a', 'must be JSON, got a function'],
    ['a symbol', { a: Symbol('x') }, 'data.a', 'must be JSON, got a symbol'],
    ['a large whole number', { a: 1n }, 'data.a', 'must be JSON, got a bigint'],
    ['a Date', { a: new Date(0) }, 'data.a', 'must be a plain value, got a Date: write the time as text'],
    ['a map', { a: { b: new Map() } }, 'data.a.b', 'must be a plain value, got a Map'],
    ['an object of a class', { a: Size.gibibytes(1) }, 'data.a', 'must be a plain value, got a Size'],
    [
      'one of no class',
      { a: Object.create(Object.create(null) as object) as unknown },
      'data.a',
      'must be a plain value, got a object without a prototype',
    ],
  ])('must not be %s', (_what, data, path, message) => {
    expect(ofValue(data)).toEqual([[path, message]]);
  });

  test('may be nested 64 deep, and no deeper', () => {
    const nested = (levels: number): unknown => (levels === 0 ? { end: 1 } : { a: nested(levels - 1) });
    expect(ofValue(nested(63))).toEqual([]);
    expect(ofValue(nested(64))).toEqual([[`data${'.a'.repeat(64)}`, 'must not be nested deeper than 64']]);
    const lists = (levels: number): unknown => (levels === 0 ? [1] : [lists(levels - 1)]);
    expect(ofValue(lists(63))).toEqual([]);
    expect(ofValue(lists(64))).toHaveLength(1);
  });

  test('that cannot be is reported ten times at most', () => {
    expect(ofValue(Array.from({ length: 9 }, () => null))).toHaveLength(9);
    expect(ofValue(Array.from({ length: 20 }, () => null))).toHaveLength(10);
  });

  test('of a cluster itself is judged, too', () => {
    const fleet = new Fleet();
    const labels = { a: Number.NaN, b: [null], c: Object.assign(Object.create(null) as object, { d: null }) };
    fleet.cluster('prod', { labels: labels as unknown as Record<string, string> });
    const found = { code: 'RenderValue', cluster: 'prod', object: 'Cluster/prod', file: entry };
    expect(findings(collect(fleet.build(), new Set(), { entry, unsigned: [] }))).toMatchObject([
      { ...found, path: 'metadata.labels.a' },
      { ...found, path: 'metadata.labels.b[0]', message: 'must not be null: a list has values only' },
    ]);
  });

  test('that its object cannot be made of is a finding, and the other objects are still judged', () => {
    const output = collected((cluster) => {
      const props = {
        metadata: { name: 'a' },
        data: Lazy.any({
          produce: () => {
            throw new Error('not yet');
          },
        }),
      };
      rememberOrigin(new ApiObject(cluster, 'odd', { apiVersion: 'v1', kind: 'ConfigMap', ...props }), 'fleet/a.ts:7:3');
      map(cluster, 'b', { data: [null] });
    });
    expect(findings(output)).toMatchObject([
      {
        code: 'RenderValue',
        cluster: 'prod',
        object: 'ConfigMap/a',
        message: expect.stringContaining('Error: not yet') as string,
        file: 'fleet/a.ts',
        line: 7,
      },
      { code: 'RenderValue', object: 'ConfigMap/b', path: 'data[0]' },
    ]);
  });
});
