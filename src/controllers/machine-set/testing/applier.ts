import { Machines } from '../../../api/machine.ts';
import type { Json, JsonObject } from '../../../api/wire.ts';
import { ApiError } from '../../../kube/api-error.ts';
import { apply, definedFields } from '@kubenode/embedded/testing';
import type { Applier } from '../../machine-component-set/testing/api.ts';

function at(value: Json | undefined, ...path: (string | number)[]): Json | undefined {
  return path.reduce<Json | undefined>(
    (found, key) => (found !== null && typeof found === 'object' ? Reflect.get(found, key) : undefined),
    value,
  );
}

// The definition is our own and was made from a schema.
const schema = definedFields(at(Machines.crd().spec, 'versions', 0, 'schema', 'openAPIV3Schema') as JsonObject);

/** Server-side apply to Machines, as the embedded server does it. */
export const applyMachine: Applier = (live, applied, { fieldManager, force }) => {
  const result = apply({
    live: live === undefined ? undefined : (structuredClone(live) as unknown as JsonObject),
    applied: structuredClone(applied) as unknown as JsonObject,
    manager: fieldManager,
    force,
    schema,
    now: '2026-11-20T00:00:00Z',
  });
  if (!result.ok) throw new ApiError(409, { reason: 'Conflict', message: JSON.stringify(result.conflicts) });
  return Machines.parse(result.object);
};
