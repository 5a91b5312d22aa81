import { canonical } from '../../api/digest.ts';
import { DefenderPolicies, namedPools } from '../../api/defender-policy.ts';
import type { FieldError } from '../../api/kind.ts';
import { Machines } from '../../api/machine.ts';
import { MANAGERS } from '../../api/names.ts';
import type { Clock, Log, Random } from '../../api/ports.ts';
import type { Cache } from '../../kube/cache.ts';
import type { Client } from '../../kube/client.ts';
import { setConditions } from '../../kube/conditions.ts';
import { createController, watch } from '../../kube/controller.ts';
import { poolsFound } from '../shared/pools-found.ts';

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

/** Reports in the status of each policy whether Defender can apply it, with every validation error, and whether the pools that it names have machines. */
export async function runDefenderPolicyController(options: DefenderPolicyControllerOptions): Promise<void> {
  const { cache, clock, signal } = options;
  const policies = cache.store(DefenderPolicies);
  const machines = cache.store(Machines);
  await createController({
    ...options,
    name: 'defenderpolicy',
    watches: [
      watch(policies, (policy) => [policy.metadata.name]),
      // A pool begins and ends with a machine.
      watch(machines, ({ metadata: { namespace = '' } }, old) =>
        old === undefined
          ? policies
              .list()
              .filter(({ spec }) => namedPools(spec).some(({ pools }) => pools?.includes(namespace) === true))
              .map(({ metadata }) => metadata.name)
          : [],
      ),
    ],
    async reconcile(name, { client }) {
      const policy = policies.get({ name });
      if (policy === undefined) return;
      const { apiVersion, kind, spec } = policy;
      // As Defender itself reads it, so that nothing is obeyed in part: also a field that this build does not know is an error.
      const errors = DefenderPolicies.validate({ apiVersion, kind, metadata: { name }, spec });
      const { generation } = policy.metadata;
      const observed = generation === undefined ? {} : { observedGeneration: generation };
      const isValid = errors.length === 0;
      const accepted = {
        type: 'Accepted',
        status: isValid ? ('True' as const) : ('False' as const),
        reason: isValid ? 'Accepted' : 'Invalid',
        message: messageOf(errors),
        ...observed,
      };
      // One that is not valid may have anything at these paths.
      const found = isValid ? [{ ...poolsFound(namedPools(spec), (pool) => machines.inNamespace(pool).length > 0), ...observed }] : [];
      const conditions = setConditions(policy.status?.conditions, [accepted, ...found], clock.now());
      const status = { conditions, ...observed };
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
