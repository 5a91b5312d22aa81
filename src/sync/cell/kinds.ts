/** The kinds of a cell that the hub knows, and those that it asks the cell for. */
import * as builtin from '../../api/builtin.ts';
import { DefenderPolicies } from '../../api/defender-policy.ts';
import { objectError } from '../../api/errors.ts';
import { API_VERSION } from '../../api/kind.ts';
import { kindNamed } from '../../api/kinds.ts';
import { MachineComponents } from '../../api/machine-component.ts';
import { MachineComponentSets } from '../../api/machine-component-set.ts';
import { MachineSets } from '../../api/machine-set.ts';
import { NodeRemediers } from '../../api/node-remedier.ts';
import { apiVersionOf, type Resource } from '../../api/resource.ts';
import type { KubeObject } from '../../api/wire.ts';
import type { Client } from '../../kube/client.ts';
import { isRecord } from '../../kube/failure.ts';
import { syncError } from '../errors.ts';

/** The kinds whose units are watched in cells: those that have evidence of their own. */
export const WATCHED: readonly Resource[] = [MachineComponentSets, MachineSets, DefenderPolicies, NodeRemediers];
/** The kinds that a cell must have, in the version that this hub knows. */
export const WRITTEN: readonly Resource[] = [...WATCHED, MachineComponents];

/** Whether objects of this kind are watched in cells. */
export function isWatched(kind: string): boolean {
  return WATCHED.some((each) => each.kind === kind);
}

const BUILTIN = new Map(
  Object.values(builtin).flatMap((each) =>
    typeof each === 'object' && each !== null && 'plural' in each ? [[`${apiVersionOf(each)}/${each.kind}`, each as Resource]] : [],
  ),
);

/** It becomes a part of paths. */
const isPlural = (name: unknown): boolean => typeof name === 'string' && /^[a-z0-9]([-a-z0-9.]{0,250}[a-z0-9])?$/.test(name);

/** Finds a kind: KubeNode's own and the common built-in ones are known, others are asked for once and remembered. */
export function resourceFinder(client: Client): (object: { apiVersion: string; kind: string }) => Promise<Resource> {
  const found = new Map<string, Resource>();
  return async ({ apiVersion, kind }) => {
    const id = `${apiVersion}/${kind}`;
    const known = apiVersion === API_VERSION ? kindNamed(kind) : (BUILTIN.get(id) ?? found.get(id));
    if (known !== undefined) return known;
    const slash = apiVersion.indexOf('/');
    const group = slash < 0 ? '' : apiVersion.slice(0, slash);
    const version = apiVersion.slice(slash + 1);
    const path = group === '' ? `/api/${version}` : `/apis/${group}/${version}`;
    const answer = await client.request({ method: 'GET', path }).catch(() => undefined);
    const listed: unknown = isRecord(answer) ? answer['resources'] : undefined;
    const entry = Array.isArray(listed)
      ? listed.filter(isRecord).find((each) => each['kind'] === kind && isPlural(each['name']))
      : undefined;
    const plural = entry?.['name'];
    if (entry === undefined || typeof plural !== 'string')
      throw syncError('UnknownKind', `the cluster does not know kind "${kind}" of ${apiVersion}`, {
        next: 'install its CustomResourceDefinition first',
      });
    const resource: Resource = {
      group,
      version,
      kind,
      plural,
      namespaced: entry['namespaced'] === true,
      parse(value) {
        if ((value as Partial<KubeObject> | null)?.kind !== kind) throw objectError('InvalidObject', `not a ${kind}`);
        return value as KubeObject;
      },
    };
    found.set(id, resource);
    return resource;
  };
}
