import { expect, it } from 'vitest';
import fc from 'fast-check';
import { canonical, unitDigest } from './digest.ts';
import { ALL_KINDS } from './kinds.ts';
import { API_VERSION } from './kind.ts';
import { disruptionOf } from './disruption.ts';
import { MachineComponentSets } from './machine-component-set.ts';
import { Machines } from './machine.ts';
import { splitUnits } from './unit.ts';

const set = (spec: object) => ({
  apiVersion: API_VERSION,
  kind: 'MachineComponentSet',
  metadata: { name: 's' },
  spec: { componentName: 'kubelet', version: '1.0.0', ...spec },
});
const component = (version: string, extra = {}) => ({
  apiVersion: API_VERSION,
  kind: 'MachineComponent',
  metadata: { name: `kubelet-${version}` },
  spec: { componentName: 'kubelet', version, platforms: [], ...extra },
});

it.each(ALL_KINDS.map((kind) => [kind.kind, kind] as const))('%s has a CRD with a status subresource and a description', (_, kind) => {
  const crd = kind.crd();
  expect(crd.metadata.name).toBe(`${kind.plural}.kubenode.io`);
  expect(JSON.stringify(crd)).toContain('"subresources":{"status":{}');
  expect(kind.description.length).toBeGreaterThan(20);
});

it('names the field path and what is allowed', () => {
  expect(MachineComponentSets.validate(set({ maxFailed: 0 }))).toEqual([{ path: 'spec.maxFailed', message: 'must be >= 1' }]);
  expect(MachineComponentSets.validate(set({ action: 'Delete' }))).toEqual([
    { path: 'spec.action', message: 'must be one of "Install", "Remove"' },
  ]);
  expect(MachineComponentSets.validate(set({ soakSecs: 3 }))).toEqual([
    { path: 'spec.soakSecs', message: 'unknown field', code: 'Unknown' },
  ]);
  expect(MachineComponentSets.validate(set({ batches: ['50%'] }))[0]?.path).toBe('spec.batches');
});

it('keeps unknown fields out of a write but lets a newer server send them', () => {
  const machine = { apiVersion: API_VERSION, kind: 'Machine', metadata: { name: 'a' }, spec: { fromTheFuture: 1 } };
  expect(Machines.validate(machine)).toEqual([{ path: 'spec.fromTheFuture', message: 'unknown field', code: 'Unknown' }]);
  expect(Machines.parse(machine)).toBe(machine);
});

it('refuses what is not of the kind', () => {
  expect(() => Machines.parse({ apiVersion: 'v1', kind: 'Pod', metadata: { name: 'x' }, spec: {} })).toThrow('Machine');
  expect(() => Machines.parse(null)).toThrow('Machine');
});

it('E1: gives equal digests to equal content, however keys are ordered', () => {
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.jsonValue()), (object) => {
      const reversed = Object.fromEntries(Object.entries(object).toReversed());
      expect(canonical(reversed)).toBe(canonical(object));
      expect(JSON.parse(canonical(object))).toEqual(JSON.parse(JSON.stringify(object)));
    }),
  );
  expect(unitDigest([{ a: 1 }, { b: 2 }])).toBe(unitDigest([{ b: 2 }, { a: 1 }]));
  expect(unitDigest([{ a: 1 }])).not.toBe(unitDigest([{ a: 2 }]));
});

it('E1: a unit is a set with the components it names, so a changed component changes the digest', () => {
  const before = splitUnits([set({}), component('1.0.0')]);
  const after = splitUnits([set({}), component('1.0.0', { healthDeadlineSeconds: 5 })]);
  expect(before.units.map((unit) => unit.key)).toEqual(['MachineComponentSet/s']);
  expect(before.units[0]?.objects.map((object) => object.kind)).toEqual(['MachineComponent', 'MachineComponentSet']);
  expect(before.units[0]?.digest).not.toBe(after.units[0]?.digest);
  expect(splitUnits([set({ version: '2.0.0' }), component('1.0.0')])).toMatchObject({
    missing: [{ about: { kind: 'MachineComponentSet', metadata: { name: 's' } }, component: 'kubelet-2.0.0' }],
    unnamed: [{ metadata: { name: 'kubelet-1.0.0' } }],
  });
});

it('judges the disruption of a change by the part of the version that differs', () => {
  const to = (version: string) => ({ version, disruption: { minor: 'Drain' } as const });
  expect(disruptionOf(undefined, to('1.0.0'))).toBe('None');
  expect(disruptionOf({ version: '1.0.0' }, to('1.0.1'))).toBe('Restart');
  expect(disruptionOf({ version: '1.1.0' }, to('1.0.0'))).toBe('Drain');
  expect(disruptionOf({ version: '1.0.0' }, to('nightly'))).toBe('Drain');
  expect(disruptionOf({ version: '1.0.0' }, undefined)).toBe('Restart');
});
