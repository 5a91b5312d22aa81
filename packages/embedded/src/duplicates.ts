/** Finds what `JSON.parse` drops: fields that an object names twice. */

interface Level {
  /** Names seen in an object; undefined in a list. */
  readonly names: Set<string> | undefined;
  /** Path of what is read now: `.spec` or `[3]` after the path of the level above. */
  at: string;
  index: number;
}

/**
 * The paths of fields that are given more than once in a JSON text, each once, in the order in which they are met: `spec.parts[0].name`. The text must be
 * one that `JSON.parse` takes. Does not recurse.
 */
export function duplicateFields(text: string): string[] {
  const found = new Set<string>();
  const levels: Level[] = [];
  let expectsName = false;
  for (let at = 0; at < text.length; at++) {
    const level = levels.at(-1);
    switch (text[at] ?? '') {
      case '{':
        levels.push({ names: new Set(), at: '', index: 0 });
        expectsName = true;
        break;
      case '[':
        levels.push({ names: undefined, at: '[0]', index: 0 });
        expectsName = false;
        break;
      case '}':
      case ']':
        levels.pop();
        expectsName = false;
        break;
      case ',':
        if (level === undefined) break;
        expectsName = level.names !== undefined;
        if (!expectsName) level.at = `[${++level.index}]`;
        break;
      case '"': {
        const end = endOfText(text, at);
        if (expectsName && level?.names !== undefined) {
          const name: unknown = JSON.parse(text.slice(at, end + 1));
          level.at = `.${String(name)}`;
          if (level.names.has(level.at))
            found.add(
              levels
                .map((each) => each.at)
                .join('')
                .slice(1),
            );
          level.names.add(level.at);
          expectsName = false;
        }
        at = end;
        break;
      }
      default:
    }
  }
  return [...found];
}

/** Where the text that begins here ends: at its closing quotation mark. */
function endOfText(text: string, start: number): number {
  for (let at = start + 1; ; at++) {
    at = text.indexOf('"', at);
    if (at < 0) return text.length;
    let slashes = 0;
    while (text[at - 1 - slashes] === '\\') slashes++;
    if (slashes % 2 === 0) return at;
  }
}
