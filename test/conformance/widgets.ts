import { type Api, pick, text, configMap, DEFINITION_PATH, widget, WIDGETS } from '@kubenode/embedded/testing';
import { waitFor } from '../../src/kube/testing/wait-for.ts';
import type { JsonObject } from '../../src/api/wire.ts';

/** Creates a definition and waits until it is served and published. */
export async function define(api: Api, definition: JsonObject): Promise<void> {
  const name = text(pick(definition, 'metadata.name'));
  const made = await api.create(DEFINITION_PATH, structuredClone(definition));
  if (made.status !== 201 && made.status !== 409) throw new Error(JSON.stringify(made.body));
  const spec = definition['spec'];
  const path = `/apis/${text(pick(spec, 'group'))}/${text(pick(spec, 'versions.0.name'))}/${text(pick(spec, 'names.plural'))}`;
  await waitFor(async () => (await api.get(path)).status === 200, { deadlineMs: 20_000, what: `${name} to be served` });
}

export const defineWidgets = (api: Api): Promise<void> => define(api, WIDGETS);

export const WIDGET = 'example.io/v1/widgets';

export { configMap, widget };
