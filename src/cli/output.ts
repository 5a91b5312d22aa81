import { styleText } from 'node:util';
import { plainOutput, plainText } from '../api/plain-text.ts';

/**
 * Five words for people on stderr; what machines read goes to stdout. Meaning is never in colour alone. Text that came from a server, a cell or
 * a node: nothing that a terminal would obey is printed (docs/protocols.md#g7).
 */
const GLYPHS = { doing: ['►', '>'], waiting: ['◎', '.'], done: ['✔', '+'], warning: ['⚠', '!'], failed: ['✗', 'x'] } as const;
export type Word = keyof typeof GLYPHS;
const COLOURS = { doing: 'cyan', waiting: 'blue', done: 'green', warning: 'yellow', failed: 'red' } as const;

export interface Output {
  /** stdout, as it is but for control characters; JSON means the same with and without them. */
  print(text: string): void;
  report(word: Word, message: string): void;
  /** Whether a person watches stderr on a terminal that can be redrawn. */
  readonly live: boolean;
  readonly plain: boolean;
}

export function terminalOutput(env: NodeJS.ProcessEnv = process.env): Output {
  const utf8 = /utf-?8/i.test(env['LC_ALL'] ?? env['LC_CTYPE'] ?? env['LANG'] ?? '') || process.platform === 'darwin';
  const colour = env['NO_COLOR'] === undefined && (process.stderr.isTTY || env['CLICOLOR_FORCE'] === '1');
  return {
    live: process.stderr.isTTY && env['TERM'] !== 'dumb',
    plain: !utf8,
    print: (text) => void process.stdout.write(lineOf(plainOutput(text, { format: process.stdout.isTTY }))),
    report(word, message) {
      const glyph = GLYPHS[word][utf8 ? 0 : 1];
      process.stderr.write(
        `${colour ? styleText(COLOURS[word], glyph, { validateStream: false }) : glyph} ${plainOutput(message, { format: true })}\n`,
      );
    },
  };
}

const lineOf = (text: string): string => (text.endsWith('\n') ? text : `${text}\n`);

/** Columns as kubectl prints them: upper-case titles, three spaces between, no trailing blanks. */
export function table(titles: string[], rows: string[][], { header = true }: { header?: boolean } = {}): string {
  const lines = (header ? [titles, ...rows] : rows).map((line) => line.map((cell) => plainText(cell, Infinity)));
  const widths = titles.map((_, column) => Math.max(...lines.map((line) => line[column]?.length ?? 0)));
  return lines
    .map((line) =>
      line
        .map((cell, column) => (column === line.length - 1 ? cell : cell.padEnd(widths[column] ?? 0)))
        .join('   ')
        .trimEnd(),
    )
    .join('\n');
}

/** As kubectl's AGE: `5s`, `3m12s`, `47m`, `5h3m`, `3d`. */
export function age(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  if (seconds < 120) return `${seconds}s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 10) return seconds % 60 === 0 ? `${minutes}m` : `${minutes}m${seconds % 60}s`;
  if (minutes < 180) return `${minutes}m`;
  const hours = Math.floor(minutes / 60);
  if (hours < 8) return minutes % 60 === 0 ? `${hours}h` : `${hours}h${minutes % 60}m`;
  if (hours < 48) return `${hours}h`;
  return `${Math.floor(hours / 24)}d`;
}
