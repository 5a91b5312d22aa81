/** A plan as a comment on a pull request: the same paragraphs, folded, within what the platforms take. Pure. */
import { forecastLines, titleOf } from './lines.ts';
import type { Made } from './make.ts';

/** Finds the comment again, so that it is edited and not written twice. */
export const MARKER = '<!-- kubenode plan -->';

/** A comment on GitHub takes 65,536 characters. */
const MOST = 60_000;

export function planMarkdown(made: Made, most = MOST): string {
  const { result, warnings } = made;
  const head = [MARKER, `### ${escaped(titleOf(made))}`, '', ...warnings.map((each) => `> [!WARNING]\n> ${escaped(each)}\n`)];
  switch (result.state) {
    case 'Refused':
      return [
        ...head,
        `**The hub would refuse it** (\`${result.code}\`)`,
        '',
        fenced([result.message, ...(result.next === undefined ? [] : [`next: ${result.next}`])]),
      ].join('\n');
    case 'Planned': {
      const lines = forecastLines(result.forecast);
      const left = most - head.join('\n').length - 200;
      return [...head, fenced(within(lines, left))].join('\n');
    }
    default:
      return result satisfies never;
  }
}

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

/** No line of it can end the block: a fence is longer than any run of backticks in it. */
function fenced(lines: readonly string[]): string {
  const text = lines.join('\n').trim();
  const longest = Math.max(2, ...[...text.matchAll(/`+/g)].map(([run]) => run.length));
  const fence = '`'.repeat(longest + 1);
  return `${fence}\n${text}\n${fence}\n`;
}

const escaped = (text: string): string => text.replaceAll(/[<>&*_`[\]\\|]/g, (each) => `\\${each}`);
