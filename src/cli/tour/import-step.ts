import { Nodes } from '../../api/builtin.ts';
import { Rollouts } from '../../api/rollout.ts';
import { CELLS, type TourSystem } from './system.ts';
import { DETECTOR, KUBELET, MACHINES, RUNTIME, type TourStep } from './tour-step.ts';

/** Waits until the fleet is as the repository declares. */
export function importStep(system: TourSystem): TourStep {
  const hub = system.client('hub');
  const { until } = system;
  return {
    name: 'nodes are imported, stage by stage',
    async run() {
      await until('7 machines run and their nodes are Ready', 100_000, async () => {
        for (const cell of CELLS) {
          const machines = await system.machines(cell);
          if (machines.length !== MACHINES[cell] || machines.some((machine) => machine.status?.phase !== 'Running')) return undefined;
          const nodes = (await system.client(cell).listAll(Nodes)).items;
          const ready = nodes.filter(
            (node) =>
              node.status?.conditions?.some((condition) => condition.type === 'Ready' && condition.status === 'True') &&
              node.spec?.unschedulable !== true,
          );
          if (ready.length !== MACHINES[cell]) return undefined;
        }
        return true;
      });
      await until('the first rollouts are done', 30_000, async () =>
        (await hub.listAll(Rollouts)).items.every((rollout) => rollout.status?.phase === 'Done'),
      );
      const pids = new Set<number>();
      for (const { machine } of await system.allMachines()) {
        for (const component of [KUBELET, RUNTIME, DETECTOR]) {
          const answer = await until(`${component} answers on ${machine.metadata.name}`, 10_000, () => system.ask(machine, component));
          pids.add(answer.pid);
        }
      }
      return `7 machines Running, 7 nodes Ready, ${pids.size} services answer`;
    },
  };
}
