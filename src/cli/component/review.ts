import type { MachineComponent } from '../../api/machine-component.ts';
import { plainText } from '../../api/plain-text.ts';

/** Of a file's content; the rest is counted. */
const LINES = 40;

/**
 * What a component would do on a node, for the person who signs it: a line each, in which nothing can pass for another line, and no command is cut.
 */
export function reviewOf({ spec }: MachineComponent, change: 'New' | 'Changed'): string {
  const { componentName, version, disruption = {}, hooks = {}, units = [], files = [], probes = [], disposable = [], values = [] } = spec;
  const lines = [
    ...Object.entries(disruption).map(([kind, disruptionClass]) => `disruption ${kind}: ${disruptionClass}`),
    ...spec.platforms.flatMap(({ os, arch, artifacts }) =>
      artifacts.map(({ url, sha256 }) => `artifact ${os}/${arch}: ${url} sha256:${sha256}`),
    ),
    ...Object.entries(hooks).map(([name, hook]) => `hook ${name}: ${JSON.stringify(hook.command)}`),
    ...units.map(
      ({ name, exec, environment }) =>
        `unit ${name}: ${JSON.stringify(exec)}${environment === undefined ? '' : ` environment ${JSON.stringify(environment)}`}`,
    ),
    ...probes.flatMap(({ name, exec }) => (exec === undefined ? [] : [`probe ${name}: ${JSON.stringify(exec.command)}`])),
    ...files.flatMap(({ path, mode, content }) => [`file ${path}${mode === undefined ? '' : ` mode ${mode}`}:`, ...contentOf(content)]),
    ...disposable.map(({ path }) => `cleans ${path}`),
    ...values.map(({ name, pattern }) => `value ${name}: ${pattern}`),
  ];
  const title = `${change === 'New' ? 'new' : 'changed'}: ${componentName} ${version}`;
  return [title, ...lines.map((line) => `    ${line}`)].map((line) => plainText(line, Infinity)).join('\n');
}

function contentOf(content: string): string[] {
  const lines = content.replace(/\n$/, '').split('\n');
  const shown = lines.slice(0, LINES).map((line) => `  | ${line}`);
  return lines.length <= LINES ? shown : [...shown, `  and ${lines.length - LINES} more lines: read them where the fleet is written`];
}
