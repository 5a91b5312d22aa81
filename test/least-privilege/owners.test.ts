/**
 * The table of owners (deploy/owners.ts) against the admission policies alone: everyone has every right that RBAC can give. Each identity tries to make,
 * delete and label an object of every kind, and to change and to remove every field of its spec. What is expected stands here in the
 * test's own words, not in those of the manifests.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { JsonObject, KubeObject } from '../../src/api/wire.ts';
import { BREAK_GLASS } from '../../deploy/identities.ts';
import { install, loosen } from './installed.ts';
import { SAMPLES, type Sample } from './objects.ts';
import { attempt, WHO, type Name, type Outcome, type Result, type Rig } from './rig.ts';

/** Not KubeNode: a person, the ServiceAccount of some pod, and the cluster's administrator. To the policies they are one. */
const PEOPLE: Name[] = ['operator', 'stolenAccount', 'clusterAdmin'];
const EVERYONE = (Object.keys(WHO) as Name[]).filter((name) => !['viewer', 'admin', 'stranger'].includes(name));

interface Expected {
  create: Name[];
  delete: Name[];
  labels: Name[];
  /** Fields with other writers than `rest`. */
  fields: Record<string, Name[]>;
  /** Fields that others may remove, though not change. */
  removable?: Record<string, Name[]>;
  rest: Name[];
}

const git: Expected = { create: ['sync'], delete: ['sync'], labels: ['sync'], fields: {}, rest: ['sync'] };

const EXPECTED: Record<string, Expected> = {
  machines: {
    create: ['machineSet', ...PEOPLE],
    delete: ['machine', ...PEOPLE],
    labels: ['machineSet'],
    fields: {
      components: ['machineComponentSet'],
      failureDomain: ['machineSet'],
      operation: ['machine'],
      retire: ['machineSet'],
      hold: PEOPLE,
      paused: PEOPLE,
    },
    // A person who takes the mark back keeps the machine (docs/protocols.md#c8a).
    removable: { retire: PEOPLE },
    rest: ['machineSet'],
  },
  machinesets: { ...git, fields: { replicas: ['sync', ...PEOPLE], paused: ['sync', ...PEOPLE] } },
  machinecomponents: { ...git, delete: ['machineComponentSet'] },
  machinecomponentsets: { ...git, fields: { rolloutID: ['sync', ...PEOPLE], paused: ['sync', ...PEOPLE] } },
  defenderpolicies: git,
  noderemediers: git,
  freezes: { create: PEOPLE, delete: PEOPLE, labels: PEOPLE, fields: {}, rest: PEOPLE },
  disruptionledgers: { create: ['machine'], delete: [], labels: ['machine'], fields: {}, rest: [] },
  remedyoperationjobs: { create: ['remedy'], delete: ['remedyJob'], labels: ['remedy'], fields: {}, rest: ['remedy'] },
  fleets: { create: PEOPLE, delete: PEOPLE, labels: PEOPLE, fields: {}, rest: PEOPLE },
  clusters: { create: ['hub'], delete: PEOPLE, labels: ['hub'], fields: { paused: ['hub', ...PEOPLE] }, rest: ['hub'] },
  rollouts: { create: ['hub'], delete: ['hub'], labels: ['hub'], fields: { paused: PEOPLE, retry: PEOPLE }, rest: ['hub'] },
};

let rig: Rig & { remove: () => Promise<void> };
let tighten: () => Promise<void>;
let tried = 0;

beforeAll(async () => {
  rig = await install();
  tighten = await loosen(rig);
  const glass = rig.as({ user: 'root', group: BREAK_GLASS });
  await remove();
  let set: KubeObject | undefined;
  for (const { object, plural } of SAMPLES.toSorted((a) => (a.plural === 'machinesets' ? -1 : 0))) {
    const body = structuredClone(object);
    if (plural === 'machines' && set !== undefined) {
      const owner = { apiVersion: set.apiVersion, kind: set.kind, name: set.metadata.name, uid: set.metadata.uid ?? '', controller: true };
      body.metadata.ownerReferences = [owner];
    }
    const made = (await glass.request(request('POST', collection(plural, object), body))) as KubeObject;
    if (plural === 'machinesets') set = made;
  }
}, 120_000);

afterAll(async () => {
  await remove();
  await tighten();
  await rig.remove();
}, 60_000);

async function remove(): Promise<void> {
  const glass = rig.as({ user: 'root', group: BREAK_GLASS });
  for (const { plural, object } of SAMPLES)
    await attempt(glass.request({ method: 'DELETE', path: `${collection(plural, object)}/${object.metadata.name}` }));
}

const collection = (plural: string, { metadata }: KubeObject): string =>
  `/apis/kubenode.io/v1alpha1${metadata.namespace === undefined ? '' : `/namespaces/${metadata.namespace}`}/${plural}`;

function request(method: 'POST' | 'PATCH' | 'DELETE', path: string, body?: object, dry = false) {
  const type = method === 'PATCH' ? 'application/merge-patch+json' : 'application/json';
  return {
    method,
    path,
    query: { fieldValidation: 'Strict', ...(dry ? { dryRun: 'All' } : {}) },
    ...(body === undefined ? {} : { headers: { 'content-type': type }, body: JSON.stringify(body) }),
  };
}

