/** What leaves the three objects: evictions, deletions, and what providers do. Each can be done twice. */
import { Pods } from '../../api/builtin.ts';
import { pathOf } from '../../api/resource.ts';
import { Machines } from '../../api/machine.ts';
import type { InfraProvider } from '../../api/provider.ts';
import { hasReason } from '../../kube/api-error.ts';
import type { Client } from '../../kube/client.ts';
import type { Effect } from './guards.ts';

interface EffectPorts {
  client: Client;
  /** Of the machine that is reconciled; undefined where there is none. */
  provider: InfraProvider | undefined;
  /** Gets the operations whose power cycle the provider has taken. */
  cycled: Set<string>;
  signal: AbortSignal;
}

interface Done {
  note: string;
  /** The other side refused for now. */
  refused?: boolean;
  /** Since its object is another one than was read. */
  changed?: boolean;
}

export async function carryOutEffect(effect: Effect, { client, provider, cycled, signal }: EffectPorts): Promise<Done> {
  if (effect.do === 'Evict') return await evict(client, effect, signal);
  if (effect.do === 'DeleteMachine') return await deleteMachine(client, effect, signal);
  // A provider that the cell does not have any more is asked for nothing.
  if (provider === undefined) return { note: 'the cell has no such provider', refused: effect.do !== 'RetirePower' };
  switch (effect.do) {
    case 'ForceDelete':
      return await forceDelete(client, provider, effect, signal);
    case 'DeleteInstance':
      return { note: await provider.delete(effect.providerID, signal) };
    case 'StopInstance':
      if (provider.stop === undefined) return { note: `provider ${provider.name} cannot cut the power`, refused: true };
      await provider.stop(effect.providerID, effect.operationID, signal);
      return { note: `cuts the power of ${effect.providerID}` };
    case 'RetirePower':
      await provider.retire?.(effect.providerID, effect.operationID, signal);
      return { note: `nothing more is done to the power of ${effect.providerID} for this operation` };
    case 'PowerCycle':
      if (provider.reboot === undefined) return { note: `provider ${provider.name} cannot cycle the power`, refused: true };
      await provider.reboot(effect.providerID, effect.operationID, signal);
      cycled.add(effect.operationID);
      return { note: `cycles the power of ${effect.providerID}` };
    default:
      return effect satisfies never;
  }
}

/** Asks for one pod, by its UID. The refusal of a disruption budget is an answer, not an error. */
async function evict(
  client: Client,
  { pod: { namespace, name, uid }, graceSeconds }: Extract<Effect, { do: 'Evict' }>,
  signal: AbortSignal,
): Promise<Done> {
  const grace = graceSeconds === undefined ? {} : { gracePeriodSeconds: graceSeconds };
  const deleteOptions = { preconditions: { uid }, ...grace };
  const eviction = { apiVersion: 'policy/v1', kind: 'Eviction', metadata: { namespace, name }, deleteOptions };
  try {
    await client.post(pathOf(Pods, namespace, name, 'eviction'), eviction, { signal });
    return { note: `evicts ${namespace}/${name}` };
  } catch (error) {
    // Conflict: another pod has the name by now.
    if (hasReason(error, 'NotFound', 'Conflict')) return { note: `${namespace}/${name} is gone` };
    // 500 is what the server answers where several budgets cover one pod: it cannot be evicted before a person corrects that.
    if (hasReason(error, 'TooManyRequests', 'InternalError')) return { note: `${namespace}/${name}: ${error.message}`, refused: true };
    throw error;
  }
}

/** For pods that no kubelet will end. Asks for the proof again, so that only these few requests lie between it and the deletions. */
async function forceDelete(
  client: Client,
  provider: InfraProvider,
  { pods, providerID }: Extract<Effect, { do: 'ForceDelete' }>,
  signal: AbortSignal,
): Promise<Done> {
  const instance = await provider.get(providerID, signal);
  if (instance !== undefined && instance.state !== 'Stopped') return { note: `${providerID} is ${instance.state}`, refused: true };
  for (const { namespace, name, uid } of pods) {
    try {
      await client.delete(Pods, { namespace, name }, { uid, gracePeriodSeconds: 0, signal });
    } catch (error) {
      if (!hasReason(error, 'NotFound', 'Conflict')) throw error;
    }
  }
  return { note: `takes ${pods.map(({ namespace, name }) => `${namespace}/${name}`).join(', ')} by force` };
}

/** Conditioned on this version: any change in between, such as an operator's release, makes it lose. */
async function deleteMachine(client: Client, { machine }: Extract<Effect, { do: 'DeleteMachine' }>, signal: AbortSignal): Promise<Done> {
  const { namespace, name, uid, resourceVersion } = machine.metadata;
  try {
    await client.delete(Machines, { namespace, name }, { uid, resourceVersion, signal });
    return { note: `deletes Machine ${namespace ?? ''}/${name}` };
  } catch (error) {
    if (hasReason(error, 'NotFound', 'Conflict')) return { note: 'the machine changed meanwhile', refused: true, changed: true };
    throw error;
  }
}
