/**
 * A recorded history of one machine: what its node, its detectors and its agent reported and when, and what the rules should have done. It is
 * replayed by the code that runs in a cell (`replay`), so that rules have tests.
 */
import { Ajv } from 'ajv';
import { Type, type Static } from 'typebox';
import { CONDITION_STATUSES, PEER_SCOPES } from '../api/facts.ts';
import { stringMap } from '../api/fields.ts';
import { COMPONENT_STATES, OUTCOMES, PHASES } from '../api/machine/values.ts';
import { ACTIONS } from '../api/node-remedier/values.ts';
import { validationError, type ValidationError } from './validation-error.ts';

const closed = { additionalProperties: false } as const;
const at = Type.Number({ minimum: 0, description: 'seconds from the start' });
const status = Type.Enum([...CONDITION_STATUSES]);
const conditionPatch = Type.Union([
  status,
  Type.Object(
    {
      status,
      reason: Type.Optional(Type.String()),
      transitionAt: Type.Optional(Type.Number({ description: 'time that the detector reports, in seconds from the start; default now' })),
    },
    closed,
  ),
  Type.Null(),
]);
const peerCounts = Type.Object(
  {
    total: Type.Integer({ minimum: 0 }),
    unhealthy: Type.Integer({ minimum: 0 }),
    conditions: Type.Optional(Type.Record(Type.String(), Type.Integer({ minimum: 0 }))),
  },
  closed,
);
const alive = Type.Enum(['Alive', 'Stale']);

export const historyEvent = Type.Object(
  {
    at,
    note: Type.Optional(Type.String()),
    conditions: Type.Optional(Type.Record(Type.String(), conditionPatch, { description: 'of the Node; null takes one away' })),
    machineConditions: Type.Optional(Type.Record(Type.String(), conditionPatch)),
    labels: Type.Optional(Type.Record(Type.String(), Type.Union([Type.String(), Type.Null()]))),
    annotations: Type.Optional(Type.Record(Type.String(), Type.Union([Type.String(), Type.Null()]))),
    unschedulable: Type.Optional(Type.Boolean()),
    taints: Type.Optional(Type.Array(Type.String())),
    info: Type.Optional(stringMap('fields of nodeInfo')),
    phase: Type.Optional(Type.Enum([...PHASES])),
    components: Type.Optional(
      Type.Record(
        Type.String(),
        Type.Object(
          {
            wanted: Type.Optional(Type.String()),
            version: Type.Optional(Type.String()),
            state: Type.Optional(Type.Enum([...COMPONENT_STATES])),
            driftRepairs: Type.Optional(Type.Integer({ minimum: 0 })),
          },
          closed,
        ),
      ),
    ),
    peers: Type.Optional(Type.Object(Object.fromEntries(PEER_SCOPES.map((scope) => [scope, Type.Optional(peerCounts)])), closed)),
    detectors: Type.Optional(
      Type.Enum(['Alive', 'Stale', 'Restarted'], {
        description: 'Node Problem Detector; when it restarts it sets its conditions to False with a new transition',
      }),
    ),
    kubelet: Type.Optional(alive),
    agent: Type.Optional(alive),
    clockSkewSeconds: Type.Optional(Type.Number({ description: "of the node's clock" })),
    boot: Type.Optional(Type.Boolean({ description: 'true: it booted; the agent names another boot' })),
    nodeReplaced: Type.Optional(Type.Boolean({ description: 'true: the Node has another UID under the same name' })),
    operation: Type.Optional(
      Type.Enum(['Begins', 'Ends'], { description: 'a Change or a repair of another rule has reserved the machine' }),
    ),
    acted: Type.Optional(Type.Enum([...OUTCOMES], { description: 'how the action under way ended' })),
    controller: Type.Optional(Type.Enum(['Restarts', 'Stops'], { description: 'Stops: until Restarts no controller reconciles' })),
  },
  closed,
);
export type HistoryEvent = Static<typeof historyEvent>;

export const expectedJob = Type.Object(
  {
    at,
    rule: Type.Optional(Type.String({ description: 'where several are replayed' })),
    action: Type.Enum([...ACTIONS]),
    ends: Type.Optional(Type.Enum(['Succeeded', 'Failed', 'NeedsHuman', 'Shadow', 'Open'])),
    endsAt: Type.Optional(at),
  },
  closed,
);
export type ExpectedJob = Static<typeof expectedJob>;

const history = Type.Object(
  {
    name: Type.String({ minLength: 1 }),
    start: Type.Optional(Type.String({ description: 'default 2026-01-01T00:00:00Z' })),
    pool: Type.Optional(Type.String()),
    machineLabels: Type.Optional(stringMap()),
    events: Type.Array(historyEvent, { minItems: 1 }),
    untilSeconds: Type.Optional(Type.Number({ minimum: 0, description: 'default: an hour after the last event' })),
    actionSeconds: Type.Optional(
      Type.Number({ minimum: 0, description: 'an action takes this long and succeeds; default: `acted` reports it' }),
    ),
    expect: Type.Array(expectedJob, { description: 'every job that is made, in order; empty: the rules must not fire' }),
  },
  closed,
);
export type History = Static<typeof history>;

const ajv = new Ajv({ allErrors: true, strict: false, validateFormats: false });
const check = ajv.compile<History>(history);

/** A history from a file, or every error in it. */
export function parseHistory(value: unknown): { history: History; errors: [] } | { history: undefined; errors: ValidationError[] } {
  if (!check(value)) {
    const errors = (check.errors ?? []).map((error) => {
      const extra = (error.params as Record<string, unknown>)['additionalProperty'];
      const path = error.instancePath
        .slice(1)
        .replaceAll(/\/(\d+)/g, '[$1]')
        .replaceAll('/', '.');
      if (typeof extra === 'string') return validationError(path === '' ? extra : `${path}.${extra}`, 'unknown field', 'remove it');
      const allowed = (error.params as Record<string, unknown>)['allowedValues'];
      return validationError(
        path,
        error.message ?? 'is not valid',
        Array.isArray(allowed) ? `write one of ${allowed.join(', ')}` : 'write it as the history format defines',
      );
    });
    return { history: undefined, errors };
  }
  const errors: ValidationError[] = [];
  for (const [index, event] of value.events.entries())
    if (event.at < (value.events[index - 1]?.at ?? 0))
      errors.push(validationError(`events[${index}].at`, `${event.at} is before the event above it`, 'put events in order'));
  if (value.start !== undefined && Number.isNaN(Date.parse(value.start)))
    errors.push(validationError('start', `${JSON.stringify(value.start)} is not a time`, 'write RFC 3339, such as 2026-01-01T00:00:00Z'));
  return errors.length === 0 ? { history: value, errors: [] } : { history: undefined, errors };
}
