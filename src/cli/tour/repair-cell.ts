import { appendFile, mkdir, readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { Nodes } from '../../api/builtin.ts';
import { DisruptionLedgers, LEDGER_NAME } from '../../api/disruption-ledger.ts';
import type { Machine } from '../../api/machine.ts';
import { ANNOTATIONS } from '../../api/names.ts';
import { RemedyOperationJobs, type RemedyOperationJob } from '../../api/remedy-operation-job.ts';
import type { Stored } from '../../api/wire.ts';
import type { Client } from '../../kube/client.ts';
import type { TourSystem } from './system.ts';
import { RUNTIME } from './tour-step.ts';
import { cliError } from '../errors.ts';

type Job = Stored<RemedyOperationJob>;

export const CELL = 'prod';
export const POOL = 'web';

/** The cell whose machines get faults: its machines, repairs and reservations, as the steps about repairs observe them. */
export class RepairCell {
  readonly system: TourSystem;
  readonly cell: Client;

  constructor(system: TourSystem) {
    this.system = system;
    this.cell = system.client(CELL);
  }

  async machines(): Promise<Stored<Machine>[]> {
    return (await this.system.machines(CELL)).sort((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1));
  }

  /** The prod machines by slot, always in the same order. */
  async machineAt(index: number): Promise<Stored<Machine>> {
    const machine = (await this.machines())[index];
    if (machine === undefined) throw cliError('Violated', `${CELL} has no machine ${index}`);
    return machine;
  }

  async named(name: string): Promise<Stored<Machine>> {
    const machine = (await this.machines()).find((each) => each.metadata.name === name);
    if (machine === undefined) throw cliError('Violated', `Machine ${name} is gone`);
    return machine;
  }

  async bootOf(machine: Machine): Promise<string> {
    return (await readFile(join(this.system.root(machine), 'run/kubenode/boot-id'), 'utf8').catch(() => '')).trim();
  }

  async fault(machine: Machine, line: string): Promise<void> {
    const path = join(this.system.root(machine), 'var/log/kern.log');
    await mkdir(dirname(path), { recursive: true });
    await appendFile(path, `${line}\n`);
  }

  async jobsOf(machine: Machine, rule?: string): Promise<Job[]> {
    const { items } = await this.cell.listAll(RemedyOperationJobs);
    return items
      .filter((job) => job.spec.machine.uid === machine.metadata.uid && (rule === undefined || job.spec.rule === rule))
      .sort((a, b) => Number(a.metadata.resourceVersion) - Number(b.metadata.resourceVersion))
      .sort((a, b) => Date.parse(a.metadata.creationTimestamp) - Date.parse(b.metadata.creationTimestamp));
  }

  async reservationsNow() {
    return (await this.cell.get(DisruptionLedgers, { name: LEDGER_NAME })).status?.reservations ?? [];
  }

  /** Follows the job of a machine to its end; `seen` gets every phase that it was found in. */
  async ended(machine: Machine, rule: string, action: string, ms: number, seen: string[] = []): Promise<Job> {
    return await this.system.until(`${rule}'s ${action} of ${machine.metadata.name} ends`, ms, async () => {
      const job = (await this.jobsOf(machine, rule)).findLast((each) => each.spec.action === action);
      const phase = job?.status?.phase;
      if (phase !== undefined && seen.at(-1) !== phase) seen.push(phase);
      return job?.status?.finishedAt !== undefined ? job : undefined;
    });
  }

  /** Ends well, leaves no cordon and no reservation, and the services answer. */
  async healed(machine: Machine, rule: string, ms: number, seen: string[] = []): Promise<Job> {
    const job = await this.ended(machine, rule, 'Reboot', ms, seen);
    if (job.status?.phase !== 'Succeeded') throw cliError('Violated', `${job.metadata.name}: ${job.status?.explanation}`);
    await this.system.until(`${machine.metadata.name} is back in use`, 20_000, async () => {
      const node = await this.cell.get(Nodes, { name: machine.metadata.name });
      const free = node.spec?.unschedulable !== true && node.metadata.annotations?.[ANNOTATIONS.cordonOwner] === undefined;
      const reservation = (await this.reservationsNow()).find((each) => each.machineUID === machine.metadata.uid);
      return free && reservation === undefined && (await this.system.ask(machine, RUNTIME)) !== undefined;
    });
    return job;
  }
}
