import { Type, type Static } from 'typebox';
import { policyErrors } from './defender-policy-check.ts';
import { atomic, conditions, countOrPercent, labelSelector, listMap, name } from './fields.ts';
import { defineKind } from './kind/definition.ts';
import { ACTIONS } from './node-remedier/values.ts';

export const LIMIT_SCOPES = ['Cluster', 'Zone', 'Rack', 'Pool', 'Set', 'Condition'] as const;

/** What a machine may ask for, as policies distinguish it: a deletion is Delete, in any class. */
export const LIMIT_CLASSES = ['Change', 'Repair', 'Restore', 'Delete'] as const;
export type LimitClass = (typeof LIMIT_CLASSES)[number];

/** Actions that may be allowed; a Human needs no permission. */
export const ALLOWABLE_ACTIONS = ACTIONS.filter((action) => action !== 'Human');

const pools = (description: string) =>
  Type.Optional(atomic(Type.String({ minLength: 1 }), { minItems: 1, description: `${description}; absent: every pool` }));
const classes = (description: string) => Type.Optional(atomic(Type.Enum([...LIMIT_CLASSES]), { minItems: 1, description }));
const timeZone = () => Type.String({ minLength: 1, maxLength: 64, description: 'name of the IANA database, such as Europe/Berlin' });
const schedule = (description: string) => Type.String({ minLength: 1, maxLength: 128, description });
const durationMinutes = () =>
  Type.Integer({ minimum: 1, maximum: 44_640, description: 'of time that passes, also where clocks are changed' });

const CRON = 'cron of five fields, on the clocks of the time zone';

export const limit = Type.Object(
  {
    name: name('unique in the policy; verdicts name `<policy>/<limit>`'),
    scope: Type.Enum([...LIMIT_SCOPES], {
      description:
        'one budget for the cell, or one for each zone, rack, pool, MachineSet, or condition type that repairs are asked for; where a zone or rack is limited, machines without its label are refused',
    }),
    pools: pools('only machines of these pools are limited; not for scope Cluster'),
    conditions: Type.Optional(
      atomic(Type.String({ minLength: 1 }), { minItems: 1, description: 'scope Condition: only these types; absent: each type' }),
    ),
    classes: classes(
      'only requests of these classes are limited, and only they count for maxConcurrent and rates; absent: all, but no Restore for rates and intervals',
    ),
    maxUnavailable: Type.Optional(
      countOrPercent('of the machines in the scope: |unavailable ∪ reserved| stays at or below this; 0 means none'),
    ),
    maxConcurrent: Type.Optional(
      Type.Integer({
        minimum: 0,
        description: 'reservations in the scope at once; a machine that is unavailable already still adds one; 0 means none',
      }),
    ),
    maxPerHour: Type.Optional(Type.Integer({ minimum: 1, description: 'reservations in any 60 minutes; counted in steps of 5 minutes' })),
    maxPerDay: Type.Optional(Type.Integer({ minimum: 1, description: 'reservations in any 24 hours; counted in steps of an hour' })),
    minIntervalSeconds: Type.Optional(
      Type.Integer({ minimum: 1, maximum: 31_536_000, description: 'between two disruptions of one machine, of any class' }),
    ),
  },
  { description: 'At least one of maxUnavailable, maxConcurrent, maxPerHour, maxPerDay and minIntervalSeconds.' },
);
export type LimitSpec = Static<typeof limit>;

export const disruptionWindow = Type.Object({
  name: name('unique among windows and freezes of the policy'),
  timeZone: timeZone(),
  schedule: schedule(`when it opens: ${CRON}`),
  durationMinutes: durationMinutes(),
  classes: classes('what may begin only inside; absent: all but Restore'),
  pools: pools('whose disruptions may begin only inside'),
});

export const calendarFreeze = Type.Object(
  {
    name: name('unique among windows and freezes of the policy'),
    timeZone: timeZone(),
    from: Type.Optional(Type.String({ description: 'YYYY-MM-DDTHH:MM on the clocks of the time zone; with `until`' })),
    until: Type.Optional(Type.String({ description: 'YYYY-MM-DDTHH:MM on the clocks of the time zone; with `from`' })),
    schedule: Type.Optional(schedule(`when it begins: ${CRON}; with \`durationMinutes\``)),
    durationMinutes: Type.Optional(durationMinutes()),
    classes: classes('what may not begin inside; absent: all but Restore'),
    pools: pools('whose disruptions may not begin inside'),
    reason: Type.String({ minLength: 1, maxLength: 256, description: 'for people who have to wait' }),
  },
  { description: 'Either from and until, or schedule and durationMinutes.' },
);

export const actionRule = Type.Object({
  selector: labelSelector(),
  allowed: atomic(Type.Enum([...ALLOWABLE_ACTIONS]), { description: 'repairs that may be done to machines with these labels; none: none' }),
});

export const breaker = Type.Object({
  scope: Type.Enum(['Cluster', 'Zone', 'Rack', 'Pool']),
  unavailableAbove: countOrPercent(
    'of the machines in the scope: with more of them unavailable by themselves no Repair, Change or Delete begins there; what brings nodes back goes on',
  ),
});

export const defenderPolicySpec = Type.Object({
  limits: listMap(limit, ['name'], { maxItems: 100 }),
  windows: Type.Optional(
    listMap(disruptionWindow, ['name'], { maxItems: 32, description: 'what they name begins only inside one of them' }),
  ),
  freezes: Type.Optional(
    listMap(calendarFreeze, ['name'], { maxItems: 64, description: 'what they name does not begin inside any of them' }),
  ),
  actions: Type.Optional(
    atomic(actionRule, {
      maxItems: 32,
      description: 'repairs that are allowed on a class of nodes; every entry that matches must allow it',
    }),
  ),
  breaker: Type.Optional(breaker),
  unitDigest: Type.Optional(Type.String()),
});
export type DefenderPolicySpec = Static<typeof defenderPolicySpec>;

export const DefenderPolicies = defineKind({
  kind: 'DefenderPolicy',
  plural: 'defenderpolicies',
  shortNames: ['defpol'],
  namespaced: false,
  description: 'How much may be disrupted, how often, when, and by what. All limits of all policies must have room.',
  spec: defenderPolicySpec,
  status: Type.Object({ observedGeneration: Type.Optional(Type.Integer()), conditions: conditions() }),
  columns: [
    { name: 'Accepted', type: 'string', jsonPath: '.status.conditions[?(@.type=="Accepted")].status' },
    { name: 'PoolsFound', type: 'string', jsonPath: '.status.conditions[?(@.type=="PoolsFound")].status', priority: 1 },
    { name: 'Limits', type: 'string', jsonPath: '.spec.limits[*].name', priority: 1 },
    { name: 'Windows', type: 'string', jsonPath: '.spec.windows[*].name', priority: 1 },
  ],
  check: (object) => policyErrors(object.spec),
});
export type DefenderPolicy = ReturnType<typeof DefenderPolicies.parse>;

/** A field that names pools. */
export interface NamedPools {
  /** `spec.limits[0].pools` */
  path: string;
  pools: readonly string[] | undefined;
}

export function namedPools(spec: DefenderPolicySpec | undefined): NamedPools[] {
  const { limits = [], windows = [], freezes = [] } = spec ?? {};
  return Object.entries({ limits, windows, freezes }).flatMap(([field, entries]) =>
    entries.map(({ pools }, index) => ({ path: `spec.${field}[${index}].pools`, pools })),
  );
}
