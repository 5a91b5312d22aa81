import type { JsonObject } from '@kubenode/api-machinery/wire';
import { accepted, objectOf, textOf, type Call, type Reply } from './call.ts';
import { decodeContinue, encodeContinue } from './continue.ts';
import { forbidden, unsupported, type FieldProblem } from './field-error.ts';
import { apiVersion, type Served } from './kinds/served.ts';
import { badRequest, expired, invalidObject, tooLargeResourceVersion, Refusal } from './refusal.ts';
import { parseFieldSelector, parseLabelSelector, type FieldSelector, type LabelSelector } from './selector.ts';
import { keyOf, type Entry } from './store/entry.ts';
import type { TableSnapshot } from './store/table.ts';
import { includeObject, partialMetadata, tableOf } from './table.ts';

/** What a list, watch or deletecollection selects. */
export interface Selection {
  readonly labels: LabelSelector;
  readonly fields: FieldSelector;
  /** Empty: all. */
  readonly namespace: string;
  readonly name: string;
}

export function selectionOf(call: Call): Selection {
  const { served, info, query } = call;
  const known = new Set([
    'metadata.name',
    ...(served.namespaced ? ['metadata.namespace'] : []),
    ...(served.strategy.selectableNames ?? []),
  ]);
  const onlyMetadata = served.custom === undefined && served.strategy.selectableNames === undefined;
  const fields = parseFieldSelector(query['fieldSelector'], (field) => known.has(field), onlyMetadata);
  const pinned = fields.exactly('metadata.name') ?? '';
  if (info.name !== '' && pinned !== '' && pinned !== info.name) {
    throw badRequest("fieldSelector metadata.name doesn't match requested name");
  }
  return {
    labels: parseLabelSelector(query['labelSelector']),
    fields,
    namespace: info.namespace !== '' ? info.namespace : served.namespaced ? (fields.exactly('metadata.namespace') ?? '') : '',
    name: info.name !== '' ? info.name : pinned,
  };
}

/** True for an entry that the selection takes; its namespace and name included. */
export function selects({ labels, fields, namespace, name }: Selection, entry: Entry): boolean {
  if (namespace !== '' && entry.namespace !== namespace) return false;
  if (name !== '' && entry.name !== name) return false;
  if (!labels.empty && !labels.matches(entry.labels)) return false;
  return fields.empty || fields.matches((field) => fieldOf(entry, field));
}

function fieldOf(entry: Entry, field: string): string {
  if (field === 'metadata.name') return entry.name;
  if (field === 'metadata.namespace') return entry.namespace;
  return entry.fields[field] ?? '';
}

/** The version of a get or a watch: 500 for what is no version, where a list answers 400. */
export function parseOwnVersion(text: string | undefined): number | undefined {
  try {
    return parseVersion(text);
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    throw new Refusal(500, undefined, error.message.replace('invalid resource version: ', ''));
  }
}

export function parseVersion(text: string | undefined): number | undefined {
  if (text === undefined || text === '') return undefined;
  if (!/^\d+$/.test(text)) {
    throw badRequest(
      `invalid resource version: resourceVersion: Invalid value: ${JSON.stringify(text)}: strconv.ParseUint: parsing ${JSON.stringify(text)}: invalid syntax`,
    );
  }
  return Number(text);
}

