/** The components of a fleet, as the hub would render them. */
import { signedText } from '../../api/component-form.ts';
import { MachineComponents, type MachineComponent } from '../../api/machine-component.ts';
import { RenderError } from '../../sync/render/errors.ts';
import { findingText, oncePerFleet } from '../../sync/render/finding.ts';
import { render, type RenderOptions } from '../../sync/render/render.ts';
import type { Isolation } from '../../sync/render/wall.ts';
import { cliError } from '../errors.ts';

/**
 * Each component and version once. Errors: `RenderIsolation`; `RenderFailed` with every finding; `ReleaseConflict` for a version that two clusters have otherwise.
 */
export async function fleetComponents(
  files: ReadonlyMap<string, string>,
  options: Pick<RenderOptions, 'childPath' | 'entry' | 'unsigned' | 'signal' | 'isolationAtLeast'>,
): Promise<{ components: MachineComponent[]; isolation: Isolation }> {
  const rendered = await render(files, options).catch((error: unknown) => {
    if (!(error instanceof RenderError) || error.code === 'RenderIsolation') throw error;
    const next = error.findings.find((finding) => finding.next !== undefined)?.next;
    throw cliError('RenderFailed', oncePerFleet(error.findings).map(findingText).join('\n'), {
      cause: error,
      ...(next === undefined ? {} : { next }),
    });
  });
  const found = new Map<string, MachineComponent>();
  for (const { objects } of rendered.clusters)
    for (const { object, location } of objects) {
      if (object.kind !== MachineComponents.kind || object.apiVersion !== `${MachineComponents.group}/${MachineComponents.version}`)
        continue;
      const component = MachineComponents.parse(object);
      const { name } = component.metadata;
      const known = found.get(name);
      if (known !== undefined && signedText(known.spec) !== signedText(component.spec))
        throw cliError('ReleaseConflict', `${location}: ${name} is another component in another cluster: a version has one content`);
      found.set(name, component);
    }
  const components = [...found.values()].toSorted((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1));
  return { components, isolation: rendered.isolation };
}
