import type { JsonObject } from '@kubenode/api-machinery/wire';
import { objectAt } from './json.ts';
import type { Column, Served } from './kinds/served.ts';
import { badRequest } from './refusal.ts';

type IncludeObject = 'None' | 'Metadata' | 'Object';

export interface TableOptions {
  /** v1 or v1beta1. */
  readonly version: string;
  readonly include: IncludeObject;
}

export function includeObject(value: string | undefined): IncludeObject {
  if (value === undefined || value === '' || value === 'Metadata') return 'Metadata';
  if (value === 'None' || value === 'Object') return value;
  throw badRequest(
    `Unable to convert to Table as requested: includeObject: Invalid value: ${JSON.stringify(value)}: must be 'Metadata', 'Object', 'None', or empty`,
  );
}

const definition = ({ name, type, format, description, priority }: Column): JsonObject => ({
  name,
  type,
  format: format ?? '',
  description,
  priority: priority ?? 0,
});

export function partialMetadata(object: JsonObject, version: string): JsonObject {
  return { kind: 'PartialObjectMetadata', apiVersion: `meta.k8s.io/${version}`, metadata: objectAt(object, 'metadata') };
}

function row(served: Served, object: JsonObject, now: number, { version, include }: TableOptions): JsonObject {
  const cells = served.cells(object, now);
  const shown = include === 'None' ? null : include === 'Object' ? object : partialMetadata(object, version);
  const out: JsonObject = { cells };
  const phase = objectAt(object, 'status')['phase'];
  if (served.kind === 'Pod' && served.group === '' && (phase === 'Succeeded' || phase === 'Failed')) {
    out['conditions'] = [
      {
        type: 'Completed',
        status: 'True',
        reason: phase,
        message: `The pod has ${phase === 'Failed' ? 'failed' : 'completed successfully'}.`,
      },
    ];
  }
  out['object'] = shown;
  return out;
}

/** A meta.k8s.io Table of some objects. A watch sends the columns only with its first event. */
export function tableOf(
  served: Served,
  objects: readonly JsonObject[],
  metadata: JsonObject,
  options: TableOptions,
  now: number,
  withColumns = true,
): JsonObject {
  return {
    kind: 'Table',
    apiVersion: `meta.k8s.io/${options.version}`,
    metadata,
    columnDefinitions: withColumns ? served.columns.map(definition) : null,
    rows: objects.map((object) => row(served, object, now, options)),
  };
}
