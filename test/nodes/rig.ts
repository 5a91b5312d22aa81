/** Machines with a network of their own, for one test file. */
import type { OnProgress } from '../../tools/gobuild.ts';
import { debianBase } from './base.ts';
import { command } from './command.ts';
import { bootMachine, gatewayOf, type MachineOptions, type TestMachine } from './machine.ts';
import { own, prefixOf, remove } from './owner.ts';

export interface NodesRig {
  readonly id: string;
  /** For files that the test keeps; removed with the rig. */
  readonly folder: string;
  /** This machine, as the nodes reach it. */
  readonly gateway: string;
  /** Boots one more. Several may boot at once. */
  boot(options?: MachineOptions): Promise<TestMachine>;
  /** Ends and removes everything. */
  close(): Promise<void>;
}

/** Removes what runs that were killed have left, and makes the network. */
export async function openNodes(onProgress: OnProgress): Promise<NodesRig> {
  const base = await debianBase(onProgress);
  const owner = await own();
  const machines: TestMachine[] = [];
  const gateway = gatewayOf(owner);
  const bridge = prefixOf(owner.id);
  let number = 0;
  const close = async (): Promise<void> => {
    await Promise.allSettled(machines.splice(0).map((machine) => machine.cutPower()));
    await remove(owner.id);
  };
  try {
    await command(['ip', 'link', 'add', bridge, 'type', 'bridge']);
    await command(['ip', 'address', 'add', `${gateway}/24`, 'dev', bridge]);
    await command(['ip', 'link', 'set', bridge, 'up']);
  } catch (error) {
    await close();
    throw error;
  }
  return {
    id: owner.id,
    folder: owner.folder,
    gateway,
    async boot(options) {
      number += 1;
      const machine = await bootMachine(owner, base, number, options);
      machines.push(machine);
      return machine;
    },
    close,
  };
}
