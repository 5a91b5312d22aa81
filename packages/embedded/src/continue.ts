import { isObject } from './json.ts';
import { badRequest } from './refusal.ts';

/** Where a paged list goes on. `rv` is -1 for "from here on, as things are now". */
interface Continue {
  readonly rv: number;
  /** First key of the next page, inside the list's scope. */
  readonly start: string;
}

export function encodeContinue({ rv, start }: Continue): string {
  return Buffer.from(JSON.stringify({ v: 'meta.k8s.io/v1', rv, start }), 'utf8').toString('base64url');
}

const broken = (why: string) => badRequest(`invalid continue token: ${why}`);

/** Throws a Refusal 400. */
export function decodeContinue(token: string): Continue {
  let decoded: unknown;
  try {
    decoded = JSON.parse(Buffer.from(token, 'base64url').toString('utf8'));
  } catch {
    throw broken('continue key is not valid');
  }
  if (!isObject(decoded)) throw broken('continue key is not valid');
  const { v, rv, start } = decoded;
  if (v !== 'meta.k8s.io/v1') throw broken(`server does not recognize this encoded version ${typeof v === 'string' ? v : ''}`);
  if (typeof rv !== 'number' || rv === 0) throw broken('incorrect encoded start resourceVersion (version meta.k8s.io/v1)');
  if (typeof start !== 'string' || start === '') throw broken('encoded start key empty (version meta.k8s.io/v1)');
  return { rv, start };
}
