import type { Node } from '../../../api/builtin.ts';
import type { Machine } from '../../../api/machine.ts';
import type { Stored } from '../../../api/wire.ts';
import { createAvailabilityIndex } from '../../../defender/availability-index.ts';
import { countedAs } from '../observe/counted.ts';
import type { PassView } from '../reservation/pass.ts';

/** A cell as plain lists. */
export interface CellParts extends Omit<PassView, 'asking' | 'machineOf' | 'availabilityIndex'> {
  machines: readonly Stored<Machine>[];
  nodeNamed(name: string): Stored<Node> | undefined;
  kubeletAnswers: (node: string) => boolean;
}

/** What a pass sees of it: all machines are counted again, and may ask. */
export const cellOf = ({ machines, kubeletAnswers, ...rest }: CellParts): PassView => ({
  ...rest,
  asking: () => machines,
  machineOf: (reservation) => machines.find(({ metadata }) => metadata.uid === reservation.machineUID),
  availabilityIndex: () =>
    createAvailabilityIndex(
      machines.map((machine) => {
        const { name } = machine.metadata;
        return countedAs(machine, rest.nodeNamed(name), kubeletAnswers(name), rest.facts.sets);
      }),
    ),
});
