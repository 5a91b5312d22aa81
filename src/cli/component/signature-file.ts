import type { KeyObject } from 'node:crypto';
import { signedText } from '../../api/component-form.ts';
import { signComponent } from '../../api/component-key.ts';
import { sha256Hex } from '../../api/digest.ts';
import type { CodedError } from '../../api/errors.ts';
import type { MachineComponent } from '../../api/machine-component.ts';
import { own } from '../../api/own.ts';
import type { Signatures } from '../../constructs/signatures.ts';
import { cliError } from '../errors.ts';

export interface Signed {
  component: string;
  version: string;
  /** Key IDs. */
  by: string[];
  /** Whether this key had signed it already. */
  before: boolean;
  /** Of its content, also where another key signed it before. */
  change: 'New' | 'Changed' | 'Known';
}

/**
 * The file of signatures for these components: what this key had not signed yet it signs. Signatures of other keys stay while the content is theirs;
 * what the fleet no longer has goes.
 */
export function signAll(
  components: readonly MachineComponent[],
  before: Signatures,
  key: KeyObject,
): { lock: Signatures; signed: Signed[] } {
  const lock: Record<string, Record<string, Signatures[string][string]>> = {};
  const signed: Signed[] = [];
  for (const { spec } of components) {
    const { componentName: component, version } = spec;
    const content = sha256Hex(signedText(spec));
    const known = own(own(before, component), version);
    const { keyID, value } = signComponent(spec, key);
    const others = known?.content === content ? known.signatures : {};
    const signatures = Object.fromEntries(Object.entries({ ...others, [keyID]: value }).toSorted(([a], [b]) => (a < b ? -1 : 1)));
    lock[component] = { ...own(lock, component), [version]: { content, signatures } };
    signed.push({
      component,
      version,
      by: Object.keys(signatures),
      before: others[keyID] === value,
      change: changeOf(known?.content, content),
    });
  }
  return { lock, signed };
}

const changeOf = (known: string | undefined, content: string): Signed['change'] =>
  known === undefined ? 'New' : known === content ? 'Known' : 'Changed';

/** Name and version of what is not the same component in both. */
export function differing(before: readonly MachineComponent[], after: readonly MachineComponent[]): string[] {
  const textsOf = (list: readonly MachineComponent[]) =>
    new Map(list.map(({ spec }) => [`${spec.componentName} ${spec.version}`, signedText(spec)]));
  const [one, other] = [textsOf(before), textsOf(after)];
  return [...new Set([...one.keys(), ...other.keys()])].filter((name) => one.get(name) !== other.get(name)).toSorted();
}

/** Errors: `SignaturesInvalid`. Empty text: none yet. */
export function readSignatures(text: string, where: string): Signatures {
  const invalid = (why: string, cause?: unknown): CodedError =>
    cliError('SignaturesInvalid', `${where} ${why}`, { cause, next: 'put it back from Git, or write {} into it and sign again' });
  if (text.trim() === '') return {};
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw invalid('is no JSON', error);
  }
  if (!isSignatures(value)) throw invalid('contains something other than signatures by component and version');
  return value;
}

function isSignatures(value: unknown): value is Signatures {
  return (
    isRecord(value) &&
    Object.values(value).every(
      (versions) =>
        isRecord(versions) &&
        Object.values(versions).every(
          (entry) =>
            isRecord(entry) &&
            typeof entry['content'] === 'string' &&
            isRecord(entry['signatures']) &&
            Object.values(entry['signatures']).every((each) => typeof each === 'string'),
        ),
    )
  );
}

const isRecord = (value: unknown): value is Record<string, unknown> => value !== null && typeof value === 'object' && !Array.isArray(value);
