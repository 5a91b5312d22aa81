import { describe, expect, it } from 'vitest';
import type { CodedError } from '../../api/errors.ts';
import { infoOf, isOid, parseCommit, short, splitCommit } from './commit.ts';

const OID = 'c'.repeat(40);
const TREE = 'a'.repeat(40);
const [P1, P2] = ['1'.repeat(40), '2'.repeat(40)];
const PERSON = 'Ada Lovelace <ada@example.com> 1767225600 +0000';
const raw = (...lines: string[]): Buffer => Buffer.from(`${lines.join('\n')}\n\nsubject\n\nbody\n`);
const parse = (...lines: string[]) => parseCommit(OID, raw(...lines));

function refusal(act: () => unknown): CodedError {
  try {
    act();
  } catch (error) {
    return error as CodedError;
  }
  throw new Error('it was accepted');
}

describe('the head of a commit', () => {
  it('is read by position', () => {
    const commit = parse(`tree ${TREE}`, `parent ${P1}`, `parent ${P2}`, `author ${PERSON}`, `committer ${PERSON.replace('Ada', 'Eve')}`);
    expect(commit).toEqual({
      oid: OID,
      tree: TREE,
      parents: [P1, P2],
      author: 'Ada Lovelace',
      committer: 'Eve Lovelace <ada@example.com>',
      time: '2026-01-01T00:00:00Z',
      timeMs: Date.UTC(2026, 0, 1),
      subject: 'subject',
    });
    expect(infoOf(commit)).toEqual({ oid: OID, author: 'Ada Lovelace', time: '2026-01-01T00:00:00Z', subject: 'subject' });
  });

  it.each<[string, string[], string]>([
    ['without a tree', [`parent ${P1}`, `author ${PERSON}`, `committer ${PERSON}`], 'does not begin with its tree'],
    ['with a tree that is no id', ['tree 123', `author ${PERSON}`, `committer ${PERSON}`], 'does not begin with its tree'],
    ['with a tree that is not the first', [`author ${PERSON}`, `tree ${TREE}`, `committer ${PERSON}`], 'does not begin with its tree'],
    ['with an id in capitals', [`tree ${TREE.toUpperCase()}`, `author ${PERSON}`, `committer ${PERSON}`], 'does not begin with its tree'],
    [
      'with a parent that is no id',
      [`tree ${TREE}`, 'parent main', `author ${PERSON}`, `committer ${PERSON}`],
      'names a parent that is not an id',
    ],
    [
      'with two trees',
      [`tree ${TREE}`, `tree ${TREE}`, `author ${PERSON}`, `committer ${PERSON}`],
      'lacks author or committer after its parents',
    ],
    ['without an author', [`tree ${TREE}`, `committer ${PERSON}`], 'lacks author or committer after its parents'],
    ['without a committer', [`tree ${TREE}`, `author ${PERSON}`], 'lacks author or committer after its parents'],
    [
      'with something before its author',
      [`tree ${TREE}`, 'x y', `author ${PERSON}`, `committer ${PERSON}`],
      'lacks author or committer after its parents',
    ],
  ])('%s is refused', (_, lines, why) => {
    expect(refusal(() => parse(...lines))).toMatchObject({ code: 'CommitMalformed', message: `commit cccccccccc ${why}` });
  });

  it('without an end is refused', () => {
    const endless = Buffer.from(`tree ${TREE}\nauthor ${PERSON}\ncommitter ${PERSON}\n`);
    for (const act of [() => parseCommit(OID, endless), () => splitCommit(OID, endless)])
      expect(refusal(act)).toMatchObject({ code: 'CommitMalformed', message: 'commit cccccccccc has no end of its header' });
  });

  it('counts no parent that stands further down', () => {
    expect(parse(`tree ${TREE}`, `author ${PERSON}`, `committer ${PERSON}`, `parent ${P1}`).parents).toEqual([]);
  });

  it('takes nothing of the message for its own', () => {
    const text = `tree ${TREE}\nauthor ${PERSON}\n\ncommitter ${PERSON}\n`;
    expect(refusal(() => parseCommit(OID, Buffer.from(text)))).toMatchObject({ code: 'CommitMalformed' });
  });

  it.each([
    ['Ada <a@b> 1767225600 +0000', Date.UTC(2026, 0, 1)],
    ['Ada <a@b> 1767225600 -0330', Date.UTC(2026, 0, 1)],
    ['Ada <a@b>', 0],
    ['Ada <a@b> -5 +0000', 0],
    ['Ada <a@b> 8640000000000 +0000', 0],
    ['Ada <a@b> 999999999999 +0000', 999_999_999_999_000],
    ['Ada <a@b> 1767225600 +0000 x', 0],
  ])('the time of %s', (person, timeMs) => {
    expect(parse(`tree ${TREE}`, `author ${PERSON}`, `committer ${person}`).timeMs).toBe(timeMs);
  });

  it('is fit to print: one line, bounded, without what a terminal obeys', () => {
    const author = `${'x'.repeat(200)}\u001b[2J <a@b> 1 +0000`;
    const lines = [`tree ${TREE}`, `author ${author}`, `committer Ev\u202ee <a@b> 1 +0000`];
    const commit = parseCommit(OID, Buffer.from(`${lines.join('\n')}\n\n\n\n\u001b]0;x\u0007first\nsecond`));
    expect(commit.author).toBe(`${'x'.repeat(99)}…`);
    expect(commit.committer).toBe('Ev e <a@b>');
    expect(commit.subject).toBe(']0;x first');
  });

  it('of a person without an address has no name', () => {
    const commit = parse(`tree ${TREE}`, 'author nobody', 'committer nobody');
    expect([commit.author, commit.committer]).toEqual(['', '']);
  });
});

describe('what is signed', () => {
  const head = [`tree ${TREE}`, `author ${PERSON}`, `committer ${PERSON}`];

  it('is everything but the signature, byte for byte', () => {
    const whole = raw(...head, 'gpgsig one', ' two', ' ', ' three', 'encoding x', ' folded');
    const { payload, signature } = splitCommit(OID, whole);
    expect(signature).toBe('one\ntwo\n\nthree\n');
    expect(payload.toString()).toBe(raw(...head, 'encoding x', ' folded').toString());
  });

  it('is everything where there is no signature', () => {
    expect(splitCommit(OID, raw(...head))).toEqual({ payload: raw(...head), signature: undefined });
    expect(splitCommit(OID, raw(...head, 'x gpgsig')).signature).toBeUndefined();
    expect(splitCommit(OID, Buffer.concat([raw(...head), Buffer.from('gpgsig one\n')])).signature).toBeUndefined();
  });

  it.each([
    [['gpgsig one', 'gpgsig two'], 'has more than one signature'],
    [['gpgsig-sha256 one'], 'carries a second signature (gpgsig-sha256), which the first does not cover'],
    [['gpgsig one', 'x y', 'gpgsig two'], 'has more than one signature'],
  ])('%s is refused', (lines, why) => {
    expect(refusal(() => splitCommit(OID, raw(...head, ...lines)))).toMatchObject({
      code: 'CommitMalformed',
      message: `commit cccccccccc ${why}`,
    });
  });
});

it('an id has 40 digits in lower case, and is shown by ten', () => {
  expect([TREE, TREE.slice(1), `${TREE}a`, `g${TREE.slice(1)}`, TREE.toUpperCase(), '', `${TREE}\n`].map(isOid)).toEqual([
    true,
    false,
    false,
    false,
    false,
    false,
    false,
  ]);
  expect(short('0123456789abcdef')).toBe('0123456789');
});
