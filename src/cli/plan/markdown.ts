/** A plan as a comment on a pull request: the same paragraphs, folded, within what the platforms take. Pure. */
import { plainText } from '../../api/plain-text.ts';
import { forecastLines, refusalLines, titleOf } from './lines.ts';
import type { Made } from './make.ts';

/** Finds the comment again, so that it is edited and not written twice. */
export const MARKER = '<!-- kubenode plan -->';

/** A comment on GitHub takes 65,536 characters. */
const MOST = 60_000;
const MOST_WARNINGS = 8;
/** A limit, so that the fence around them is short. */
const MOST_BACKTICKS = 8;

export function planMarkdown(made: Made, most = MOST): string {
  const { result, warnings } = made;
  const shown = warnings.slice(0, MOST_WARNINGS);
  if (warnings.length > shown.length) shown.push(`and ${warnings.length - shown.length} warnings more: run kubenode plan to see them`);
  const head = [MARKER, `### ${escaped(titleOf(made))}`, '', ...shown.map((each) => `> [!WARNING]\n> ${escaped(plainText(each))}\n`)];
  switch (result.state) {
    case 'Refused':
      return withLines([...head, `**The hub would refuse it** (\`${plainText(result.code, 64)}\`)`, ''], refusalLines(result), most);
    case 'Planned':
      return withLines(head, forecastLines(result.forecast), most);
    default:
      return result satisfies never;
  }
}

const ROOM_OF_FENCE = 2 * (MOST_BACKTICKS + 3);
const ROOM_OF_REST = 100;

function withLines(head: readonly string[], lines: readonly string[], most: number): string {
  const above = head.join('\n');
  return `${above}\n${fenced(within(lines.map(withoutLongRuns), most - above.length - ROOM_OF_FENCE - ROOM_OF_REST))}`;
}

/** As many of the first lines as there is room for. */
function within(lines: readonly string[], most: number): string[] {
  let length = 0;
  const kept: string[] = [];
  for (const line of lines) {
    length += line.length + 1;
    if (length > most) return [...kept, '', `and ${lines.length - kept.length} lines more: run kubenode plan to see them`];
    kept.push(line);
  }
  return kept;
}

const withoutLongRuns = (line: string): string => line.replaceAll(/`{8,}/g, `${'`'.repeat(MOST_BACKTICKS - 1)}…`);

/** No line of it can end the block: a fence is longer than any run of backticks in it. */
function fenced(lines: readonly string[]): string {
  const text = lines.join('\n').trim();
  const longest = Math.max(2, ...[...text.matchAll(/`+/g)].map(([run]) => run.length));
  const fence = '`'.repeat(longest + 1);
  return `${fence}\n${text}\n${fence}\n`;
}

const escaped = (text: string): string => text.replaceAll(/[<>&*_`[\]\\|]/g, (each) => `\\${each}`);
