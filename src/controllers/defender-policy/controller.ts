import { canonical } from '../../api/digest.ts';
import { DefenderPolicies } from '../../api/defender-policy.ts';
import type { FieldError } from '../../api/kind.ts';
import { MANAGERS } from '../../api/names.ts';
import type { Clock, Log, Random } from '../../api/ports.ts';
import type { Cache } from '../../kube/cache.ts';
import type { Client } from '../../kube/client.ts';
import { setCondition } from '../../kube/conditions.ts';
import { createController, watch } from '../../kube/controller.ts';

export interface DefenderPolicyControllerOptions {
  client: Client;
  cache: Cache;
  clock: Clock;
  random: Random;
  log: Log;
  signal: AbortSignal;
}

/** A condition's message takes 32 KiB. A person reads no more errors at once. */
const MAX_ERRORS = 20;

function messageOf(errors: readonly FieldError[]): string {
  const parts = errors.slice(0, MAX_ERRORS).map(({ path, message }) => `\`${path}\` ${message}`);
  if (errors.length > MAX_ERRORS) parts.push(`and ${errors.length - MAX_ERRORS} more`);
  if (errors.length > 0) parts.push('until this is corrected nothing but Restore is reserved');
  return parts.join('; ');
}

/** Reports in the status of each policy whether Defender can apply it, with every validation error. */
export async function runDefenderPolicyController(options: DefenderPolicyControllerOptions): Promise<void> {
  const { cache, clock, signal } = options;
  const policies = cache.store(DefenderPolicies);
  await createController({
    ...options,
    name: 'defenderpolicy',
    watches: [watch(policies, (policy) => [policy.metadata.name])],
    async reconcile(name, { client }) {
      const policy = policies.get({ name });
      if (policy === undefined) return;
      const { apiVersion, kind, spec } = policy;
      // As Defender itself reads it, so that nothing is obeyed in part: also a field that this build does not know is an error.
      const errors = DefenderPolicies.validate({ apiVersion, kind, metadata: { name }, spec });
      const { generation } = policy.metadata;
      const conditions = setCondition(
        policy.status?.conditions,
        {
          type: 'Accepted',
          status: errors.length === 0 ? 'True' : 'False',
          reason: errors.length === 0 ? 'Accepted' : 'Invalid',
          message: messageOf(errors),
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
  }).run();
}
