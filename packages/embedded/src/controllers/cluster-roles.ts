import type { Json, JsonObject } from '@kubenode/api-machinery/wire';
import { equal, isObject, listAt, put, stringMapAt } from '../json.ts';
import { RBAC_GROUP } from '../kinds/rbac.ts';
import { labelSelectorOf } from '../selector.ts';
import { parsed } from '../store/entry.ts';
import { change, type Context, type EmbeddedController } from './controller.ts';

const CLUSTER_ROLES = `${RBAC_GROUP}/clusterroles`;

/** Gives ClusterRoles with an aggregationRule the rules of those that it selects, in the order of their names. */
export function clusterRolesController({ world, tasks }: Context): EmbeddedController {
  const served = world.registry.byStorage(CLUSTER_ROLES);

  function aggregate(): void {
    if (served === undefined) return;
    const entries = Array.from(world.store.table(CLUSTER_ROLES).entries()).sort((a, b) => (a.name < b.name ? -1 : 1));
    const roles = entries.map((entry) => ({ entry, object: parsed(entry) }));
    for (const { entry, object } of roles) {
      const selectors = isObject(object['aggregationRule']) ? listAt(object, 'aggregationRule', 'clusterRoleSelectors') : undefined;
      if (selectors === undefined) continue;
      const rules: Json[] = [];
      for (const selector of selectors) {
        for (const other of roles) {
          if (other.entry.name === entry.name || !labelSelectorOf(selector).matches(stringMapAt(other.object, 'metadata', 'labels')))
            continue;
          for (const rule of listAt(other.object, 'rules')) if (!rules.some((known) => equal(known, rule))) rules.push(rule);
        }
      }
      if (equal(rules, listAt(object, 'rules'))) continue;
      change(
        world,
        served,
        entry,
        '',
        (live): JsonObject => {
          put(live, 'rules', rules);
          return live;
        },
        'clusterrole-aggregation-controller',
      );
    }
  }

  const later = (): void => tasks.add('aggregated ClusterRoles', aggregate);
  return {
    start: later,
    onEvent(event) {
      if (event.resource === CLUSTER_ROLES) later();
    },
  };
}
