import { describe, expect, it } from 'vitest';
import type { UnitStatus } from '../api/cluster.ts';
import { haltOf, records, REMOVAL } from './records.ts';

const UNIT = 'MachineComponentSet/runtime';
const NOW = Date.UTC(2026, 0, 2);
const ago = (seconds: number): string => new Date(NOW - seconds * 1000).toISOString();

describe('E13: the record of a halt', () => {
  const held: UnitStatus = { unit: UNIT, fleet: 'main', digest: 'A', commit: 'c1', appliedAt: ago(60), retried: 'r1' };
  const halt = { digest: 'A', message: 'MaxFailed', since: ago(30) };
  const seen = { message: 'MaxFailed', refused: false, appliedAt: ago(60), retried: 'r1' };

  it.each<[string, Partial<UnitStatus>]>([
    ['other content', { digest: 'B' }],
    ['other content that has begun', { begun: 'B' }],
    ['the same content that was applied again since', { appliedAt: ago(10) }],
    ['a retry that was carried out since', { retried: 'r2' }],
  ])('is not written over %s', (_what, more) => {
    const record = { ...held, ...more };
    expect(records.halted('A', seen, ago(0))(record)).toBe(record);
  });

  it('reports since when it was seen first, and is no mere refusal any more where the cell halted it', () => {
    expect(records.halted('A', seen, ago(30))(held)?.halt).toEqual(halt);
    expect(records.halted('A', seen, ago(0))({ ...held, halt })?.halt).toEqual(halt);
    const refused = { ...held, halt: { ...halt, refused: true } };
    expect(records.halted('A', { ...seen, refused: true }, ago(0))(refused)).toBe(refused);
    expect(records.halted('A', seen, ago(0))(refused)?.halt).toEqual({ ...halt, since: ago(0) });
  });

  it('of other content than what is there counts for nothing, and is written over', () => {
    const other = { ...held, halt: { ...halt, digest: 'B' } };
    expect(haltOf(other)).toBeUndefined();
    expect(records.halted('A', seen, ago(30))(other)?.halt).toEqual(halt);
  });

  it('is lifted by no retry that was decided before another one was carried out', () => {
    const record = { ...held, halt };
    expect(records.retried('r0', undefined, true)(record)).toBe(record);
    expect(records.retried('r2', 'r1', false)(record)).toEqual({ ...record, retried: 'r2' });
    expect(records.retried('r2', 'r1', true)(record)).toEqual({ ...held, retried: 'r2' });
  });

  it('is lifted as the very one that was seen', () => {
    const record = { ...held, halt };
    expect(records.lifted('A', ago(40))(record)).toBe(record);
    expect(records.lifted('B', ago(30))(record)).toBe(record);
    expect(records.lifted('A', ago(30))(record)).toEqual(held);
  });

  it.each<[string, UnitStatus['halt'], boolean]>([
    ['a halt', halt, true],
    ['a refusal', { ...halt, refused: true }, false],
  ])('evidence leaves %s: %j → %s', (_what, its, lasts) => {
    const after = records.verified('A', 'c1', ago(0), ago(60))({ ...held, ...(its === undefined ? {} : { halt: its }) });
    expect(after?.halt !== undefined).toBe(lasts);
  });

  it.each<[string, string | undefined, string, string]>([
    ['for the first time', undefined, ago(0), ago(0)],
    ['later', ago(60), ago(0), ago(0)],
    ['at the same moment', ago(0), ago(0), new Date(Date.parse(ago(0)) + 1).toISOString()],
    ['after the clock was set back', ago(-60), ago(0), new Date(Date.parse(ago(-60)) + 1).toISOString()],
  ])('E17: what is begun %s bears a later time than all before', (_what, writtenAt, at, expected) => {
    const record = { ...held, ...(writtenAt === undefined ? {} : { writtenAt }) };
    const over = { digest: 'A', begun: undefined };
    const begin = (to: string) => records.begin('main', { to, lane: 'Forward', at }, over, [], () => true)(record);
    expect(begin('B').writtenAt).toBe(expected);
    // What is put back, or removed, is nothing new.
    expect(begin('A').writtenAt).toBe(writtenAt);
    expect(begin(REMOVAL).writtenAt).toBe(writtenAt);
  });

  it.each<[string, string, string, string]>([
    ['later than all that is recorded', ago(30), ago(0), ago(30)],
    ['later than now', ago(-60), new Date(Date.parse(ago(-60)) + 1).toISOString(), ago(-60)],
    ['before what is recorded', ago(100), ago(0), ago(60)],
    ['that is none', 'yesterday', ago(0), ago(60)],
    ['that no record can bear', '+020000-01-01T00:00:00.000Z', ago(0), ago(60)],
  ])('E17: what is begun over content with a time %s bears a later one', (_what, writtenAt, expected, kept) => {
    const record = { ...held, writtenAt: ago(60) };
    const over = { digest: 'A', begun: undefined };
    const begin = (to: string) => records.begin('main', { to, lane: 'Forward', at: ago(0), writtenAt }, over, [], () => true)(record);
    expect(begin('B').writtenAt).toBe(expected);
    expect([begin('A').writtenAt, begin(REMOVAL).writtenAt]).toEqual([kept, kept]);
  });

  it('E17: what is gone leaves when it was begun: what comes again bears a later time', () => {
    const removing = { ...held, writtenAt: ago(-60), begun: REMOVAL, removal: { lane: 'Forward' as const } };
    const gone = records.removed({ left: [], empties: false }, ago(0))(removing);
    expect(gone?.writtenAt).toBe(ago(-60));
    const over = { digest: undefined, begun: undefined };
    const again = records.begin('main', { to: 'B', lane: 'Forward', at: ago(0) }, over, [], () => true)(gone);
    expect(again.writtenAt).toBe(new Date(Date.parse(ago(-60)) + 1).toISOString());
  });

  it('stays where its content is put back, and goes with it', () => {
    const record = { ...held, halt };
    const over = { digest: 'A', begun: undefined };
    const begin = (to: string) => records.begin('main', { to, lane: 'Forward' }, over, [], () => true)(record);
    expect(begin('A').halt).toEqual(halt);
    expect(begin('B')).not.toHaveProperty('halt');
  });
});
