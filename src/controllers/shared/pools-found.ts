/** Whether the pools that an object names have machines: a name that was misspelt limits and stops nothing. Pure. */
import type { NamedPools } from '../../api/defender-policy.ts';
import type { ConditionInput } from '../../kube/conditions.ts';

export function poolsFound(named: readonly NamedPools[], hasMachines: (pool: string) => boolean): ConditionInput {
  const missing = named.flatMap(({ path, pools = [] }) => {
    const without = [...new Set(pools)].filter((pool) => !hasMachines(pool));
    return without.length === 0 ? [] : [`\`${path}\` names ${without.join(', ')}`];
  });
  return missing.length === 0
    ? { type: 'PoolsFound', status: 'True', reason: 'Found', message: '' }
    : {
        type: 'PoolsFound',
        status: 'False',
        reason: 'NoMachines',
        message: `${missing.join('; ')}: this cell has no Machine there, so that nothing is limited or stopped by it; pools are namespaces`,
      };
}
