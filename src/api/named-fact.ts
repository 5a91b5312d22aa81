/** Facts by the names that rules give them. */
import { FACTS, PEER_SCOPES, type FactDefinition, type FactID } from './facts.ts';

/** A fact as a rule names it. */
export interface FactRef {
  readonly id: FactID;
  readonly definition: FactDefinition;
  /** The dotted name. */
  readonly name: string;
  /** What stands for the `<…>` of the pattern. */
  readonly subjects: readonly string[];
  /** What it is derived from: a change of that is what calls for another evaluation. */
  readonly reads: string;
  /** The number that a hysteresis is about. */
  readonly inner?: FactRef;
}

const NAME = '([A-Za-z0-9](?:[-A-Za-z0-9_./]*[A-Za-z0-9])?)';
const PATTERNS = FACTS.map((definition) => {
  const text = definition.pattern
    .replaceAll('.', '\\.')
    .replace('<scope>', `(${PEER_SCOPES.join('|')})`)
    .replace(/<\w+>/g, NAME);
  return { definition, expression: new RegExp(`^${text}$`) };
});

function readsOf(id: FactID, name: string, [first]: readonly string[]): string {
  if (id.startsWith('condition.')) return `condition.${first}`;
  if (id.startsWith('machine.condition.')) return `machine.condition.${first}`;
  if (id.startsWith('component.')) return `component.${first}`;
  if (id.startsWith('peers.')) return `peers.${first}`;
  return name;
}

/** The fact of this name, or undefined when the catalogue has none. */
export function factNamed(name: string): FactRef | undefined {
  for (const { definition, expression } of PATTERNS) {
    const match = expression.exec(name);
    if (match === null) continue;
    const { id } = definition;
    const subjects = match.slice(1);
    if (id !== 'hysteresis') return { id, definition, name, subjects, reads: readsOf(id, name, subjects) };
    const inner = factNamed(subjects[0] ?? '');
    if (inner === undefined || inner.definition.type !== 'number' || inner.inner !== undefined) return undefined;
    return { id, definition, name, subjects, reads: inner.reads, inner };
  }
  return undefined;
}

/** Parameters that a fact takes, with the parameters of the number it is about. */
export const paramsOf = (ref: FactRef): readonly string[] => [
  ...(ref.definition.params ?? []),
  ...(ref.inner === undefined ? [] : paramsOf(ref.inner)),
];

/** Patterns that begin as the name does, for a message about a name that is not known. */
export function patternsLike(name: string): string[] {
  const [root] = name.split('.');
  const like = FACTS.filter((each) => each.pattern.split('.')[0] === root).map((each) => each.pattern);
  return like.length > 0 ? like : [...new Set(FACTS.map((each) => `${each.pattern.split('.')[0]}.…`))];
}
