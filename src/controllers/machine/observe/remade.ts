import type { KubeObject, Stored } from '../../../api/wire.ts';
import type { Reflector } from '../../../kube/reflector.ts';

/** What is made of everything in a store: the same value until the store has changed. */
export function remade<T extends KubeObject, Made>(
  store: Pick<Reflector<T>, 'list' | 'resourceVersion' | 'mark'>,
  make: (objects: Stored<T>[]) => Made,
): () => Made {
  let known: { at: string; made: Made } | undefined;
  return () => {
    // The list that a store began with and the version that it has reached since identify its content.
    const at = `${store.mark()} ${store.resourceVersion ?? ''}`;
    if (known?.at !== at) known = { at, made: make(store.list()) };
    return known.made;
  };
}
