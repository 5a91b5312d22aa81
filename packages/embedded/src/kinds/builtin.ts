import type { JsonObject } from '@kubenode/api-machinery/wire';
import { schemaJson, type Schema } from '../schema/schema.ts';
import { schemaOf, type FieldSchema } from '../apply/index.ts';
import { dropEmpty, fillZeros, type ItemZeros } from './go-form.ts';
import type { CellsOf, Column, ScalePaths, Served, Strategy } from './served.ts';

/** What one file of a built-in kind declares. */
export interface Builtin {
  readonly group: string;
  readonly version: string;
  readonly kind: string;
  readonly plural: string;
  readonly namespaced: boolean;
  readonly shortNames?: readonly string[];
  readonly categories?: readonly string[];
  readonly schema: Schema;
  /** What Go's zero object of the kind encodes to: fields that are there without anyone having set them. */
  readonly empty?: JsonObject;
  /** The same of items of lists. */
  readonly emptyItems?: ItemZeros;
  readonly subresources?: readonly string[];
  readonly scale?: ScalePaths;
  readonly columns: readonly Column[];
  readonly cells: CellsOf;
  readonly strategy: Partial<Strategy>;
}

const STRATEGY: Strategy = { generation: 'none', statusFields: [], createOnUpdate: false, unconditionalUpdate: true };

export function servedBuiltin(kind: Builtin): Served {
  let fieldSchema: FieldSchema | undefined;
  return {
    group: kind.group,
    version: kind.version,
    kind: kind.kind,
    listKind: `${kind.kind}List`,
    plural: kind.plural,
    singular: kind.kind.toLowerCase(),
    shortNames: kind.shortNames ?? [],
    categories: kind.categories ?? [],
    namespaced: kind.namespaced,
    storageKey: `${kind.group}/${kind.plural}`,
    storageVersion: kind.group === '' ? kind.version : `${kind.group}/${kind.version}`,
    schema: kind.schema,
    get fieldSchema() {
      fieldSchema ??= schemaOf(schemaJson(kind.schema), { empty: kind.empty ?? {} });
      return fieldSchema;
    },
    strategy: { ...STRATEGY, ...kind.strategy },
    settle(object) {
      dropEmpty(object, kind.schema);
      fillZeros(object, kind.empty ?? {}, kind.emptyItems ?? {});
    },
    columns: kind.columns,
    cells: kind.cells,
    subresources: new Set(kind.subresources ?? []),
    ...(kind.scale === undefined ? {} : { scale: kind.scale }),
    strategicPatch: true,
  };
}
