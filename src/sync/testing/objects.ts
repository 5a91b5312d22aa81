/** Objects of KubeNode as a commit gives them, and what a test does with them on any API server. */
import { DefenderPolicies } from '../../api/defender-policy.ts';
import { unitDigest } from '../../api/digest.ts';
import { API_VERSION } from '../../api/kind.ts';
import { MachineComponentSets } from '../../api/machine-component-set.ts';
import { MachineComponents } from '../../api/machine-component.ts';
import { MachineSets } from '../../api/machine-set.ts';
import { NodeRemediers } from '../../api/node-remedier.ts';
import type { Resource } from '../../api/resource.ts';
import type { KubeObject, Stored } from '../../api/wire.ts';
import { hasReason } from '../../kube/api-error.ts';
import type { Client } from '../../kube/client.ts';
import { applyUnit } from '../apply-unit.ts';

export const NAMESPACE = 'kubenode-extra';

export const KINDS: readonly Resource[] = [MachineComponentSets, MachineSets, NodeRemediers, DefenderPolicies, MachineComponents];

export type Given = KubeObject & { spec: Record<string, unknown> };
export const given = (kind: string, spec: Given['spec'], metadata: Partial<Given['metadata']> = {}): Given => ({
  apiVersion: API_VERSION,
  kind,
  metadata: { name: 'a', ...(kind === 'MachineSet' ? { namespace: NAMESPACE } : {}), ...metadata },
  spec,
});
export const resourceOf = ({ kind }: { kind: string }): Resource => {
  const found = KINDS.find((each) => each.kind === kind);
  if (found === undefined) throw new Error(`no ${kind}`);
  return found;
};
export const commit = async (client: Client, object: Given) => {
  const { kind, metadata } = object;
  const unit = { key: `${kind}/${metadata.name}`, objects: [object], origins: [undefined] };
  const stamp = { digest: unitDigest([object]), fleet: 'main', lane: 'Forward' } as const;
  const target = { client, resourceOf: (each: { kind: string }) => Promise.resolve(resourceOf(each)) };
  return await applyUnit(target, unit, stamp, () => Promise.resolve({}), new AbortController().signal);
};
export const live = async (client: Client, { kind, metadata }: Given): Promise<Stored<Given>> =>
  (await client.get(resourceOf({ kind }), metadata)) as Stored<Given>;
/** What the server itself fills in beside what sync writes. */
export const specOf = async (client: Client, object: Given): Promise<object> => {
  const { unitDigest: _digest, lane: _lane, ...spec } = (await live(client, object)).spec;
  return spec;
};
export const remove = async (client: Client, { kind, metadata }: Given): Promise<void> => {
  await client.delete(resourceOf({ kind }), metadata).catch((error: unknown) => {
    if (!hasReason(error, 'NotFound')) throw error;
  });
};
/** The spec that the object has where only sync ever wrote it. It is gone then. */
export const alone = async (client: Client, object: Given): Promise<object> => {
  await commit(client, object);
  const spec = await specOf(client, object);
  await remove(client, object);
  return spec;
};
export const set = (spec: Given['spec'] = {}): Given =>
  given('MachineComponentSet', { componentName: 'comp', version: '1.0.0', selector: { tier: 'web' }, ...spec });
export const machines = (spec: Given['spec'] = {}): Given => given('MachineSet', { provider: { name: 'fake' }, replicas: 3, ...spec });
export const rule = (spec: Given['spec'] = {}): Given =>
  given('NodeRemedier', {
    when: { all: [{ fact: 'machine.phase', operator: 'equal', value: 'Running' }] },
    holdsForSeconds: 60,
    ladder: [{ action: 'Human' }],
    healedWhen: { condition: 'Ready', is: 'True', forSeconds: 60 },
    ...spec,
  });
export const policy = (spec: Given['spec'] = {}): Given =>
  given('DefenderPolicy', { limits: [{ name: 'all', scope: 'Cluster', maxUnavailable: 1 }], ...spec });
