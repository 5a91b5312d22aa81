import { parseKeys, verifiedBy, type ComponentKey } from '../../api/component-key.ts';
import { isCoded } from '../../api/errors.ts';
import type { AgentContext } from '../context.ts';
import type { Durable } from '../disk/durable.ts';
import { agentError } from '../errors.ts';
import type { DiskLayout } from '../disk/layout.ts';

/*
 * With keys pinned on a node its agent obeys only components that one of them has signed, and values that those components allow (docs/protocols.md#g6).
 * Templates put values and labels of the Machine into commands and files, and no signature covers them: what they may be is part of what is signed.
 */

const LONGEST_VALUE = 4096;
/** Depth of nested values: deeper than any name of a value that a component declares. */
const DEEPEST_VALUE = 16;
/** As Kubernetes has them: letters, digits, `-`, `_` and `.`. */
const LABEL_VALUE = /^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$/;

/**
 * Pins the keys that a node was installed with, permanently: once the file is there nothing that comes from the cell changes it, another bootstrap
 * neither. Errors: those of the disk.
 */
export async function pinKeys(durable: Durable, layout: DiskLayout, keys: string | undefined): Promise<void> {
  if (keys === undefined || (await durable.files.stat(layout.componentKeys)) !== undefined) return;
  await durable.replace(layout.componentKeys, keys.endsWith('\n') ? keys : `${keys}\n`, 0o644);
}

/**
 * Whether a component may be obeyed here. Errors: `SignatureRefused`; `SpecInvalid`; `KeysInvalid`, and then nothing is accepted. The keys are
 * read each time, so that a rotation needs no restart.
 */
export async function requireSigned(ctx: AgentContext, name: string, version: string, spec: unknown): Promise<void> {
  const keys = await pinnedKeys(ctx);
  if (keys === undefined) return;
  try {
    verifiedBy(spec, keys);
  } catch (error) {
    if (!isCoded(error)) throw error;
    throw agentError(
      'SignatureRefused',
      `${name} ${version} is not run here: ${error.message}; next: kubenode component sign, commit, then give its set another rolloutID`,
      { cause: error },
    );
  }
}

/** Errors: `ValuesRefused` with the value's path, `SpecInvalid`. */
export async function requireAllowed(
  ctx: AgentContext,
  spec: unknown,
  { values, labels }: { values: Record<string, unknown>; labels: Record<string, string> },
): Promise<void> {
  const pinned = (await pinnedKeys(ctx)) !== undefined;
  const allowed = allowedValues(spec);
  if (allowed !== undefined || pinned) checkValues(values, allowed ?? new Map());
  if (!pinned) return;
  const odd = Object.entries(labels).find(([, value]) => !LABEL_VALUE.test(value));
  if (odd !== undefined) throw agentError('ValuesRefused', `machine.labels.${odd[0]}: ${JSON.stringify(odd[1])} is no value of a label`);
}

/** undefined: none are pinned. */
async function pinnedKeys({ ports, layout, pinned }: AgentContext): Promise<ComponentKey[] | undefined> {
  const text = await ports.files.read(layout.componentKeys);
  if (text !== undefined) return parseKeys(text.toString(), layout.componentKeys);
  if (pinned === undefined) return undefined;
  throw agentError('KeysInvalid', `${layout.componentKeys} is gone, so nothing is accepted; restart the agent to have it written again`);
}

function allowedValues(spec: unknown): Map<string, string> | undefined {
  const list: unknown = spec !== null && typeof spec === 'object' && 'values' in spec ? spec.values : undefined;
  if (list === undefined) return undefined;
  if (!Array.isArray(list)) throw agentError('SpecInvalid', 'spec.values must be a list');
  return new Map(
    list.map((each: unknown, index): [string, string] => {
      if (each !== null && typeof each === 'object' && 'name' in each && 'pattern' in each) {
        const { name, pattern } = each;
        if (typeof name === 'string' && typeof pattern === 'string') return [name, pattern];
      }
      throw agentError('SpecInvalid', `spec.values[${index}] must have a name and a pattern`);
    }),
  );
}

function checkValues(values: Record<string, unknown>, allowed: ReadonlyMap<string, string>): void {
  for (const [path, text] of leavesOf(values)) {
    const pattern = allowed.get(path);
    if (pattern === undefined) {
      const known = [...allowed.keys()].join(', ');
      throw agentError('ValuesRefused', `values.${path} is none that this component allows; allowed: ${known === '' ? 'none' : known}`);
    }
    if (text.length > LONGEST_VALUE) throw agentError('ValuesRefused', `values.${path} has more than ${LONGEST_VALUE} characters`);
    if (!wholeOf(pattern, path).test(text))
      throw agentError('ValuesRefused', `values.${path} must match ${pattern}, got ${JSON.stringify(text.slice(0, 100))}`);
  }
}

/** Without the flag m `$` is the end of the text, so no further line is accepted. */
function wholeOf(pattern: string, path: string): RegExp {
  try {
    // Alone first: `)|(` would be balanced by what is put around it.
    const { source } = new RegExp(pattern, 'u');
    return new RegExp(`^(?:${source})$`, 'u');
  } catch (cause) {
    throw agentError('SpecInvalid', `spec.values[${path}].pattern is no regular expression: ${pattern}`, { cause });
  }
}

/** Everything that a template can name, as the text that it would put in. */
function leavesOf(value: unknown, path = '', depth = 0): [string, string][] {
  if (value === null || typeof value !== 'object') return [[path, String(value)]];
  if (depth > DEEPEST_VALUE) throw agentError('ValuesRefused', `values.${path.slice(0, 100)} is nested deeper than ${DEEPEST_VALUE}`);
  return Object.entries(value).flatMap(([key, each]) => leavesOf(each, path === '' ? key : `${path}.${key}`, depth + 1));
}
