/*
 * Text that others wrote (a node, an agent, a cell, a server) reaches people's terminals, conditions and Events. It is made plain where it comes
 * in, again where it is copied, and once more where it is printed (docs/protocols.md#g7): no control characters, nothing that reorders or hides text,
 * one line, and not longer than the field that takes it.
 */

/** Length of a message in status, in characters. */
export const LONGEST_MESSAGE = 1024;
/** Length of a condition's message, in which controllers name many things; the schema of Machines has the same limit. */
export const LONGEST_CONDITION_MESSAGE = 8192;

const LINES = /[\t\n\v\f\r\u0085\u2028\u2029]+/g;
/** Control and format characters: the latter reorder text, or are not seen. */
const STRANGE = /[\p{Cc}\p{Cf}]/gu;
/** Also halves of characters, which no JSON may contain. */
const NOT_PLAIN = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/u;

/** One line in which every character is seen; what cannot be shown stands there as `\\u001b`. Cut at `limit` with an ellipsis. */
export function plainText(text: string, limit = LONGEST_MESSAGE): string {
  if (text.length <= limit && !NOT_PLAIN.test(text)) return text;
  // What is far too long is not read through.
  const plain = text
    .slice(0, limit + 1)
    .replaceAll(LINES, ' ')
    .replaceAll(STRANGE, visible)
    .toWellFormed();
  if (text.length <= limit && plain.length <= limit) return plain;
  const cut = plain.slice(0, limit - 1);
  // Not in the middle of a character.
  return `${cut.isWellFormed() ? cut : cut.slice(0, -1)}…`;
}

/** The same of every string in a value. What is plain already is returned as it is, not copied. */
export function plainTexts<T>(value: T, limit = LONGEST_MESSAGE): T {
  return plainOf(value, limit) as T;
}

function plainOf(value: unknown, limit: number): unknown {
  if (typeof value === 'string') return plainText(value, limit);
  if (value === null || typeof value !== 'object') return value;
  if (Array.isArray(value)) {
    const plain = value.map((each) => plainOf(each, limit));
    return plain.some((each, index) => each !== value[index]) ? plain : value;
  }
  let changed: [string, unknown][] | undefined;
  for (const [key, each] of Object.entries(value)) {
    const plain = plainOf(each, limit);
    if (plain !== each) (changed ??= []).push([key, plain]);
  }
  return changed === undefined ? value : { ...value, ...Object.fromEntries(changed) };
}

/** What is printed to a terminal, of many lines. `format`: characters that reorder or hide text too. In JSON the value stays the same. */
export function plainOutput(text: string, { format }: { format: boolean }): string {
  return text.replaceAll(format ? STRANGE : /\p{Cc}/gu, (found) => (found === '\n' || found === '\t' ? found : visible(found)));
}

/** As JSON has it. */
function visible(found: string): string {
  let out = '';
  for (let index = 0; index < found.length; index++) out += `\\u${found.charCodeAt(index).toString(16).padStart(4, '0')}`;
  return out;
}
