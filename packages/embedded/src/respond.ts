import type { JsonObject } from '@kubenode/api-machinery/wire';
import type { Accepted } from './accept.ts';
import { accepted, type Call, type Reply } from './call.ts';
import { textAt } from './json.ts';
import { notAcceptable } from './refusal.ts';
import { includeObject, partialMetadata, tableOf } from './table.ts';

/** One object in the form that the client asked for. */
export function shaped(call: Call, object: JsonObject, status: number, form: Accepted = accepted(call)): Reply {
  switch (form.shape) {
    case 'json':
      return { status, object };
    case 'partial':
      return { status, object: partialMetadata(object, form.version) };
    case 'table': {
      if (object['kind'] === 'Status') return { status, object };
      const options = { version: form.version, include: includeObject(call.query['includeObject']) };
      const metadata = { resourceVersion: textAt(object, 'metadata', 'resourceVersion') ?? '' };
      return { status, object: tableOf(call.served, [object], metadata, options, call.world.clock.now()) };
    }
    default:
      throw notAcceptable(['application/json']);
  }
}
