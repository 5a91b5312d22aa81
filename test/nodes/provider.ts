/** Machines of the rig, as a provider makes them for a cell: it boots one, and puts the agent onto it as its package does. */
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { InfraProvider, Instance, InstanceRequest, NodeBootstrap } from '../../src/api/provider.ts';
import type { TestMachine } from './machine.ts';
import type { NodesRig } from './rig.ts';

export interface RigProvider extends InfraProvider {
  /** Of the Machine with this name. */
  machine(name: string): TestMachine | undefined;
}

export function rigProvider(rig: NodesRig, agent: string): RigProvider {
  const machines = new Map<string, { name: string; booting: Promise<TestMachine>; machine?: TestMachine }>();
  const idOf = ({ namespace, name }: InstanceRequest): string => `rig://${rig.id}/${namespace}/${name}`;
  const instanceOf = (providerID: string): Instance | undefined => {
    const found = machines.get(providerID);
    if (found === undefined) return undefined;
    const { machine } = found;
    if (machine === undefined) return { providerID, state: 'Pending', addresses: [] };
    return { providerID, state: 'Running', addresses: [{ type: 'InternalIP', address: machine.address }] };
  };
  return {
    name: 'rig',
    validate: () => [],
    providerIDOf: idOf,
    ensure(request, bootstrap) {
      const providerID = idOf(request);
      const found = machines.get(providerID);
      if (found === undefined) {
        const booting = rig.boot();
        const made: { name: string; booting: Promise<TestMachine>; machine?: TestMachine } = { name: request.name, booting };
        machines.set(providerID, made);
        void booting.then(async (machine) => {
          await installAgent(machine, agent, bootstrap);
          made.machine = machine;
          return machine;
        });
      }
      return Promise.resolve(instanceOf(providerID) ?? { providerID, state: 'Pending', addresses: [] });
    },
    get: (providerID) => Promise.resolve(instanceOf(providerID)),
    list: () => Promise.resolve([...machines.keys()].flatMap((each) => instanceOf(each) ?? [])),
    async delete(providerID) {
      const found = machines.get(providerID);
      machines.delete(providerID);
      await (await found?.booting)?.cutPower();
      return 'gone';
    },
    machine: (name) => [...machines.values()].find((each) => each.name === name)?.machine,
  };
}

/** As `deploy/agent/install` does it. */
async function installAgent(machine: TestMachine, agent: string, bootstrap: NodeBootstrap): Promise<void> {
  const slot = join(machine.disk, 'opt/kubenode/agent/current');
  mkdirSync(slot, { recursive: true });
  cpSync(process.execPath, join(slot, 'node'));
  cpSync(agent, join(slot, 'agent.mjs'));
  const unit = readFileSync(fileURLToPath(new URL('../../deploy/agent/kubenode-agent.service', import.meta.url)), 'utf8');
  writeFileSync(join(machine.disk, 'etc/systemd/system/kubenode-agent.service'), unit.replace(/^(OOMScoreAdjust)=/m, '# $1='));
  mkdirSync(join(machine.disk, 'etc/kubenode'), { recursive: true });
  writeFileSync(join(machine.disk, 'etc/kubenode/bootstrap.json'), JSON.stringify(bootstrap), { mode: 0o600 });
  await machine.ok(['systemctl', 'daemon-reload']);
  await machine.ok(['systemctl', 'enable', '--now', 'kubenode-agent.service']);
}
