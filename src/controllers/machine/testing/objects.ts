import type { Node } from '../../../api/builtin.ts';
import type { LedgerReservation } from '../../../api/disruption-ledger.ts';
import { API_VERSION } from '../../../api/kind.ts';
import type { ComponentEntry, ComponentStatus, Machine, MachineStatus, Operation } from '../../../api/machine.ts';
import { contentOf } from '../../../api/machine/values.ts';
import { ANNOTATIONS, FINALIZERS } from '../../../api/names.ts';
import type { Action } from '../../../api/node-remedier/values.ts';
import type { RemedyOperationJob } from '../../../api/remedy-operation-job.ts';
import type { Stored } from '../../../api/wire.ts';
import { setScope } from '../../../defender/scopes.ts';
import type { AskFacts, SetFacts } from '../facts.ts';
import type { MachineView } from '../view.ts';

export const NOW = Date.UTC(2026, 10, 20, 12);
export const at = (seconds: number): string => new Date(NOW + seconds * 1000).toISOString();

/** A kubelet entry of set `s1` at revision 2, version 2.0.0. */
export function entry(change: Partial<ComponentEntry> = {}): ComponentEntry {
  return {
    name: 'kubelet',
    action: 'Install',
    version: '2.0.0',
    setUID: 's1',
    setRevision: 2,
    joinedRevision: 1,
    revision: 2,
    attempt: 1,
    ...change,
  };
}

/** Its agent runs 1.0.0 and waits for a restart. */
export function waiting(change: Partial<ComponentStatus> = {}): ComponentStatus {
  const content = contentOf({ action: 'Install', version: '1.0.0' });
  return {
    name: 'kubelet',
    version: '1.0.0',
    content,
    revision: 2,
    running: 1,
    state: 'Waiting',
    needs: 'Restart',
    needsFor: 'Change',
    ...change,
  };
}

export const VERIFIED_OLD = { name: 'kubelet', version: '1.0.0', revision: 1, setUID: 's1', bootID: 'b', since: at(-3600) };

export interface MachineParts {
  name?: string;
  uid?: string;
  entries?: ComponentEntry[];
  components?: ComponentStatus[];
  spec?: Partial<Machine['spec']>;
  status?: Partial<MachineStatus>;
  metadata?: Partial<Machine['metadata']>;
}

/** A machine that runs, has its Node, and waits for an operation. */
export function machine(parts: MachineParts = {}): Stored<Machine> {
  const name = parts.name ?? 'a';
  return {
    apiVersion: API_VERSION,
    kind: 'Machine',
    metadata: {
      name,
      namespace: 'web',
      uid: parts.uid ?? `uid-${name}`,
      resourceVersion: '1',
      creationTimestamp: at(-86_400),
      finalizers: [FINALIZERS.machine],
      ...parts.metadata,
    },
    spec: { provider: { name: 'fake' }, components: parts.entries ?? [entry()], ...parts.spec },
    status: {
      phase: 'Running',
      providerID: `fake://${name}`,
      nodeRef: { name, uid: `node-${name}` },
      agent: { version: '1', apiLevel: 1, bootID: 'b', os: 'linux', arch: 'amd64' },
      components: parts.components ?? [waiting()],
      verified: [VERIFIED_OLD],
      ...parts.status,
    },
  };
}

export function node(
  name = 'a',
  change: { spec?: Node['spec']; annotations?: Record<string, string>; labels?: Record<string, string>; ready?: boolean } = {},
): Stored<Node> {
  return {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: {
      name,
      uid: `node-${name}`,
      resourceVersion: '1',
      creationTimestamp: at(-86_400),
      ...(change.annotations === undefined ? {} : { annotations: change.annotations }),
      ...(change.labels === undefined ? {} : { labels: change.labels }),
    },
    spec: { providerID: `fake://${name}`, ...change.spec },
    status: { conditions: [{ type: 'Ready', status: change.ready === false ? 'False' : 'True' }] },
  };
}

export const cordoned = (name: string, owner: string): Stored<Node> =>
  node(name, { spec: { unschedulable: true }, annotations: { [ANNOTATIONS.cordonOwner]: owner } });

