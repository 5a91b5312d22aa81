/**
 * The formats of strings that kube-apiserver 1.34 enforces in CRDs. It accepts others as annotations, and so does this server: also formats of
 * numbers (int32), and the formats of names that its next release enforces.
 */
import { isIPv6 } from 'node:net';
import { isEmail, isRequestUri } from './addresses.ts';

const RFC3339 = /^\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(\.\d+)?([Zz]|[+-]\d{2}:\d{2})$/;
const MICRO_TIME = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{6}(Z|[+-]\d{2}:\d{2})$/;
const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

/** What Go reads into a field of a built-in kind: of its own types, not by the rules for CRDs. */
export const isTime = (value: string): boolean => RFC3339.test(value) && !Number.isNaN(Date.parse(value));
/** Times of microseconds are written with six digits, and read only so. */
export const isMicroTime = (value: string): boolean => MICRO_TIME.test(value) && !Number.isNaN(Date.parse(value));
export const isBytes = (value: string): boolean => BASE64.test(value);

function isDate(value: string): boolean {
  const found = /^(\d{4})-(\d{2})-(\d{2})$/.exec(value);
  if (found === null) return false;
  const [year, month, day] = found.slice(1).map(Number);
  if (year === undefined || month === undefined || day === undefined || month < 1 || month > 12 || day < 1) return false;
  const isLeap = year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0);
  return day <= (month === 2 ? (isLeap ? 29 : 28) : [4, 6, 9, 11].includes(month) ? 30 : 31);
}

function isDateTime(value: string): boolean {
  const [date = '', time = ''] = value.toLowerCase().split('t', 2);
  const found = /^(\d{2}):(\d{2}):(\d{2})(.\d+)?(z|[+-]\d{2}:\d{2})$/u.exec(time);
  const [, hour = '', minute = '', second = ''] = found ?? [];
  return isDate(date) && found !== null && hour <= '23' && minute <= '59' && second <= '59';
}

const UNITS = [
  ['ns', 'nano'],
  ['us', 'µs', 'micro'],
  ['ms', 'milli'],
  ['s', 'sec'],
  ['m', 'min'],
  ['h', 'hr', 'hour'],
  ['d', 'day'],
  ['w', 'wk', 'week'],
];

