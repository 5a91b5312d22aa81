import { kubeError } from './errors.ts';
import type { CodedError } from '../api/errors.ts';

const NEWLINE = 10;
/** Limit of one stream. Kubernetes sends none; each costs time, and none counts as an event. */
const MOST_EMPTY = 1000;

/**
 * Splits bytes at newlines into text. The lines that one chunk completes are yielded together: a turn of an async loop costs as much as
 * a short line. Characters that span chunks stay whole, because bytes are joined before they are decoded. Empty lines are left out.
 * Errors: `LineTooLong`, before it keeps more than `maxBytes`; `LinesEmpty`, after 1,000 of them; `Truncated` when the bytes end inside a line.
 */
export async function* linesOf(chunks: AsyncIterable<Uint8Array>, maxBytes: number): AsyncGenerator<string[], void> {
  const decoder = new TextDecoder();
  let pending: Uint8Array[] = [];
  let pendingBytes = 0;
  let empty = 0;

  const take = (last: Uint8Array): string => {
    if (pending.length === 0) return decoder.decode(last);
    const line = Buffer.concat([...pending, last]);
    pending = [];
    pendingBytes = 0;
    return decoder.decode(line);
  };

  for await (const chunk of chunks) {
    let start = 0;
    const lines: string[] = [];
    for (let end = chunk.indexOf(NEWLINE); end >= 0; end = chunk.indexOf(NEWLINE, start)) {
      if (pendingBytes + end - start > maxBytes) throw tooLong(maxBytes);
      const line = take(chunk.subarray(start, end));
      start = end + 1;
      if (line !== '' && line !== '\r') {
        lines.push(line);
        continue;
      }
      empty++;
      if (empty > MOST_EMPTY) throw kubeError('LinesEmpty', `the stream has more than ${MOST_EMPTY} empty lines`);
    }
    if (lines.length > 0) yield lines;
    if (start === chunk.length) continue;
    pendingBytes += chunk.length - start;
    if (pendingBytes > maxBytes) throw tooLong(maxBytes);
    pending.push(chunk.subarray(start));
  }
  if (pendingBytes > 0) throw kubeError('Truncated', `the stream ended inside a line, after ${pendingBytes} bytes of it`);
}

function tooLong(maxBytes: number): CodedError {
  return kubeError('LineTooLong', `a line of the stream is longer than ${maxBytes} bytes`);
}
