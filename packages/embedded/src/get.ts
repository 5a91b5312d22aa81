import { accepted, objectOf, textOf, type Call, type Reply } from './call.ts';
import { parseOwnVersion } from './list.ts';
import { notFound, tooLargeResourceVersion } from './refusal.ts';
import { shaped } from './respond.ts';
import { keyOf } from './store/entry.ts';

export function get(call: Call): Reply {
  const { served, info, world } = call;
  const form = accepted(call);
  const asked = parseOwnVersion(call.query['resourceVersion']);
  if (asked !== undefined && asked > world.store.rv) throw tooLargeResourceVersion(asked, world.store.rv);
  const entry = world.store.table(served.storageKey).get(keyOf(info.namespace, info.name));
  if (entry === undefined) throw notFound(served, info.name);
  if (form.shape === 'json') return { status: 200, text: textOf(served, entry) };
  return shaped(call, objectOf(served, entry), 200, form);
}