/** As Go writes durations, or any text with one in the words of Scala: "2 hours". */
function isDuration(value: string): boolean {
  if (/^[-+]?(?:0|(?:(?:\d+(?:\.\d*)?|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+)$/.test(value)) return true;
  let isFound = false;
  for (const [, count = '', letters = ''] of value.matchAll(/(\d+)[\t\n\f\r ]*([A-Za-zµ]*)/g)) {
    if (letters === '') continue;
    if (count.length > 1000 || BigInt(count) > 9_223_372_036_854_775_807n) return false;
    const unit = letters.toLowerCase();
    isFound ||= UNITS.some((variants) => variants.includes(unit) || unit.startsWith(variants.at(-1) ?? ''));
  }
  return isFound;
}

/** Leading zeros are read past, as Go before 1.17 did. */
function isDotted(value: string): boolean {
  const parts = value.split('.', 5);
  return parts.length === 4 && parts.every((part) => /^0*\d{1,3}$/.test(part) && Number(part) <= 255);
}

function isColoned(value: string): boolean {
  if (value.includes('%')) return false;
  const tail = value.lastIndexOf(':') + 1;
  const plain = tail > 0 && isDotted(value.slice(tail)) ? `${value.slice(0, tail)}1.1.1.1` : value;
  return isIPv6(plain);
}

function isCidr(value: string): boolean {
  const slash = value.indexOf('/');
  const address = value.slice(0, slash);
  const bits = value.slice(slash + 1);
  if (slash < 0 || !/^0*\d{1,3}$/.test(bits)) return false;
  return isDotted(address) ? Number(bits) <= 32 : isColoned(address) && Number(bits) <= 128;
}

function isMac(value: string): boolean {
  const pairs = /^[0-9a-f]{2}([:-])[0-9a-f]{2}(?:\1[0-9a-f]{2}){4}(?:(?:\1[0-9a-f]{2}){2}|(?:\1[0-9a-f]{2}){14})?$/i;
  const fours = /^[0-9a-f]{4}(?:\.[0-9a-f]{4}){2}(?:\.[0-9a-f]{4}|(?:\.[0-9a-f]{4}){7})?$/i;
  return pairs.test(value) || fours.test(value);
}

const LETTER = String.raw`a-zA-Z0-9\p{S}\p{L}`;
const HOSTNAME = new RegExp(
  String.raw`^(?:[${LETTER}](?:-?[${LETTER}]{0,62})?|(?:[${LETTER}](?:[${LETTER}\-]{0,61}[${LETTER}])?\.)+[a-zA-Z\p{L}]{2,63})$`,
  'u',
);

function isHostname(value: string): boolean {
  const bytes = (text: string): number => Buffer.byteLength(text);
  return value.length <= 255 && bytes(value) <= 255 && HOSTNAME.test(value) && value.split('.').every((part) => bytes(part) <= 63);
}

const digitSum = (digits: string, weigh: (digit: number, index: number) => number): number =>
  Array.from(digits).reduce((sum, digit, index) => sum + weigh(digit === 'X' ? 10 : Number(digit), index), 0);

/** Longer texts are no numbers here, so that matching their digits costs little. */
const MAX_DIGITS = 65_536;

const without = (apart: RegExp, value: string): string => (value.length > MAX_DIGITS ? '' : value.replaceAll(apart, ''));

function isIsbn10(value: string): boolean {
  const digits = without(/[\t\n\f\r -]+/g, value);
  return /^\d{9}[\dX]$/.test(digits) && digitSum(digits, (digit, index) => (index + 1) * digit) % 11 === 0;
}

function isIsbn13(value: string): boolean {
  const digits = without(/[\t\n\f\r -]+/g, value);
  return /^\d{13}$/.test(digits) && digitSum(digits, (digit, index) => (index % 2 === 0 ? 1 : 3) * digit) % 10 === 0;
}

const CARD = /^(?:4\d{12}(?:\d{3})?|5[1-5]\d{14}|6(?:011|5\d\d)\d{12}|3[47]\d{13}|3(?:0[0-5]|[68]\d)\d{11}|(?:2131|1800|35\d{3})\d{11})$/;

function isCreditCard(value: string): boolean {
  const digits = without(/\D+/g, value);
  const weigh = (digit: number, index: number) => ((digits.length - index) % 2 === 1 ? digit : digit < 5 ? 2 * digit : 2 * digit - 9);
  return CARD.test(digits) && digitSum(digits, weigh) % 10 === 0;
}

const matching =
  (pattern: RegExp) =>
  (value: string): boolean =>
    pattern.test(value);

const PART = String.raw`(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])`;

const CHECKS: Record<string, (value: string) => boolean> = {
  bsonobjectid: matching(/^[0-9a-f]{24}$/i),
  uri: isRequestUri,
  email: isEmail,
  hostname: isHostname,
  ipv4: (value) => isDotted(value) || (value.includes('.') && isColoned(value)),
  // Leading zeros are an error only here.
  ipv6: (value) => !value.includes('%') && isIPv6(value),
  cidr: isCidr,
  mac: isMac,
  uuid: matching(/^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$/i),
  uuid3: matching(/^[0-9a-f]{8}-?[0-9a-f]{4}-?3[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12}$/i),
  uuid4: matching(/^[0-9a-f]{8}-?[0-9a-f]{4}-?4[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$/i),
  uuid5: matching(/^[0-9a-f]{8}-?[0-9a-f]{4}-?5[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$/i),
  isbn: (value) => isIsbn10(value) || isIsbn13(value),
  isbn10: isIsbn10,
  isbn13: isIsbn13,
  creditcard: isCreditCard,
  ssn: (value) => value.length === 11 && /^\d{3}[- ]?\d{2}[- ]?\d{4}$/.test(value),
  hexcolor: matching(/^#?([0-9a-f]{3}|[0-9a-f]{6})$/i),
  rgbcolor: matching(
    new RegExp(String.raw`^rgb\([\t\n\f\r ]*${[PART, PART, PART].join(String.raw`[\t\n\f\r ]*,[\t\n\f\r ]*`)}[\t\n\f\r ]*\)$`),
  ),
  // No bytes at all are none to it.
  byte: (value) => value !== '' && isBytes(value),
  password: () => true,
  date: isDate,
  duration: isDuration,
  datetime: isDateTime,
};

/** Whether a string has a format; dashes in the format's name do not count. */
export function satisfies(format: string, value: string): boolean {
  const name = format.replaceAll('-', '');
  return !Object.hasOwn(CHECKS, name) || (CHECKS[name]?.(value) ?? true);
}
