import { describe, expect, test } from 'vitest';
import { nextOpen, once, recurring } from './calendar.ts';
import { instantsOf, isTimeZone, parseWall, wallOf, zonedText } from './zoned-time.ts';

const ms = (text: string): number => Date.parse(text);
const iso = (instant: number | undefined): string | undefined =>
  instant === undefined ? undefined : new Date(instant).toISOString().slice(0, 16);
const HOUR = 3_600_000;

/** Each switch day, with the UTC instant of the switch. */
const SPRING = [
  ['Europe/Berlin', '2026-03-29', '2026-03-29T01:00Z'],
  ['America/New_York', '2026-03-08', '2026-03-08T07:00Z'],
] as const;
const AUTUMN = [
  // The hour from here to the switch is shown twice; windows of the table start at its half.
  ['Europe/Berlin', '2026-10-25', '02:30', '2026-10-25T00:30Z'],
  ['America/New_York', '2026-11-01', '01:30', '2026-11-01T05:30Z'],
] as const;

describe('wall time', () => {
  test.each(SPRING)('%s: an hour that is skipped on %s is the moment of the jump', (zone, day, jump) => {
    const skipped = instantsOf(parseWall(`${day}T02:30`) ?? 0, zone);
    expect(skipped).toEqual({ first: ms(jump), last: ms(jump) });
    expect(instantsOf(parseWall(`${day}T03:00`) ?? 0, zone).first).toBe(ms(jump));
  });

  test.each(AUTUMN)('%s: an hour that is repeated on %s is there twice', (zone, day, at, first) => {
    expect(instantsOf(parseWall(`${day}T${at}`) ?? 0, zone)).toEqual({ first: ms(first), last: ms(first) + HOUR });
  });

  test('there and back again in each half hour of a year, in zones with and without half hours', () => {
    for (const zone of ['Europe/Berlin', 'America/New_York', 'Asia/Shanghai', 'Australia/Lord_Howe', 'Asia/Kathmandu'])
      for (let at = ms('2026-01-01T00:00Z'); at < ms('2027-01-01T00:00Z'); at += 5.5 * HOUR) {
        const { first, last } = instantsOf(wallOf(at, zone), zone);
        expect([first, last]).toContain(at);
      }
  });

  test('zones are names of the IANA database', () => {
    expect(['Europe/Berlin', 'UTC', 'Asia/Shanghai'].every(isTimeZone)).toBe(true);
    expect(['+01:00', 'Mars/Olympus', '', 'Europe'].some(isTimeZone)).toBe(false);
  });

  test('is read strictly', () => {
    expect(parseWall('2026-02-29T00:00')).toBeUndefined();
    expect(parseWall('2026-02-28')).toBeUndefined();
    expect(parseWall('2026-02-28T24:00')).toBeUndefined();
    expect(parseWall('2026-02-28T23:59')).toBe(ms('2026-02-28T23:59Z'));
  });

  test('is written in the zone and in UTC', () => {
    expect(zonedText(ms('2026-11-21T01:00Z'), 'Europe/Berlin')).toBe('2026-11-21 02:00 Europe/Berlin (2026-11-21T01:00:00Z)');
  });
});

