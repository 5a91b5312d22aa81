/** What is wrong with a machine itself, worst first: its kubelet, its agent, its conditions, its components. */
import type { Lease, Node } from '../../api/builtin.ts';
import type { MachineComponentSet } from '../../api/machine-component-set.ts';
import type { ComponentStatus, Machine } from '../../api/machine.ts';
import type { Stored } from '../../api/wire.ts';
import { leftComponents, TO_REMOVE } from '../../controllers/shared/left-components.ts';
import { claimedAliveUntilMs } from '../../kube/liveness.ts';
import { age } from '../output.ts';

/** Conditions that report a machine itself as not working. */
const CONDITIONS = ['Ready', 'InfrastructureReady', 'Admitted', 'NodeSynced'];

export interface TroubleInput {
  nowMs: number;
  machine: Machine;
  node: Node | undefined;
  kubeletLease: Lease | undefined;
  agentLease: Lease | undefined;
  componentSets: readonly Stored<MachineComponentSet>[];
}

export function troubleLines({ machine, node, nowMs, kubeletLease, agentLease, componentSets }: TroubleInput): string[] {
  const { status, metadata } = machine;
  const nodeRef = status?.nodeRef;
  return [
    ...(metadata.deletionTimestamp === undefined
      ? []
      : [`it is being deleted since ${age(nowMs - Date.parse(metadata.deletionTimestamp))}`]),
    ...(nodeRef !== undefined && node === undefined ? [`Node ${nodeRef.name}, which it had claimed, does not exist`] : []),
    ...(node === undefined ? [] : staleLease('its kubelet', kubeletLease, nowMs)),
    ...(status?.agent === undefined ? [] : staleLease('its agent', agentLease, nowMs)),
    ...(status?.conditions ?? [])
      .filter((condition) => CONDITIONS.includes(condition.type) && condition.status !== 'True')
      .map(({ type, status, reason, message }) => `${type} is ${status}: ${message === '' ? reason : message}`),
    ...(status?.components ?? []).flatMap((each) => componentTrouble(each, machine)),
    ...leftComponents(machine, componentSets).map(
      ({ name, version }) =>
        `component ${name} ${version} still runs and no set owns it: its set was deleted, which uninstalls nothing; ${TO_REMOVE}`,
    ),
  ];
}

function staleLease(whose: string, lease: Lease | undefined, nowMs: number): string[] {
  const until = claimedAliveUntilMs(lease);
  if (until !== undefined && until >= nowMs) return [];
  const renewed = lease?.spec?.renewTime;
  return [
    renewed === undefined
      ? `${whose} has no Lease: it does not run, or never reached the API server`
      : `${whose} does not answer: its Lease was renewed ${age(nowMs - Date.parse(renewed))} ago`,
  ];
}

function componentTrouble({ name, version, state, failed, refused, message }: ComponentStatus, { spec }: Machine): string[] {
  const entry = spec.components?.find((each) => each.name === name);
  const wanted = entry === undefined ? version : entry.version;
  const what = `${name} ${wanted}`;
  if (failed !== undefined && failed.revision === entry?.revision) {
    const now = failed.restored && version !== '' ? `; ${version} runs again` : '';
    return [`component ${what} failed: ${failed.reason}: ${failed.message}${now}`];
  }
  if (refused !== undefined && refused.revision === entry?.revision)
    return [`component ${what} was refused by the agent: ${refused.reason}`];
  if (state === 'Unhealthy' || state === 'Failed')
    return [`component ${name} ${version === '' ? wanted : version} is ${state}${message === undefined ? '' : `: ${message}`}`];
  return [];
}
