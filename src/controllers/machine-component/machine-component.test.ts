import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { API_VERSION } from '../../api/kind.ts';
import { Machines } from '../../api/machine.ts';
import { MachineComponents } from '../../api/machine-component.ts';
import { machineComponentName } from '../../api/machine-component/values.ts';
import { MachineComponentSets } from '../../api/machine-component-set.ts';
import { waitFor } from '../../kube/testing/wait-for.ts';
import { openCell, type TestCell } from '../machine-component-set/testing/cell.ts';
import { runMachineComponentController } from './controller.ts';
import { namedComponents } from './decide.ts';

const LATE = { deadlineMs: 15_000 };
const LONG_AGO = '2020-01-01T00:00:00Z';

describe('A7: versions that nothing names', () => {
  let cell: TestCell;
  let running: Promise<void>[];
  beforeEach(async () => {
    cell = await openCell();
    running = [runMachineComponentController(cell.ports)];
  });
  afterEach(() => cell.close(running));

  const nameOf = (version: string) => machineComponentName('kubelet', version);
  const find = (version: string) => cell.client.find(MachineComponents, { name: nameOf(version) });
  const inUse = async (version: string) => (await find(version))?.status?.conditions?.find(({ type }) => type === 'InUse')?.status;

  async function make(version: string): Promise<void> {
    await cell.client.create(MachineComponents, {
      apiVersion: API_VERSION,
      kind: 'MachineComponent',
      metadata: { name: nameOf(version) },
      spec: { componentName: 'kubelet', version, platforms: [{ os: 'any', arch: 'any', artifacts: [] }] },
    });
  }

  /** As if the condition had last changed long ago. */
  async function age(version: string, status: 'True' | 'False'): Promise<void> {
    const conditions = [{ type: 'InUse', status, reason: 'Test', message: '', lastTransitionTime: LONG_AGO }];
    await cell.client.patch(MachineComponents, { name: nameOf(version) }, { merge: { status: { conditions } } }, { subresource: 'status' });
  }

  it('A7: one that a set names is in use, one that nothing names is reported so and stays for 30 days', async () => {
    await make('1.0.0');
    await make('1.1.0');
    await cell.client.create(MachineComponentSets, {
      apiVersion: API_VERSION,
      kind: 'MachineComponentSet',
      metadata: { name: 'kubelet' },
      spec: { componentName: 'kubelet', version: '1.1.0' },
    });
    await waitFor(async () => (await inUse('1.0.0')) === 'False' && (await inUse('1.1.0')) === 'True', LATE);
    expect(await find('1.0.0')).toBeDefined();
  });

  it('A7: after 30 days it is deleted; what a machine could go back to is not', async () => {
    await cell.client.create(Machines, {
      apiVersion: API_VERSION,
      kind: 'Machine',
      metadata: { namespace: 'web', name: 'm0' },
      spec: {},
    });
    const verified = { name: 'kubelet', version: '1.0.0', revision: 1, setUID: 's', bootID: 'b', since: LONG_AGO };
    await cell.client.patch(
      Machines,
      { namespace: 'web', name: 'm0' },
      { merge: { status: { verified: [verified] } } },
      { subresource: 'status' },
    );
    await make('1.0.0');
    await make('1.1.0');
    await waitFor(async () => (await inUse('1.0.0')) !== undefined && (await inUse('1.1.0')) === 'False', LATE);
    await age('1.1.0', 'False');
    await waitFor(async () => (await find('1.1.0')) === undefined, LATE);
    expect(await find('1.0.0')).toBeDefined();
  });

  it('A7: one that is named again after long begins its 30 days again', async () => {
    await make('1.0.0');
    await waitFor(async () => (await inUse('1.0.0')) === 'False', LATE);
    await cell.client.create(MachineComponentSets, {
      apiVersion: API_VERSION,
      kind: 'MachineComponentSet',
      metadata: { name: 'kubelet' },
      spec: { componentName: 'kubelet', version: '1.0.0' },
    });
    await waitFor(async () => (await inUse('1.0.0')) === 'True', LATE);
    await age('1.0.0', 'True');
    await cell.client.delete(MachineComponentSets, { name: 'kubelet' });
    await waitFor(async () => (await inUse('1.0.0')) === 'False', LATE);
    expect(await find('1.0.0')).toBeDefined();
  });
});

it('A7: wanted, running, previous and verified versions of machines are named, and those of canaries', () => {
  const machine = {
    metadata: { name: 'm' },
    spec: { components: [{ name: 'kubelet', version: '2' }] },
    status: {
      components: [
        { name: 'kubelet', version: '1', previous: '0' },
        { name: 'cni', version: '' },
      ],
      verified: [{ name: 'kubelet', version: '-1' }],
    },
  };
  const set = { metadata: { name: 's' }, spec: { componentName: 'cni', version: '5', canary: { selector: {}, version: '6' } } };
  const named = namedComponents(
    [machine as unknown as Parameters<typeof namedComponents>[0][number]],
    [set as unknown as Parameters<typeof namedComponents>[1][number]],
  );
  expect([...named].sort()).toEqual(['cni-5', 'cni-6', 'kubelet--1', 'kubelet-0', 'kubelet-1', 'kubelet-2']);
});
