/** For tests and measurements of others: requests in few words, certificate requests, objects of a custom kind, and apply and JSON patches without a server. */
import type { JsonObject } from '@kubenode/api-machinery/wire';
import { schemaOf, type FieldSchema } from '../apply/index.ts';
import { wholeSchema } from '../crd/served.ts';
import { schemaJson } from '../schema/schema.ts';

export { apply } from '../apply/index.ts';
export { isObject, listAt } from '../json.ts';
export { jsonPatch } from '../patch/json.ts';
export { makeRequest, makeRequestAndKey } from './csr.ts';
export { Api, names, pick, text, type Answer, type Watch, type WatchLine } from './rig.ts';
export { systemClock } from './system-clock.ts';
export { configMap, DEFINITION_PATH, widget, WIDGETS } from './widgets.ts';

/** How fields are merged by a schema that stands in a CustomResourceDefinition. */
export const definedFields = (openApiSchema: JsonObject): FieldSchema => schemaOf(schemaJson(wholeSchema(openApiSchema)));
