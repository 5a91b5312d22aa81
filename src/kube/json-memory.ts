const [QUOTE, COMMA, BRACKET, BACKSLASH, BRACE] = [0x22, 0x2c, 0x5b, 0x5c, 0x7b];

/**
 * Bytes for each `{`, `[` and `,` outside of texts. Each value of JSON but the outermost follows one of these, or a key that does, and each key does.
 * The most that V8 was seen to make of one is 164 to 190: `{"30":1},` is an object with a sparse array of its own (json-memory.test.ts).
 */
const EACH = 192;
/** For each character, as it is or in a text of its own: a single one above U+00FF makes each of its text take two bytes. */
const CHARACTER = 2;

/**
 * How much memory `JSON.parse` makes of a text at most, in bytes. JSON of few characters may become twenty times as much: `[{},{},…`. Counts
 * too much rather than too little; no JSON is no error. Stops once it is more than `most`.
 */
export function jsonMemory(text: string, most = Infinity): number {
  let memory = CHARACTER * text.length;
  for (let index = 0; index < text.length && memory <= most; index++) {
    const character = text.charCodeAt(index);
    if (character === COMMA || character === BRACE || character === BRACKET) memory += EACH;
    else if (character === QUOTE) {
      index = endOfText(text, index);
      if (index < 0) return memory;
    }
  }
  return memory;
}

/** Where the text that begins here ends; -1: nowhere. */
function endOfText(text: string, start: number): number {
  for (let end = text.indexOf('"', start + 1); end >= 0; end = text.indexOf('"', end + 1)) {
    let before = end - 1;
    while (text.charCodeAt(before) === BACKSLASH) before--;
    if ((end - before) % 2 === 1) return end;
  }
  return -1;
}
