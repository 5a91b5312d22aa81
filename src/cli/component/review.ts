import { componentForm, type Shape } from '../../api/component-form.ts';
import type { MachineComponent } from '../../api/machine-component.ts';
import { plainText } from '../../api/plain-text.ts';

/**
 * What a component would do on a node, for the person who signs it: each field of its spec but its signatures, unless it has its default. Where two texts are
 * equal, so is what is signed; nothing is cut, and nothing can pass for another line.
 */
export function reviewOf({ spec }: MachineComponent, change: 'New' | 'Changed'): string {
  const { componentName, version, signatures: _signatures, ...rest } = spec;
  const title = `${change === 'New' ? 'new' : 'changed'}: ${componentName} ${version}`;
  return [title, ...fieldLines(rest, componentForm(), '').map((line) => `    ${line}`)].map((line) => plainText(line, Infinity)).join('\n');
}

/** A field that the form does not have is shown as any other. */
function fieldLines(value: unknown, shape: Shape, path: string): string[] {
  if (shape !== 'Any' && value !== null && typeof value === 'object') {
    const lines = Array.isArray(value)
      ? value.flatMap((each: unknown, index) => fieldLines(each, 'list' in shape ? shape.list : 'Any', `${path}[${index}]`))
      : Object.entries(value).flatMap(([name, each]) => linesOf(name, each, shape, path));
    if (lines.length > 0) return lines;
  }
  if (typeof value === 'string' && value.includes('\n')) return [`${path}:`, ...contentLines(value)];
  return [`${path}: ${jsonOf(value)}`];
}

function linesOf(name: string, value: unknown, shape: Exclude<Shape, 'Any'>, path: string): string[] {
  const { fields, defaults = {} } = 'fields' in shape ? shape : { fields: {} };
  if (value === undefined || (Object.hasOwn(defaults, name) && defaults[name] === value)) return [];
  const field: Shape | undefined = Object.hasOwn(fields, name) ? fields[name] : undefined;
  return fieldLines(value, field ?? 'Any', path === '' ? name : `${path}.${name}`);
}

/** A line in which not every character is seen as it is stands there as JSON. */
function contentLines(content: string): string[] {
  const lines = content.split('\n');
  const shown = (lines.at(-1) === '' ? lines.slice(0, -1) : lines).map((line) =>
    plainText(line, Infinity) === line ? `  | ${line}` : `  |json ${jsonOf(line)}`,
  );
  return lines.at(-1) === '' ? shown : [...shown, '  no line break at the end'];
}

/** Without the line breaks that JSON may have, which a plain text has as blanks. */
function jsonOf(value: unknown): string {
  return JSON.stringify(value).replaceAll(/[\u0085\u2028\u2029]/g, (found) => `\\u${found.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
