import { describe, expect, it } from 'vitest';
import { EventStream } from './event-stream.ts';

const bytes = (text: string) => Buffer.from(text);

async function all(stream: EventStream): Promise<string> {
  let out = '';
  for await (const chunk of stream) out += Buffer.from(chunk).toString();
  return out;
}

describe('an event stream', () => {
  it('gives what was there, then what comes, and ends', async () => {
    const stream = new EventStream([bytes('a'), bytes('b')], () => undefined, undefined);
    stream.push(bytes('c'));
    const read = all(stream);
    stream.push(bytes('d'));
    stream.end();
    stream.push(bytes('too late'));
    expect(await read).toBe('abcd');
  });

  it('draws what was there only as it is read', () => {
    let drawn = 0;
    function* endless() {
      for (;;) {
        drawn++;
        yield Buffer.alloc(1024);
      }
    }
    const stream = new EventStream(endless(), () => undefined, undefined);
    void stream[Symbol.asyncIterator]().next();
    expect(drawn).toBeLessThan(100);
  });

  it('rejects with the reason of its signal, and lets go once', async () => {
    const stop = new AbortController();
    let ended = 0;
    const stream = new EventStream([], () => void ended++, stop.signal);
    const read = all(stream);
    stop.abort(new Error('enough'));
    await expect(read).rejects.toThrow('enough');
    stream.end();
    expect(ended).toBe(1);
  });

  it('that was aborted before it began rejects at once', async () => {
    const stream = new EventStream([bytes('a')], () => undefined, AbortSignal.abort(new Error('early')));
    await expect(all(stream)).rejects.toThrow('early');
  });

  it('lets go when its reader stops', async () => {
    let ended = 0;
    const stream = new EventStream([bytes('a'), bytes('b')], () => void ended++, undefined);
    for await (const chunk of stream) if (chunk.byteLength > 0) break;
    expect(ended).toBe(1);
  });

  it('ends, and forgets, for a reader that falls far behind', async () => {
    let ended = 0;
    const stream = new EventStream([], () => void ended++, undefined);
    for (let n = 0; n < 10_001; n++) stream.push(bytes('x'));
    expect(ended).toBe(1);
    expect(await all(stream)).toBe('');
  });

  it('sends waiting events together, without changing shared chunks', async () => {
    const stream = new EventStream([], () => undefined, undefined);
    const shared = bytes('abc');
    stream.push(shared);
    stream.push(shared);
    stream.end();
    const chunks: string[] = [];
    for await (const chunk of stream) chunks.push(Buffer.from(chunk).toString());
    expect([chunks, shared.toString()]).toEqual([['abcabc'], 'abc']);
  });
});