function checkOptions(query: Call['query']): void {
  const problems: FieldProblem[] = [];
  const { resourceVersion = '', resourceVersionMatch: match = '', sendInitialEvents, continue: token = '' } = query;
  if (match !== '') {
    if (resourceVersion === '') {
      problems.push(forbidden('resourceVersionMatch', 'resourceVersionMatch is forbidden unless resourceVersion is provided'));
    }
    if (token !== '') problems.push(forbidden('resourceVersionMatch', 'resourceVersionMatch is forbidden when continue is provided'));
    if (match !== 'Exact' && match !== 'NotOlderThan') {
      problems.push(unsupported('resourceVersionMatch', match, ['Exact', 'NotOlderThan', '']));
    }
    if (match === 'Exact' && resourceVersion === '0') {
      problems.push(forbidden('resourceVersionMatch', 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'));
    }
  }
  if (sendInitialEvents !== undefined) problems.push(forbidden('sendInitialEvents', 'sendInitialEvents is forbidden for list'));
  if (problems.length > 0) throw invalidObject('meta.k8s.io', 'ListOptions', '', problems);
}

export function limitOf(text: string | undefined): number {
  if (text === undefined || text === '') return 0;
  const limit = Number(text);
  if (!Number.isInteger(limit)) throw badRequest(`strconv.ParseInt: parsing ${JSON.stringify(text)}: invalid syntax`);
  return Math.max(0, limit);
}

const TOO_OLD = 'The resourceVersion for the provided list is too old.';
const TOKEN_TOO_OLD =
  'The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.';

interface Start {
  readonly snapshot: TableSnapshot;
  readonly rv: number;
  readonly start: string;
}

/** Which state of the resource the list shows, and from which key on. */
function startOf(call: Call, limit: number): Start {
  const { store } = call.world;
  const table = store.table(call.served.storageKey);
  const current = () => {
    const snapshot = table.at(store.rv);
    if (snapshot === undefined) throw expired(TOO_OLD);
    return snapshot;
  };
  const given = parseVersion(call.query['resourceVersion']);
  const token = call.query['continue'] ?? '';
  if (token !== '') {
    if (given !== undefined && given !== 0) throw badRequest('specifying resource version is not allowed when using continue');
    const { rv, start } = decodeContinue(token);
    if (rv < 0) return { snapshot: current(), rv: store.rv, start };
    const snapshot = rv > store.rv ? undefined : table.at(rv);
    if (snapshot === undefined) throw expired(TOKEN_TOO_OLD, encodeContinue({ rv: -1, start }));
    return { snapshot, rv, start };
  }
  if (given !== undefined && given > store.rv) throw tooLargeResourceVersion(given, store.rv);
  const exact = call.query['resourceVersionMatch'] === 'Exact' || (call.query['resourceVersionMatch'] === undefined && limit > 0);
  if (given === undefined || given === 0 || !exact) return { snapshot: current(), rv: store.rv, start: '' };
  const snapshot = table.at(given);
  if (snapshot === undefined) throw expired(TOO_OLD);
  return { snapshot, rv: given, start: '' };
}

interface Page {
  readonly entries: Entry[];
  readonly metadata: JsonObject;
}

/** Collects one page. Throws a Refusal. */
export function page(call: Call): Page {
  checkOptions(call.query);
  const selection = selectionOf(call);
  const limit = limitOf(call.query['limit']);
  const { snapshot, rv, start } = startOf(call, limit);
  const prefix = selection.namespace === '' ? '' : `${selection.namespace}/`;
  const entries: Entry[] = [];
  const metadata: JsonObject = { resourceVersion: String(rv) };
  const pinned = selection.name !== '' && (!call.served.namespaced || selection.namespace !== '');
  if (pinned) {
    const entry = snapshot.get(keyOf(selection.namespace, selection.name));
    if (entry !== undefined && selects(selection, entry)) entries.push(entry);
    return { entries, metadata };
  }
  let rest = 0;
  let last = '';
  for (const entry of snapshot.range(prefix, start === '' ? '' : `${prefix}${start}`)) {
    if (limit > 0 && entries.length === limit) {
      rest++;
      if (!selection.labels.empty || !selection.fields.empty) break;
      continue;
    }
    if (!selects(selection, entry)) continue;
    entries.push(entry);
    last = entry.key;
  }
  if (rest > 0) {
    metadata['continue'] = encodeContinue({ rv, start: `${last.slice(prefix.length)}\0` });
    if (selection.labels.empty && selection.fields.empty) metadata['remainingItemCount'] = rest;
  }
  return { entries, metadata };
}

/** Items of a built-in list have no type of their own, as upstream's typed lists; items of custom resources do. */
function itemText(served: Served, text: string): string {
  const type = `{"apiVersion":${JSON.stringify(apiVersion(served))},"kind":${JSON.stringify(served.kind)},`;
  return served.custom === undefined && text.startsWith(type) ? `{${text.slice(type.length)}` : text;
}

export function list(call: Call): Reply {
  const form = accepted(call);
  const { entries, metadata } = page(call);
  const { served } = call;
  // Lists of custom resources always carry the field.
  if (served.custom !== undefined) metadata['continue'] ??= '';
  switch (form.shape) {
    case 'table': {
      const options = { version: form.version, include: includeObject(call.query['includeObject']) };
      const objects = entries.map((entry) => objectOf(served, entry));
      if (metadata['continue'] === '') delete metadata['continue'];
      return { status: 200, object: tableOf(served, objects, metadata, options, call.world.clock.now()) };
    }
    case 'partial': {
      const partial = entries.map((entry) => partialMetadata(objectOf(served, entry), form.version));
      const items = partial.length === 0 ? null : partial;
      if (metadata['continue'] === '') delete metadata['continue'];
      return { status: 200, object: { kind: 'PartialObjectMetadataList', apiVersion: `meta.k8s.io/${form.version}`, metadata, items } };
    }
    case 'json': {
      const head = `{"kind":${JSON.stringify(served.listKind)},"apiVersion":${JSON.stringify(apiVersion(served))},"metadata":${JSON.stringify(metadata)},"items":[`;
      return { status: 200, text: `${head}${entries.map((entry) => itemText(served, textOf(served, entry))).join(',')}]}` };
    }
    default:
      return form.shape satisfies never;
  }
}
