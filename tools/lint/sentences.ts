/**
 * Rule of the linter: code decides by fields, never by sentences. No `message` is compared with words or searched, no `reason` is taken apart.
 * It knows a sentence by the name of its field or variable; one that was given another name passes. Whether two messages differ may be asked (what people read has changed), and whether one is empty; its first line may be shown.
 */
interface Node {
  readonly type: string;
  readonly name?: string;
  readonly operator?: string;
  readonly value?: unknown;
  readonly left?: Node;
  readonly right?: Node;
  readonly expression?: Node;
  readonly object?: Node;
  readonly property?: Node;
  readonly callee?: Node;
  readonly arguments?: readonly Node[];
  readonly expressions?: readonly Node[];
  readonly quasis?: readonly { readonly value: { readonly raw: string } }[];
  readonly discriminant?: Node;
}
interface Context {
  report(problem: { node: Node; message: string }): void;
}

const SENTENCES = ['message', 'reason'];
const SEARCHES = ['startsWith', 'endsWith', 'includes', 'indexOf', 'search', 'match', 'matchAll', 'split'];
const PATTERNS = ['test', 'exec'];
const LISTS = ['includes', 'has', 'indexOf'];
const PARTS = ['slice', 'substring', 'at', 'charAt', 'trim', 'toLowerCase', 'toUpperCase', 'replace', 'replaceAll'];
const EQUALITIES = ['===', '!==', '==', '!='];

/** `message` and `x.message`, `reason` and `x?.reason`, also where something else stands in for an absent one. */
function sentenceOf(node: Node | undefined): string | undefined {
  if (node === undefined) return undefined;
  switch (node.type) {
    case 'ParenthesizedExpression':
    case 'ChainExpression':
    case 'TSNonNullExpression':
      return sentenceOf(node.expression);
    case 'LogicalExpression':
      return node.operator === '??' ? sentenceOf(node.left) : undefined;
    case 'MemberExpression':
      return sentenceOf(node.property);
    case 'Identifier':
      return SENTENCES.find((each) => each === node.name);
    case 'Literal':
      return SENTENCES.find((each) => each === node.value);
    case 'TemplateLiteral':
      return node.quasis?.every(({ value }) => value.raw === '') === true ? sentenceOf(node.expressions?.[0]) : undefined;
    default:
      return undefined;
  }
}

/** A sentence of which a call makes something else to compare: `reason.slice(0, 5)`. */
function partOf(node: Node | undefined): string | undefined {
  if (node?.type !== 'CallExpression' || !PARTS.includes(methodOf(node))) return undefined;
  return sentenceOf(node.callee?.object) ?? partOf(node.callee?.object);
}

const methodOf = ({ callee }: Node): string => (callee?.type === 'MemberExpression' ? (callee.property?.name ?? '') : '');

function isEmpty(node: Node | undefined): boolean {
  return node?.type === 'Literal' ? node.value === '' || node.value === null : node?.name === 'undefined';
}

export const noSentenceDecisions = {
  meta: { docs: { description: 'code decides by fields, never by sentences' } },
  create: (context: Context) => ({
    BinaryExpression(node: Node) {
      if (!EQUALITIES.includes(node.operator ?? '')) return;
      const part = partOf(node.left) ?? partOf(node.right);
      if (part !== undefined && !isEmpty(node.left) && !isEmpty(node.right))
        context.report({ node, message: `compares a part of a ${part}: decide by a field` });
      const [left, right] = [sentenceOf(node.left), sentenceOf(node.right)];
      if (left !== 'message' && right !== 'message') return;
      if (left === right || isEmpty(left === 'message' ? node.right : node.left)) return;
      context.report({ node, message: 'compares a message with words: decide by a field' });
    },
    SwitchStatement({ discriminant }: Node) {
      if (discriminant !== undefined && sentenceOf(discriminant) === 'message')
        context.report({ node: discriminant, message: 'compares a message with words: decide by a field' });
    },
    CallExpression(node: Node) {
      const method = methodOf(node);
      if (LISTS.includes(method) && sentenceOf(node.arguments?.[0]) === 'message')
        context.report({ node, message: 'compares a message with words: decide by a field' });
      if (method === 'split' && node.arguments?.[0]?.value === '\n') return;
      const found = SEARCHES.includes(method)
        ? sentenceOf(node.callee?.object)
        : PATTERNS.includes(method)
          ? sentenceOf(node.arguments?.[0])
          : undefined;
      if (found !== undefined) context.report({ node, message: `takes a ${found} apart: decide by a field` });
    },
  }),
};
