import type { ComponentEntry, ComponentStatus, Machine, VerifiedContent } from '../../api/machine.ts';
import type { MachineComponent } from '../../api/machine-component.ts';
import { machineComponentName } from '../../api/machine-component/values.ts';
import type { MachineComponentSet } from '../../api/machine-component-set.ts';
import { keyOf, type ObjectKey } from '../../api/resource.ts';
import type { Stored } from '../../api/wire.ts';
import { agentLease, kubeletLease, type Liveness } from '../../kube/liveness.ts';
import type { Store } from '../../kube/store.ts';
import { targetsOf } from './content.ts';
import { isDeleting, selects } from '../shared/selection.ts';
import { openOf } from './writing.ts';

/** What is known of one machine and the component of the set that is reconciled. */
export interface MemberView {
  machine: Stored<Machine>;
  /** Also where another set wrote it. */
  entry: ComponentEntry | undefined;
  reported: ComponentStatus | undefined;
  /** Newest first. */
  verified: VerifiedContent[];
  agentFresh: boolean;
  /** Since either the agent or the kubelet last renewed its Lease; since its creation for a machine where neither did. */
  unseenMs: number;
  /** The same of the agent alone. */
  agentUnseenMs: number;
}

/** Everything that the decision about one set needs, and nothing else. */
export interface SetView {
  set: Stored<MachineComponentSet>;
  now: number;
  /** Those that the set selects and that are not being deleted. */
  machines: MemberView[];
  /** Those that still have an entry of the set, and are being deleted or not selected any more. */
  former: MemberView[];
  /** Those whose entry was announced and may still be written, also where another set selects them now. */
  open: Stored<Machine>[];
  /** Highest setRevision of this set found on any Machine. */
  highestRevision: number;
  /** Machines that another set of the same component selects too. */
  conflicts: { machine: string; set: string }[];
  /** Of a version; undefined: there is no such MachineComponent. */
  component(version: string): MachineComponent | undefined;
  /** The version of another component that this machine is to have: what is written there, else what a set would write. */
  wanted(machine: Machine, componentName: string): string | undefined;
}

export interface Stores {
  sets: Pick<Store<MachineComponentSet>, 'list'>;
  components: Pick<Store<MachineComponent>, 'get'>;
  liveness: Pick<Liveness, 'isAlive' | 'unseenMs' | 'unansweredMs'>;
}

/** The Leases of the agent of a Machine and of the kubelet of its Node. */
export const leasesOf = (machine: Machine): { agent: ObjectKey; kubelet: ObjectKey } => ({
  agent: agentLease(machine),
  kubelet: kubeletLease(machine.status?.nodeRef?.name ?? machine.metadata.name),
});

export function viewMachine(machine: Stored<Machine>, componentName: string, liveness: Stores['liveness'], now: number): MemberView {
  const { agent, kubelet } = leasesOf(machine);
  const sinceCreationMs = Math.max(0, now - liveness.unansweredMs() - Date.parse(machine.metadata.creationTimestamp));
  const agentUnseenMs = liveness.unseenMs(agent) ?? sinceCreationMs;
  return {
    machine,
    entry: machine.spec.components?.find((each) => each.name === componentName),
    reported: machine.status?.components?.find((each) => each.name === componentName),
    verified: (machine.status?.verified ?? []).filter((each) => each.name === componentName),
    agentFresh: liveness.isAlive(agent),
    agentUnseenMs,
    unseenMs: Math.min(agentUnseenMs, liveness.unseenMs(kubelet) ?? sinceCreationMs),
  };
}

/** `machines`: every Machine, as fresh as it is known. */
export function observeSet(set: Stored<MachineComponentSet>, machines: readonly Stored<Machine>[], stores: Stores, now: number): SetView {
  const { componentName } = set.spec;
  const sets = stores.sets.list().filter((other) => !isDeleting(other));
  const rivals = sets.filter((other) => other.spec.componentName === componentName && other.metadata.uid !== set.metadata.uid);
  const selected = machines.filter((machine) => !isDeleting(machine) && selects(set, machine));
  const ownEntries = (machine: Machine): ComponentEntry[] =>
    (machine.spec.components ?? []).filter((entry) => entry.setUID === set.metadata.uid);
  const numbers = machines.flatMap((machine) => ownEntries(machine).map((entry) => entry.setRevision));
  const isSelected = new Set(selected);
  const former = machines.filter((machine) => !isSelected.has(machine) && ownEntries(machine).length > 0);
  const conflicts = rivals.flatMap((rival) => {
    const machine = selected.find((each) => selects(rival, each));
    return machine === undefined ? [] : [{ machine: keyOf(machine.metadata), set: rival.metadata.name }];
  });
  return {
    set,
    now,
    machines: selected.map((machine) => viewMachine(machine, componentName, stores.liveness, now)),
    former: former.map((machine) => viewMachine(machine, componentName, stores.liveness, now)),
    open: openOf(set, machines),
    highestRevision: numbers.reduce((max, number) => Math.max(max, number), 0),
    conflicts,
    component: (version) => stores.components.get({ name: machineComponentName(componentName, version) }),
    wanted(machine, name) {
      const entry = machine.spec.components?.find((each) => each.name === name);
      if (entry !== undefined) return entry.action === 'Install' ? entry.version : undefined;
      const other = sets.find((each) => each.spec.componentName === name && selects(each, machine));
      const target = other === undefined ? undefined : targetsOf(other).of(machine);
      return target?.action === 'Install' ? target.version : undefined;
    },
  };
}
