/**
 * Where in the fleet something was made: `fleet/nodes.ts:12:3`. What finds it is installed by the sandbox that renders
 * fleets; elsewhere (an editor, `cdk8s synth`) no origin is found, and no code depends on it.
 */
export const originPort: { find: () => string | undefined } = { find: () => undefined };

/** Origins of what is not a construct, or whose origin is not the line that made the construct. */
const origins = new WeakMap<object, string>();

export function originOf(thing: object): string | undefined {
  return origins.get(thing);
}

export function rememberOrigin(thing: object, origin: string | undefined): void {
  if (origin !== undefined) origins.set(thing, origin);
}
