/** A client that makes the writes of a rollout and waits for nothing but their answers. */
import { join } from 'node:path';
import { MachineComponents, type MachineComponent } from '../src/api/machine-component.ts';
import { machineComponentName } from '../src/api/machine-component/values.ts';
import { MachineComponentSets, type MachineComponentSet } from '../src/api/machine-component-set.ts';
import { Machines, type Machine } from '../src/api/machine.ts';
import { MANAGERS } from '../src/api/names.ts';
import type { Stored } from '../src/api/wire.ts';
import { CELLS } from '../src/cli/tour/system.ts';
import { createClient } from '../src/kube/http-client.ts';
import type { Client } from '../src/kube/client.ts';
import { httpTransport } from '../src/kube/http-transport.ts';
import { connectionOf, serveProcess } from './api-server.ts';
import { now, BUMPED } from './system.ts';

export interface BareClient {
  /** Every write of one rollout. */
  rollOut(): Promise<{ firstMs: number; doneMs: number }>;
  close(): Promise<void>;
}

interface Cell {
  client: Client;
  component: MachineComponent;
  set: Stored<MachineComponentSet>;
  machines: Stored<Machine>[];
}

/** Serves the state of a system that was stopped: the same servers, the same objects, no controllers and no agents. */
export async function openBareClient(state: string): Promise<BareClient> {
  const server = await serveProcess(['hub', ...CELLS], join(state, 'server'));
  const closing = [() => server.close()];
  const cells: Cell[] = [];
  for (const name of CELLS) {
    const transport = httpTransport(connectionOf(server, name));
    closing.push(() => transport.close());
    const client = createClient(transport, { userAgent: 'kubenode-bench' });
    const set = await client.get(MachineComponentSets, { name: BUMPED });
    const component = await client.get(MachineComponents, { name: machineComponentName(BUMPED, set.spec.version) });
    cells.push({ client, component, set, machines: (await client.listAll(Machines)).items });
  }
  let rollouts = 0;
  return {
    async rollOut() {
      const version = `2.0.${++rollouts}`;
      const started = now();
      let firstMs: number | undefined;
      for (const cell of cells) {
        await applyUnit(cell, version);
        for (const [index, machine] of cell.machines.entries()) {
          cell.machines[index] = await writeEntry(cell.client, machine, version);
          firstMs ??= now() - started;
        }
        for (const [index, machine] of cell.machines.entries()) cell.machines[index] = await writeStatus(cell.client, machine, version);
      }
      return { firstMs: firstMs ?? Number.NaN, doneMs: now() - started };
    },
    async close() {
      for (const close of closing.toReversed()) await close();
    },
  };
}

async function applyUnit({ client, component, set }: Cell, version: string): Promise<void> {
  const options = { fieldManager: MANAGERS.sync, force: true };
  const { apiVersion, kind } = component;
  const name = machineComponentName(BUMPED, version);
  await client.apply(
    MachineComponents,
    { apiVersion, kind, metadata: { name }, spec: { ...component.spec, version } } as MachineComponent,
    options,
  );
  const { ceiling: _ceiling, ...spec } = set.spec;
  const wanted = { ...spec, version, unitDigest: `v1:${version}` };
  await client.apply(
    MachineComponentSets,
    { apiVersion, kind: set.kind, metadata: { name: BUMPED }, spec: wanted } as MachineComponentSet,
    options,
  );
}

async function writeEntry(client: Client, machine: Stored<Machine>, version: string): Promise<Stored<Machine>> {
  const components = machine.spec.components?.map((entry) =>
    entry.name === BUMPED ? { ...entry, version, revision: entry.revision + 1, setRevision: entry.setRevision + 1 } : entry,
  );
  const { name, namespace, resourceVersion } = machine.metadata;
  const merge = { metadata: { resourceVersion }, spec: { components } };
  return await client.patch(Machines, { name, namespace }, { merge }, { fieldManager: MANAGERS.machineComponentSet });
}

/** As an agent that has switched and seen its probes succeed. */
async function writeStatus(client: Client, machine: Stored<Machine>, version: string): Promise<Stored<Machine>> {
  const { name, namespace, uid } = machine.metadata;
  const { agent, components, operation } = machine.status ?? {};
  const status = {
    agent,
    components: components?.map((each) =>
      each.name === BUMPED ? { ...each, version, revision: each.revision + 1, running: each.running + 1 } : each,
    ),
    operation,
  };
  const object = { apiVersion: machine.apiVersion, kind: machine.kind, metadata: { name, namespace, uid }, status };
  return await client.apply(Machines, object as unknown as Machine, { fieldManager: MANAGERS.agent, subresource: 'status', force: true });
}