export function reservation(change: Partial<LedgerReservation> = {}): LedgerReservation {
  return {
    id: 'r1',
    machineUID: 'uid-a',
    machine: 'web/a',
    nodeUID: 'node-a',
    kind: 'Change',
    class: 'Change',
    requesterUID: 's1',
    requester: 'MachineComponentSet/kubelet',
    scopes: ['cluster', 'pool/web', setScope('s1')],
    ...((change.kind ?? 'Change') === 'Change'
      ? { components: [{ name: 'kubelet', revision: 2, class: change.class === 'Restore' ? 'Restore' : 'Change' }] }
      : {}),
    since: at(-10),
    notAfter: at(890),
    ...change,
  };
}

export const operation = (change: Partial<Operation> = {}): Operation => ({
  id: 'r1',
  epoch: 1,
  kind: 'Change',
  components: [{ name: 'kubelet', revision: 2 }],
  notAfter: at(890),
  ...change,
});

export interface JobParts {
  name?: string;
  action?: Action;
  machine?: string;
  priority?: number;
  args?: Record<string, unknown>;
  status?: RemedyOperationJob['status'];
}

/** A job that asks to reboot the machine. */
export function job({ name = 'j1', action = 'Reboot', machine: of = 'a', priority = 0, args, status }: JobParts = {}): RemedyOperationJob {
  return {
    apiVersion: API_VERSION,
    kind: 'RemedyOperationJob',
    metadata: { name, namespace: 'web', uid: `uid-${name}` },
    spec: {
      rule: 'hung',
      machine: { name: of, uid: `uid-${of}` },
      node: of,
      rung: 0,
      attempt: 1,
      action,
      ...(args === undefined ? {} : { args }),
      timeoutSeconds: 600,
      healedWhen: { condition: 'KernelDeadlock', is: 'False', forSeconds: 60 },
      priority,
      matchedSince: at(-60),
      why: 'KernelDeadlock is True',
    },
    status: status ?? { phase: 'Pending' },
  };
}

/** As a job stands when its reservation `r1` may be ordered. */
export const granted = (parts: JobParts = {}): RemedyOperationJob =>
  job({ ...parts, status: { phase: 'Granted', operationID: 'r1', before: { bootID: 'b', conditions: [] }, ...parts.status } });

/** The reservation of a job. */
export const repairReservation = (change: Partial<LedgerReservation> = {}): LedgerReservation =>
  reservation({ kind: 'Repair', class: 'Repair', requesterUID: 'uid-j1', requester: 'RemedyOperationJob/web/j1', ...change });

/** A machine in good order but for what its jobs are for. */
export const idle = (parts: MachineParts = {}): Stored<Machine> => machine({ entries: [], components: [], ...parts });

export function repairOperation(change: Partial<Operation> = {}): Operation {
  const { components: _, ...order } = operation({ kind: 'Repair', ...change });
  return order;
}

export const KUBELET_SET: SetFacts = { name: 'kubelet', stopped: undefined };

export function facts(change: Partial<AskFacts> = {}): AskFacts {
  return {
    nowMs: NOW,
    sets: new Map([['s1', KUBELET_SET]]),
    freezes: [],
    policies: [],
    jobsOf: () => [],
    canPowerCycle: () => true,
    agentAnswers: true,
    ...change,
  };
}

/** A machine in good health with its Node. */
export function view(change: Partial<MachineView> = {}): MachineView {
  return {
    nowMs: NOW,
    machine: machine(),
    reservation: undefined,
    claim: { state: 'Claimed', node: node() },
    providerID: 'fake://a',
    instanceID: 'fake://a',
    instance: { state: 'Present', instance: { providerID: 'fake://a', state: 'Running', addresses: [] } },
    kubeletAnswers: true,
    facts: facts(),
    pods: undefined,
    uncounted: [],
    nodeDrift: false,
    notOnNode: [],
    revoked: undefined,
    hours: [],
    canStop: true,
    powerCycled: false,
    ...change,
  };
}