describe('a window', () => {
  const nightly = (timeZone: string, at: string, durationMinutes = 60) => {
    const [hour, minute] = at.split(':').map(Number);
    return recurring({ timeZone, schedule: `${minute} ${hour} * * *`, durationMinutes }, 'Once');
  };

  test.each(SPRING)('%s: one that starts in the hour skipped on %s opens at the jump, for its whole duration', (zone, day, jump) => {
    const window = nightly(zone, '02:30');
    expect(iso(window.next(ms(jump) - HOUR))).toBe(iso(ms(jump)));
    expect(window.at(ms(jump) - 1)).toBeUndefined();
    expect(window.at(ms(jump))).toEqual({ from: ms(jump), until: ms(jump) + HOUR });
    expect(window.at(ms(jump) + HOUR)).toBeUndefined();
    // The days around it are as always.
    expect(iso(window.next(ms(`${day}T12:00Z`)))).toBe(iso(instantsOf(ms(`${day}T02:30Z`) + 24 * HOUR, zone).first));
  });

  test.each(AUTUMN)('%s: one that starts in the hour repeated on %s opens once, at %s the first time', (zone, _, at, first) => {
    const window = nightly(zone, at, 20);
    expect(iso(window.next(ms(first) - 10))).toBe(iso(ms(first)));
    expect(window.at(ms(first) + 19 * 60_000)).toBeDefined();
    expect(window.at(ms(first) + HOUR)).toBeUndefined();
    expect(window.next(ms(first))).toBe(ms(first) + 25 * HOUR);
  });

  test.each([...SPRING.map(([zone, , jump]) => [zone, jump] as const), ...AUTUMN.map(([zone, , , first]) => [zone, first] as const)])(
    '%s: one that is open over the switch at %s lasts for its duration',
    (zone, around) => {
      const window = recurring({ timeZone: zone, schedule: '0 22 * * *', durationMinutes: 480 }, 'Once');
      const span = window.at(ms(around));
      expect(span).toBeDefined();
      expect((span?.until ?? 0) - (span?.from ?? 0)).toBe(8 * HOUR);
    },
  );

  test('that follows on another without a gap is one span', () => {
    const window = recurring({ timeZone: 'UTC', schedule: '0 0,2 * * 1', durationMinutes: 120 }, 'Once');
    expect(window.at(ms('2026-11-23T03:00Z'))).toMatchObject({ until: ms('2026-11-23T04:00Z') });
    expect(window.at(ms('2026-11-23T00:00Z'))).toEqual({ from: ms('2026-11-23T00:00Z'), until: ms('2026-11-23T04:00Z') });
    expect(window.at(ms('2026-11-23T04:00Z'))).toBeUndefined();
  });

  test('is asked in any order and answers alike', () => {
    const asked = recurring({ timeZone: 'Europe/Berlin', schedule: '0 1 * * *', durationMinutes: 240 }, 'Once');
    for (let round = 0; round < 200; round++) {
      const at = ms('2026-03-20T00:00Z') + ((round * 7919) % (20 * 24)) * HOUR;
      const fresh = recurring({ timeZone: 'Europe/Berlin', schedule: '0 1 * * *', durationMinutes: 240 }, 'Once');
      expect([iso(asked.next(at)), iso(asked.at(at)?.until)]).toEqual([iso(fresh.next(at)), iso(fresh.at(at)?.until)]);
    }
  });

  test('that never comes has no start', () => {
    const never = recurring({ timeZone: 'UTC', schedule: '0 0 30 2 *', durationMinutes: 5 }, 'Once');
    expect(never.next(0)).toBeUndefined();
    expect(never.at(0)).toBeUndefined();
  });
});

describe('a freeze', () => {
  test.each(AUTUMN)('%s: that starts in the hour repeated on %s closes both times', (zone, _, at, first) => {
    const [hour, minute] = at.split(':').map(Number);
    const freeze = recurring({ timeZone: zone, schedule: `${minute} ${hour} * * *`, durationMinutes: 20 }, 'Twice');
    expect([0, 19, 20, 60, 79, 80].map((minutes) => freeze.at(ms(first) + minutes * 60_000) !== undefined)).toEqual([
      true,
      true,
      false,
      true,
      true,
      false,
    ]);
    expect(freeze.next(ms(first))).toBe(ms(first) + HOUR);
    expect(freeze.next(ms(first) + HOUR)).toBe(ms(first) + 25 * HOUR);
  });

  test('by date goes from the first to the last time its clocks show', () => {
    const freeze = once({ timeZone: 'Europe/Berlin', from: '2026-10-25T02:00', until: '2026-10-25T02:30' });
    expect([iso(freeze.from), iso(freeze.until)]).toEqual(['2026-10-25T00:00', '2026-10-25T01:30']);
    const spring = once({ timeZone: 'Europe/Berlin', from: '2026-03-29T02:10', until: '2026-03-29T02:50' });
    expect(spring.from).toBe(spring.until);
  });
});

describe('what is open next', () => {
  const windows = [recurring({ timeZone: 'UTC', schedule: '0 2 * * *', durationMinutes: 60 }, 'Once')];
  const freezes = [once({ timeZone: 'UTC', from: '2026-11-20T00:00', until: '2026-11-22T02:30' })];

  test('is now, the next window, or what a freeze leaves of one', () => {
    expect(iso(nextOpen(ms('2026-11-19T02:10Z'), { windows, freezes }, 9 * 24 * HOUR))).toBe('2026-11-19T02:10');
    expect(iso(nextOpen(ms('2026-11-19T03:00Z'), { windows, freezes: [] }, 9 * 24 * HOUR))).toBe('2026-11-20T02:00');
    expect(iso(nextOpen(ms('2026-11-19T03:00Z'), { windows, freezes }, 9 * 24 * HOUR))).toBe('2026-11-22T02:30');
    expect(iso(nextOpen(ms('2026-11-21T03:00Z'), { windows: [], freezes }, 9 * 24 * HOUR))).toBe('2026-11-22T02:30');
  });

  test('is nothing where freezes take it all', () => {
    const always = [recurring({ timeZone: 'UTC', schedule: '* * * * *', durationMinutes: 1 }, 'Twice')];
    expect(nextOpen(ms('2026-11-19T03:00Z'), { windows, freezes: always }, 366 * 24 * HOUR)).toBeUndefined();
    expect(nextOpen(ms('2026-11-19T03:00Z'), { windows, freezes }, HOUR)).toBeUndefined();
  });
});
