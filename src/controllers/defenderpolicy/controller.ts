import { canonical } from '../../api/digest.ts';
import { DefenderPolicies } from '../../api/defenderpolicy.ts';
import { MANAGERS } from '../../api/names.ts';
import type { Clock, Log, Random } from '../../api/ports.ts';
import type { Cache } from '../../kube/cache.ts';
import type { Client } from '../../kube/client.ts';
import { setCondition } from '../../kube/conditions.ts';
import { runController, watch } from '../../kube/controller.ts';

export interface DefenderPolicyControllerOptions {
  client: Client;
  cache: Cache;
  clock: Clock;
  random: Random;
  log: Log;
  signal: AbortSignal;
}

/** Says of each policy whether Defender can hold to it. */
export async function runDefenderPolicyController(options: DefenderPolicyControllerOptions): Promise<void> {
  const { cache, clock, signal } = options;
  const policies = cache.store(DefenderPolicies);
  await runController({
    ...options,
    name: 'defenderpolicy',
    watches: [watch(policies, (policy) => [policy.metadata.name])],
    async reconcile(name, { client }) {
      const policy = policies.get({ name });
      if (policy === undefined) return;
      const mistakes = DefenderPolicies.compare(policy, undefined);
      const { generation } = policy.metadata;
      const conditions = setCondition(
        policy.status?.conditions,
        {
          type: 'Accepted',
          status: mistakes.length === 0 ? 'True' : 'False',
          reason: mistakes.length === 0 ? 'Accepted' : 'Invalid',
          message: mistakes.map((mistake) => `\`${mistake.path}\` ${mistake.message}`).join('; '),
          ...(generation === undefined ? {} : { observedGeneration: generation }),
        },
        clock.now(),
      );
      const status = { conditions, ...(generation === undefined ? {} : { observedGeneration: generation }) };
      if (canonical(status) === canonical(policy.status ?? {})) return;
      await client.patch(
        DefenderPolicies,
        { name },
        { merge: { status } },
        { subresource: 'status', fieldManager: MANAGERS.defender, signal },
      );
    },
  });
}
