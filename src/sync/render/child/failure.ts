/** From what was thrown to a location in the fleet and a message that helps. */
import { isCoded } from '../../../api/errors.ts';
import { positionOf, type Finding } from '../finding.ts';
import { SCHEME, pathOf } from './scheme.ts';
import { SandboxError } from './sandbox-error.ts';

export function toFinding(error: unknown, entry: string): Finding {
  if (!(error instanceof Error))
    return { code: 'RenderThrew', file: entry, message: `threw ${show(error)}, which is not an Error and has no line` };
  const stack = typeof error.stack === 'string' ? error.stack : '';
  const frames = [...stack.matchAll(/fleet:\/\/\/[^\s()]+?:\d+:\d+/g)].map(([frame]) =>
    frame.replace(/^(.*?)((?::\d+){2})$/s, (_, url: string, at: string) => pathOf(url) + at),
  );
  const head = error instanceof SyntaxError ? syntaxLocation(error, stack) : undefined;
  const first = (error instanceof SandboxError ? error.location : undefined) ?? head ?? frames[0] ?? entry;
  const trace = [...new Set(frames)].filter((frame) => frame !== first).slice(0, 5);
  return { ...positionOf(first), ...words(error, head !== undefined), ...(trace.length === 0 ? {} : { trace }) };
}

/** Errors of parsing have their location only above their message: `fleet:///a.ts:7`, lines of text, a line of carets. Those of JSON in it. */
function syntaxLocation({ message }: Error, stack: string): string | undefined {
  // oxlint-disable-next-line kubenode/no-sentence-decisions -- Node gives no location
  const json = /^(fleet:\/\/\/\S+?\.json): (?:.*\(line (\d+) column (\d+)\))?/s.exec(message);
  if (json?.[1] !== undefined) return [pathOf(json[1]), json[2], json[3]].filter((part) => part !== undefined).join(':');
  const match = /^(fleet:\/\/\/\S+?):(\d+)\n[\s\S]*?^(\s*)\^+\s*$/m.exec(stack);
  if (match?.[1] === undefined || match[2] === undefined) return undefined;
  return `${pathOf(match[1])}:${match[2]}:${(match[3]?.length ?? 0) + 1}`;
}

function words(error: Error, atParse: boolean): Pick<Finding, 'code' | 'message' | 'next'> {
  if (isCoded(error)) return { code: error.code, message: error.message, ...(error.next === undefined ? {} : { next: error.next }) };
  const code = 'code' in error && typeof error.code === 'string' ? error.code : '';
  const message = error.message.replaceAll(SCHEME, '');
  if (code === 'ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX')
    return {
      code: 'RenderSyntax',
      message: `${firstLine(message)}: types are removed, not compiled`,
      next: 'write it without enum, namespace and parameter properties',
    };
  if (code === 'ERR_INVALID_TYPESCRIPT_SYNTAX') return { code: 'RenderSyntax', message: firstLine(message) };
  if (error instanceof SyntaxError && (atParse || code.startsWith('ERR_'))) return { code: 'RenderSyntax', message: firstLine(message) };
  if (code === 'ERR_ACCESS_DENIED')
    return {
      code: 'RenderForbidden',
      message: 'must not reach files or processes: rendering sees nothing but the commit',
      next: "Include, Helm, app.synth() and addFile do that; text is imported with { type: 'text' }",
    };
  if (error instanceof EvalError) return { code: 'RenderForbidden', message: 'must not make code from text (eval, new Function)' };
  // oxlint-disable-next-line kubenode/no-sentence-decisions -- V8 gives no code
  if (error instanceof ReferenceError && /^(require|module|exports|__dirname|__filename) is not defined/.test(message))
    return { code: 'RenderImport', message: `${firstLine(message)}: files of a fleet are ES modules`, next: "import … from './file.ts'" };
  return { code: 'RenderThrew', message: `${error.name}: ${firstLine(message)}` };
}

function firstLine(text: string): string {
  return text.trim().split('\n')[0]?.slice(0, 1000) ?? '';
}

function show(value: unknown): string {
  try {
    return typeof value === 'string' ? JSON.stringify(value.slice(0, 200)) : String(value).slice(0, 200);
  } catch {
    return 'something';
  }
}
