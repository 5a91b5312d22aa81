import { Nodes } from '../../../api/builtin.ts';
import { API_VERSION } from '../../../api/kind.ts';
import { Machines } from '../../../api/machine.ts';
import type { ObjectKey } from '../../../api/resource.ts';
import type { KubeObject } from '../../../api/wire.ts';
import type { Client } from '../../../kube/client.ts';

/** Before each write of a Node its kubelet writes it, and before each write of a Machine its agent does: for ever, by what their rights allow. `reports`: also what it runs, where the test does not play it. */
export function noisy(
  client: Client,
  { reports = true }: { reports?: boolean } = {},
): { through: Client; count: () => number; pause(isPaused: boolean): void } {
  let count = 0;
  let isOff = false;
  async function disturb(plural: string, key: ObjectKey): Promise<void> {
    if (isOff) return;
    const { name, namespace } = key;
    const beat = `beat-${++count}`;
    if (plural === Nodes.plural) {
      const status = { nodeInfo: { bootID: beat } };
      await client.patch(Nodes, { name }, { merge: { status } }, { fieldManager: 'kubelet', subresource: 'status' });
      await client.patch(
        Nodes,
        { name },
        { merge: { metadata: { annotations: { 'example.com/beat': beat } } } },
        { fieldManager: 'kubelet' },
      );
    }
    if (plural === Machines.plural && (await client.find(Machines, key)) !== undefined) {
      const agent = { version: beat, apiLevel: 1, bootID: 'b', os: 'linux', arch: 'amd64' };
      const ready = {
        type: 'AgentReady',
        status: count % 2 === 0 ? 'True' : 'False',
        reason: beat,
        message: '',
        lastTransitionTime: '2026-11-20T00:00:00Z',
      } as const;

      await client.apply(
        Machines,
        {
          apiVersion: API_VERSION,
          kind: 'Machine',
          metadata: { name, namespace },
          status: { ...(reports && { agent }), conditions: [ready] },
        } as KubeObject,
        { fieldManager: reports ? 'kubenode-agent' : 'kubenode-agent-noise', subresource: 'status', force: true },
      );
    }
  }
  const through: Client = {
    ...client,
    async update(resource, object, options) {
      await disturb(resource.plural, object.metadata);
      return await client.update(resource, object, options);
    },
    async apply(resource, object, options) {
      await disturb(resource.plural, object.metadata);
      return await client.apply(resource, object, options);
    },
    async patch(resource, key, patch, options) {
      await disturb(resource.plural, key);
      return await client.patch(resource, key, patch, options);
    },
  };
  return { through, count: () => count, pause: (isPaused) => void (isOff = isPaused) };
}
