import { SandboxError } from '../sandbox-error.ts';

/** What packages find instead of Node's own modules. */
export function refuse(): never {
  throw new SandboxError('RenderForbidden', 'must not reach files or processes: rendering sees nothing but the commit', {
    next: "Include, Helm, app.synth() and addFile do that; text is imported with { type: 'text' }",
  });
}
