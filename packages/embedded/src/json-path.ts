import type { Json } from '@kubenode/api-machinery/wire';
import { isObject, shown } from './json.ts';

type Step = { key: string } | { index: number } | { all: true } | { where: string; equals: string };

const STEP = /^(?:\.([^.[\]\s]+)|\[(\d+)\]|\[\*\]|\[\?\(@\.([\w.-]+)\s*==\s*["']([^"']*)["']\)\]|\['([^']+)'\])/;

/**
 * Compiles the simple JSONPath of CRDs: `.a.b[0]`, `['k']`, `[*]` and `[?(@.type=="Ready")]`; a dot in a key is written `\.`.
 * Returns undefined when the path is of another form.
 */
export function compilePath(path: string): ((value: Json) => Json[]) | undefined {
  const steps: Step[] = [];
  let rest = (path.startsWith('.') || path.startsWith('[') ? path : `.${path}`).replaceAll(String.raw`\.`, '\0');
  while (rest !== '' && rest !== '.') {
    const match = STEP.exec(rest);
    if (match === null) return undefined;
    const [whole, key, index, where, equals, quoted] = match;
    if (key !== undefined) steps.push(key === '*' ? { all: true } : { key: key.replaceAll('\0', '.') });
    else if (index !== undefined) steps.push({ index: Number(index) });
    else if (where !== undefined) steps.push({ where, equals: equals ?? '' });
    else if (quoted !== undefined) steps.push({ key: quoted.replaceAll('\0', '.') });
    else steps.push({ all: true });
    rest = rest.slice(whole.length);
  }
  return (value) => steps.reduce((found, step) => found.flatMap((item) => follow(item, step)), [value]);
}

function follow(value: Json, step: Step): Json[] {
  if ('key' in step) {
    const found = isObject(value) ? value[step.key] : undefined;
    return found === undefined ? [] : [found];
  }
  if ('index' in step) {
    const found = Array.isArray(value) ? value[step.index] : undefined;
    return found === undefined ? [] : [found];
  }
  const items = Array.isArray(value) ? value : isObject(value) ? Object.values(value) : [];
  if ('all' in step) return items;
  return items.filter((item) => {
    const found = step.where.split('.').reduce<Json | undefined>((here, key) => (isObject(here) ? here[key] : undefined), item);
    return found !== undefined && shown(found) === step.equals;
  });
}
