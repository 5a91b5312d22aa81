/** A reader of DER that refuses everything that DER does not allow, so that no other reader can see something else in the same bytes. */

export interface DerElement {
  tag: number;
  content: Buffer;
  /** With tag and length. */
  whole: Buffer;
}

export const TAG = {
  integer: 0x02,
  bitString: 0x03,
  octetString: 0x04,
  oid: 0x06,
  boolean: 0x01,
  utf8: 0x0c,
  printable: 0x13,
  ia5: 0x16,
  sequence: 0x30,
  set: 0x31,
} as const;

/** Thrown for everything that is not read; the message names what, never the content of the bytes. */
export class DerError extends Error {}

function readOne(bytes: Buffer, at: number): DerElement {
  const tag = bytes[at];
  const first = bytes[at + 1];
  if (tag === undefined || first === undefined) throw new DerError('it ends too early');
  if ((tag & 0x1f) === 0x1f) throw new DerError('it has a tag of several bytes');
  let length = first;
  let begin = at + 2;
  if (first >= 0x80) {
    const count = first & 0x7f;
    if (count === 0 || count > 3) throw new DerError('it has a length that DER does not allow, or that is too long');
    length = 0;
    for (let index = 0; index < count; index++) length = length * 256 + (bytes[begin + index] ?? 0);
    begin += count;
    if (length < 0x80 || length < 256 ** (count - 1)) throw new DerError('it has a length that is not in its shortest form');
  }
  const end = begin + length;
  if (end > bytes.length) throw new DerError('it ends too early');
  return { tag, content: bytes.subarray(begin, end), whole: bytes.subarray(at, end) };
}

/** All elements that the bytes are made of. */
export function elementsOf(bytes: Buffer): DerElement[] {
  const found: DerElement[] = [];
  for (let at = 0; at < bytes.length;) {
    const element = readOne(bytes, at);
    found.push(element);
    at += element.whole.length;
  }
  return found;
}

/** The elements of one with this tag. */
export function inside(element: DerElement | undefined, tag: number, what: string): DerElement[] {
  return elementsOf(contentOf(element, tag, what));
}

export function contentOf(element: DerElement | undefined, tag: number, what: string): Buffer {
  if (element?.tag !== tag) throw new DerError(`${what} is missing or of another kind`);
  return element.content;
}

/** Dotted. */
export function oidOf(element: DerElement | undefined, what: string): string {
  const bytes = contentOf(element, TAG.oid, what);
  const parts: number[] = [];
  let value = 0;
  let fresh = true;
  for (const byte of bytes) {
    if (fresh && byte === 0x80) throw new DerError(`${what} is not in its shortest form`);
    value = value * 128 + (byte & 0x7f);
    if (value > Number.MAX_SAFE_INTEGER / 128) throw new DerError(`${what} is too large`);
    fresh = byte < 0x80;
    if (fresh) parts.push(value);
    if (fresh) value = 0;
  }
  const [head, ...rest] = parts;
  if (!fresh || head === undefined) throw new DerError(`${what} ends too early`);
  const top = Math.min(2, Math.floor(head / 40));
  return [top, head - top * 40, ...rest].join('.');
}

/** Of the kinds of text that are ASCII or UTF-8; a NUL or another control character is refused: some readers end there. */
export function textOf(element: DerElement | undefined, what: string): string {
  if (element === undefined || ![TAG.utf8, TAG.printable, TAG.ia5].some((tag) => tag === element.tag))
    throw new DerError(`${what} is no text of a kind that is read`);
  const text = element.content.toString('utf8');
  // eslint-disable-next-line no-control-regex -- they are what is searched for
  if (!Buffer.from(text, 'utf8').equals(element.content) || /[\u0000-\u001f\u007f]/.test(text))
    throw new DerError(`${what} contains characters that are not allowed`);
  // eslint-disable-next-line no-control-regex -- they are what is searched for
  if (element.tag !== TAG.utf8 && /[^\u0000-\u007f]/.test(text)) throw new DerError(`${what} contains characters that are not allowed`);
  return text;
}