interface Try {
  what: string;
  name: Name;
  /** Any of them. */
  expected: Outcome[];
  run: () => Promise<Result>;
}

/** Runs them all, some at once, and gives those that ended otherwise than expected. */
async function surprises(tries: Try[]): Promise<string[]> {
  const found: string[] = [];
  const queue = [...tries];
  const worker = async (): Promise<void> => {
    for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
      const { outcome, message } = await next.run();
      tried++;
      if (!next.expected.includes(outcome))
        found.push(`${next.name}: ${next.what}: ${outcome}, expected ${next.expected.join(' or ')} ${message}`);
    }
  };
  await Promise.all(Array.from({ length: 12 }, worker));
  return found;
}

const verdict = (writers: Name[], name: Name): Outcome[] => (writers.includes(name) ? ['ok'] : ['policy']);

describe.each(SAMPLES.map((sample): [string, Sample] => [sample.plural, sample]))('%s', (plural, sample) => {
  const expected = EXPECTED[plural];
  if (expected === undefined) throw new Error(`who writes ${plural}?`);
  const { object, others } = sample;
  const path = `${collection(plural, object)}/${object.metadata.name}`;
  const patch = (name: Name, body: object) => () => attempt(rig.as(WHO[name]).request(request('PATCH', path, body, true)));

  test('are made only by their makers', async () => {
    // Without what is others': a maker is limited to its own fields, too.
    const spec = Object.fromEntries(Object.entries(object.spec).filter(([field]) => !(field in expected.fields)));
    const copy = {
      ...object,
      metadata: { ...object.metadata, name: `${object.metadata.name}-2`, labels: {} },
      spec: { ...spec, ...sample.second },
    };
    const run = (name: Name) => () => attempt(rig.as(WHO[name]).request(request('POST', collection(plural, object), copy, true)));
    const tries = EVERYONE.map((name) => ({ what: 'create', name, expected: verdict(expected.create, name), run: run(name) }));
    expect(await surprises(tries)).toEqual([]);
  });

  test('are deleted only by those who may', async () => {
    const run = (name: Name) => () => attempt(rig.as(WHO[name]).request(request('DELETE', path, undefined, true)));
    const tries = EVERYONE.map((name) => ({ what: 'delete', name, expected: verdict(expected.delete, name), run: run(name) }));
    expect(await surprises(tries)).toEqual([]);
  });

  test('are deleted together only by those who may', async () => {
    const run = (name: Name) => () => attempt(rig.as(WHO[name]).request(request('DELETE', collection(plural, object), undefined, true)));
    const tries = EVERYONE.map((name) => ({ what: 'delete all', name, expected: verdict(expected.delete, name), run: run(name) }));
    expect(await surprises(tries)).toEqual([]);
  });

  test('are labelled only by those who may: set, changed, removed, all of them', async () => {
    const labels: [string, object | null][] = [
      ['add', { more: 'x' }],
      ['change', { color: 'red' }],
      ['remove', { color: null }],
      ['remove all', null],
    ];
    const tries = EVERYONE.flatMap((name) =>
      labels.map(([what, value]) => ({
        what: `${what} labels`,
        name,
        expected: verdict(expected.labels, name),
        run: patch(name, { metadata: { labels: value } }),
      })),
    );
    expect(await surprises(tries)).toEqual([]);
  });

  test('have fields that only their writers change or remove', async () => {
    const tries = EVERYONE.flatMap((name) =>
      Object.entries(object.spec).flatMap(([field]): Try[] => {
        const writers = expected.fields[field] ?? expected.rest;
        const allowed = verdict(writers, name);
        // The schema, or a rule of it, may refuse what a writer may try; it comes first.
        const removal: Try = {
          what: `remove ${field}`,
          name,
          expected: [...verdict([...writers, ...(expected.removable?.[field] ?? [])], name), 'invalid'],
          run: patch(name, { spec: { [field]: null } }),
        };
        if (!(field in others)) return [removal];
        return [removal, { what: `change ${field}`, name, expected: allowed, run: patch(name, { spec: { [field]: others[field] } }) }];
      }),
    );
    expect(await surprises(tries)).toEqual([]);
  });

  test('take a write by anyone that changes nothing, in part or whole', async () => {
    const live = (await rig.admin.request({ method: 'GET', path })) as KubeObject & { spec: JsonObject };
    const whole = { ...request('PATCH', path, live, true), method: 'PUT' as const, headers: { 'content-type': 'application/json' } };
    const tries = EVERYONE.flatMap((name): Try[] => {
      // An agent writes nothing but its status, not even the same.
      const expected: Outcome[] = ['agent', 'agentAccount', 'bootstrap'].includes(name) ? ['policy'] : ['ok'];
      return [
        { what: 'patch with the same', name, expected, run: patch(name, { spec: live.spec }) },
        { what: 'patch with nothing', name, expected, run: patch(name, {}) },
        { what: 'put the same', name, expected, run: () => attempt(rig.as(WHO[name]).request(whole)) },
      ];
    });
    expect(await surprises(tries)).toEqual([]);
  });
});

test('everything was tried', () => {
  expect(EVERYONE).toHaveLength(16);
  expect(tried).toBeGreaterThan(2900);
});
