/** What goes wrong between a process and its API server. */
import type { ApiResponse, Transport } from '../../../api/transport.ts';

/** What happens to a write: refused, taken with its answer lost, or the process dies before or after it. */
export type Fault = 'none' | 'refuse' | 'loseAnswer' | 'dieBefore' | 'dieAfter';

export interface Faults {
  /** For the next writes, one each. */
  writes: Fault[];
  /** While true no watch delivers: the process reads what was. */
  stalled: boolean;
  /** It sends nothing any more; its controllers only do not know yet. */
  readonly dead: boolean;
  through(transport: Transport): Transport;
}

async function* bytes(text: string): AsyncGenerator<Uint8Array, void> {
  yield await Promise.resolve(Buffer.from(text));
}

function refusal(): ApiResponse {
  const status = {
    apiVersion: 'v1',
    kind: 'Status',
    metadata: {},
    status: 'Failure',
    reason: 'TooManyRequests',
    message: 'later',
    code: 429,
  };
  return { status: 429, headers: { 'content-type': 'application/json' }, body: bytes(JSON.stringify(status)) };
}

export function createFaults(): Faults {
  let dead = false;
  let resume: (() => void)[] = [];
  let stalled = false;

  async function* held(body: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void> {
    for await (const chunk of body) {
      if (stalled) await new Promise<void>((resolve) => resume.push(resolve));
      yield chunk;
    }
  }

  const die = (): never => {
    dead = true;
    throw new Error('the process died');
  };

  return {
    writes: [],
    get stalled() {
      return stalled;
    },
    set stalled(value) {
      stalled = value;
      if (value) return;
      for (const go of resume) go();
      resume = [];
    },
    get dead() {
      return dead;
    },
    through(transport) {
      return async (request) => {
        if (dead) die();
        if (request.query?.['watch'] !== undefined) {
          const response = await transport(request);
          return { ...response, body: held(response.body) };
        }
        if (request.method === 'GET' || request.path.includes('/events')) return transport(request);
        const fault = this.writes.shift() ?? 'none';
        if (fault === 'refuse') return refusal();
        if (fault === 'dieBefore') die();
        const response = await transport(request);
        if (fault === 'none') return response;
        for await (const _ of response.body);
        if (fault === 'dieAfter') die();
        throw new Error('the answer was lost');
      };
    },
  };
}
