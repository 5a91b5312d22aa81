/** What a schema cannot express of a DefenderPolicy. Pure and without a clock: a policy that is fine today is fine for ever. */
import { messageOf } from './errors.ts';
import { nextOpen, once, parseSchedule, recurring, type Calendar } from './calendar.ts';
import type { FieldError } from './kind.ts';
import { isTimeZone, parseWall } from './zoned-time.ts';

interface Scoped {
  name: string;
  classes?: readonly string[] | undefined;
  pools?: readonly string[] | undefined;
}
interface Window extends Scoped {
  timeZone: string;
  schedule: string;
  durationMinutes: number;
}
interface Freeze extends Scoped {
  timeZone: string;
  from?: string | undefined;
  until?: string | undefined;
  schedule?: string | undefined;
  durationMinutes?: number | undefined;
}
interface Limit extends Scoped {
  scope: string;
  conditions?: readonly string[] | undefined;
  maxUnavailable?: unknown;
  maxConcurrent?: number | undefined;
  maxPerHour?: number | undefined;
  maxPerDay?: number | undefined;
  minIntervalSeconds?: number | undefined;
}
interface Spec {
  limits: readonly Limit[];
  windows?: readonly Window[] | undefined;
  freezes?: readonly Freeze[] | undefined;
  actions?: readonly { selector: Readonly<Record<string, string>> }[] | undefined;
  breaker?: { unavailableAbove: number | string } | undefined;
}

/** The classes of windows, freezes, rates and intervals that name no classes: Restore, which outranks all others, waits for none of them. */
export const ALL_BUT_RESTORE = ['Change', 'Repair', 'Delete'] as const;

export const YEAR_MS = 366 * 86_400_000;
/** Schedules are checked over a year that has every day there is. */
const REFERENCE_MS = Date.UTC(2024, 0, 1);

/** The calendar of a window that passed its check. Throws for one that would not. */
export const calendarOfWindow = (window: Window): Calendar => recurring(window, 'Once');

/** The calendar of a freeze that passed its check. Throws for one that would not. */
export function calendarOfFreeze({ timeZone, from, until, schedule, durationMinutes }: Freeze): Calendar {
  return schedule === undefined
    ? once({ timeZone, from: from ?? '', until: until ?? '' })
    : recurring({ timeZone, schedule, durationMinutes: durationMinutes ?? 0 }, 'Twice');
}

export const isFor = (each: Scoped, asked: string, pool: string): boolean =>
  (each.classes ?? ALL_BUT_RESTORE).includes(asked) && (each.pools?.includes(pool) ?? true);

export function policyErrors(spec: Spec): FieldError[] {
  const windows = spec.windows ?? [];
  const freezes = spec.freezes ?? [];
  const spans = [
    ...windows.flatMap((window, index) => windowErrors(window, `spec.windows[${index}]`)),
    ...freezes.flatMap((freeze, index) => freezeErrors(freeze, `spec.freezes[${index}]`)),
  ];
  return [
    ...twice('spec.limits', spec.limits),
    ...spec.limits.flatMap((limit, index) => limitErrors(limit, `spec.limits[${index}]`)),
    ...twice('spec.windows', windows),
    ...twice('spec.freezes', freezes, windows),
    ...spans,
    // What is left of the windows is known once each of them can be read.
    ...(spans.length > 0 ? [] : freezes.flatMap((freeze, index) => smothered(freeze, `spec.freezes[${index}]`, windows, freezes))),
    ...actionErrors(spec.actions ?? []),
    ...(spec.breaker?.unavailableAbove === '100%'
      ? [{ path: 'spec.breaker.unavailableAbove', message: 'must be below "100%": more than all machines are never unavailable' }]
      : []),
  ];
}

function twice(path: string, list: readonly Scoped[], before: readonly Scoped[] = []): FieldError[] {
  const taken = new Set(before.map((each) => each.name));
  return list.flatMap(({ name }, index) => {
    if (!taken.has(name)) {
      taken.add(name);
      return [];
    }
    return [{ path: `${path}[${index}].name`, message: `"${name}" is there twice; give each a name of its own` }];
  });
}

function limitErrors(limit: Limit, path: string): FieldError[] {
  const errors: FieldError[] = [];
  const { maxUnavailable, maxConcurrent, maxPerHour, maxPerDay, minIntervalSeconds } = limit;
  if ([maxUnavailable, maxConcurrent, maxPerHour, maxPerDay, minIntervalSeconds].every((measure) => measure === undefined))
    errors.push({
      path,
      message: 'limits nothing; set at least one of maxUnavailable, maxConcurrent, maxPerHour, maxPerDay, minIntervalSeconds',
    });
  if (limit.scope === 'Cluster' && limit.pools !== undefined)
    errors.push({ path: `${path}.pools`, message: 'must not be set for scope "Cluster"' });
  if (limit.conditions !== undefined && limit.scope !== 'Condition')
    errors.push({
      path: `${path}.conditions`,
      message: `must not be set for scope "${limit.scope}"; only scope "Condition" has conditions`,
    });
  if (limit.scope === 'Condition' && limit.classes?.includes('Repair') === false)
    errors.push({
      path: `${path}.classes`,
      message: 'must name "Repair" for scope "Condition": only repairs are asked for by a condition',
    });
  if (maxPerHour !== undefined && maxPerDay !== undefined && maxPerHour > maxPerDay)
    errors.push({
      path: `${path}.maxPerHour`,
      message: `must not be above maxPerDay (${maxPerDay}), got ${maxPerHour}: it would never be reached`,
    });
  return errors;
}

