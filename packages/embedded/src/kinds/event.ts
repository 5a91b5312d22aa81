import type { JsonObject } from '@kubenode/api-machinery/wire';
import { ageOf } from '../age.ts';
import { invalid } from '../field-error.ts';
import { isObject, numberAt, objectAt, textAt } from '../json.ts';
import { checkSubdomain } from '../names.ts';
import { fields, microTime, text, time, whole } from '../schema/schema.ts';
import type { Builtin } from './builtin.ts';
import { column, wide } from './columns.ts';
import { objectReference, wholeObject } from './object-meta.ts';
import type { TableCell } from './served.ts';

function cells(object: JsonObject, now: number): TableCell[] {
  const first = ageOf(textAt(object, 'firstTimestamp') ?? textAt(object, 'eventTime'), now);
  const series = object['series'];
  const last = isObject(series)
    ? ageOf(textAt(series, 'lastObservedTime'), now)
    : textAt(object, 'lastTimestamp') === undefined
      ? first
      : ageOf(textAt(object, 'lastTimestamp'), now);
  const count = isObject(series) ? (numberAt(series, 'count') ?? 0) : numberAt(object, 'count') || 1;
  const kind = (textAt(object, 'involvedObject', 'kind') ?? '').toLowerCase();
  const name = textAt(object, 'involvedObject', 'name') ?? '';
  const component = textAt(object, 'source', 'component') || textAt(object, 'reportingComponent') || '';
  const host = textAt(object, 'source', 'host') || textAt(object, 'reportingInstance') || '';
  return [
    last,
    textAt(object, 'type') ?? '',
    textAt(object, 'reason') ?? '',
    name === '' ? kind : `${kind}/${name}`,
    textAt(object, 'involvedObject', 'fieldPath') ?? '',
    host === '' ? component : `${component}, ${host}`,
    (textAt(object, 'message') ?? '').trim(),
    first,
    count,
    textAt(object, 'metadata', 'name') ?? '',
  ];
}

const INVOLVED = ['kind', 'namespace', 'name', 'uid', 'apiVersion', 'resourceVersion', 'fieldPath'];

export const event: Builtin = {
  group: '',
  version: 'v1',
  kind: 'Event',
  plural: 'events',
  namespaced: true,
  shortNames: ['ev'],
  schema: wholeObject(
    'io.k8s.api.core.v1.Event',
    'A report of something that happened to an object. Kept for an hour.',
    {
      action: text('What was done.'),
      count: whole('How often it happened.', 'int32'),
      eventTime: microTime('When it was first observed.'),
      firstTimestamp: time('When it was first recorded.'),
      involvedObject: objectReference,
      lastTimestamp: time('When it was last recorded.'),
      message: text('What happened, for people.'),
      reason: text('Why it happened, for machines.'),
      related: objectReference,
      reportingComponent: text('Controller that reports.'),
      reportingInstance: text('Instance of the controller.'),
      series: fields({ count: whole(undefined, 'int32'), lastObservedTime: microTime() }),
      source: fields({ component: text(), host: text() }, 'Who reports.'),
      type: text('Normal or Warning.'),
    },
    ['metadata', 'involvedObject'],
  ),
  empty: {
    involvedObject: {},
    source: {},
    firstTimestamp: null,
    lastTimestamp: null,
    eventTime: null,
    reportingComponent: '',
    reportingInstance: '',
  },
  columns: [
    column('Last Seen', 'When it was last recorded.'),
    column('Type', 'Normal or Warning.'),
    column('Reason', 'Why it happened.'),
    column('Object', 'What it happened to.'),
    wide('Subobject', 'Part of the object.'),
    wide('Source', 'Who reports.'),
    column('Message', 'What happened.'),
    wide('First Seen', 'When it was first recorded.'),
    wide('Count', 'How often it happened.'),
    { ...wide('Name', 'Name of the event.'), format: 'name' },
  ],
  cells,
  strategy: {
    uncollected: true,
    createOnUpdate: true,
    validateName: checkSubdomain,
    validate(object) {
      const involved = textAt(object, 'involvedObject', 'namespace') ?? '';
      const own = textAt(object, 'metadata', 'namespace') ?? '';
      const legal = involved === '' ? own === 'default' || own === 'kube-system' : involved === own;
      return legal ? [] : [invalid('involvedObject.namespace', involved, 'does not match event.namespace')];
    },
    selectableNames: [...INVOLVED.map((name) => `involvedObject.${name}`), 'reason', 'type', 'source', 'reportingComponent'],
    selectable(object) {
      const out: Record<string, string> = {};
      const involved = objectAt(object, 'involvedObject');
      for (const name of INVOLVED) out[`involvedObject.${name}`] = textAt(involved, name) ?? '';
      for (const name of ['reason', 'type', 'reportingComponent']) out[name] = textAt(object, name) ?? '';
      out['source'] = textAt(object, 'source', 'component') || (out['reportingComponent'] ?? '');
      return out;
    },
  },
};