const zoneErrors = (timeZone: string, path: string): FieldError[] =>
  isTimeZone(timeZone)
    ? []
    : [{ path: `${path}.timeZone`, message: `must be a name of the IANA database, such as "Europe/Berlin" or "UTC", got "${timeZone}"` }];

function scheduleErrors(schedule: string, path: string, what: string): FieldError[] {
  try {
    if (parseSchedule(schedule).nextRun(new Date(REFERENCE_MS)) !== null) return [];
    return [{ path: `${path}.schedule`, message: `${what} never: no day fits "${schedule}"` }];
  } catch (error) {
    const why = messageOf(error).replace(/^CronPattern: /, '');
    return [{ path: `${path}.schedule`, message: `must be a cron of five fields, such as "0 2 * * 1-5", got "${schedule}": ${why}` }];
  }
}

const windowErrors = (window: Window, path: string): FieldError[] => [
  ...zoneErrors(window.timeZone, path),
  ...scheduleErrors(window.schedule, path, 'opens'),
];

function freezeErrors(freeze: Freeze, path: string): FieldError[] {
  const { from, until, schedule, durationMinutes } = freeze;
  const errors = zoneErrors(freeze.timeZone, path);
  const dated = from !== undefined && until !== undefined && schedule === undefined && durationMinutes === undefined;
  const repeated = schedule !== undefined && durationMinutes !== undefined && from === undefined && until === undefined;
  if (!dated && !repeated) return [...errors, { path, message: 'must have either from and until, or schedule and durationMinutes' }];
  if (repeated) return [...errors, ...scheduleErrors(schedule, path, 'begins')];
  if (!dated) return errors;
  for (const [field, text] of [
    ['from', from],
    ['until', until],
  ] as const)
    if (parseWall(text) === undefined)
      errors.push({ path: `${path}.${field}`, message: `must be a day and a time such as "2026-11-11T00:00", got "${text}"` });
  if (errors.length > 0) return errors;
  const span = once({ timeZone: freeze.timeZone, from, until });
  return span.until > span.from ? [] : [{ path: `${path}.until`, message: `must be after from ("${from}"), got "${until}"` }];
}

/** A freeze that, with the others, leaves no time for a year to a class that it closes. To close permanently, use a limit of 0 or a Freeze. */
function smothered(freeze: Freeze, path: string, windows: readonly Window[], freezes: readonly Freeze[]): FieldError[] {
  const begin = freeze.schedule === undefined ? (calendarOfFreeze(freeze).next(0) ?? 0) : REFERENCE_MS;
  // A pool that nothing names, and each that something does.
  const pools = new Set(['', ...[...windows, ...freezes].flatMap((each) => each.pools ?? [])]);
  for (const asked of freeze.classes ?? ALL_BUT_RESTORE)
    for (const pool of freeze.pools ?? pools) {
      const open = windows.filter((each) => isFor(each, asked, pool)).map(calendarOfWindow);
      const closed = freezes.filter((each) => isFor(each, asked, pool)).map(calendarOfFreeze);
      if (nextOpen(begin, { windows: open, freezes: [] }, YEAR_MS) === undefined) continue;
      if (nextOpen(begin, { windows: open, freezes: closed }, YEAR_MS) !== undefined) continue;
      return [
        {
          path,
          message: `leaves ${windows.length === 0 ? 'no time' : 'no time in any window'} for ${asked} within a year; shorten it, or forbid it by a limit with maxConcurrent 0`,
        },
      ];
    }
  return [];
}

function actionErrors(actions: readonly { selector: Readonly<Record<string, string>> }[]): FieldError[] {
  const seen = new Set<string>();
  return actions.flatMap(({ selector }, index) => {
    const path = `spec.actions[${index}].selector`;
    const entries = Object.entries(selector);
    if (entries.length === 0) return [{ path, message: 'is empty and matches nothing; name at least one label' }];
    const key = entries
      .map(([label, value]) => `${label}=${value}`)
      .toSorted()
      .join(',');
    if (seen.has(key)) return [{ path, message: `is there twice (${key}); name in one entry what is allowed` }];
    seen.add(key);
    return [];
  });
}
