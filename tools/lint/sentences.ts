/**
 * Rule of the linter: code decides by fields, never by sentences. No `message` is compared with words or searched, no `reason` is taken apart.
 * Whether two messages differ may be asked (what people read has changed), and whether one is empty; its first line may be shown.
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
}
interface Context {
  report(problem: { node: Node; message: string }): void;
}

const SENTENCES = ['message', 'reason'];
const SEARCHES = ['startsWith', 'endsWith', 'includes', 'indexOf', 'search', 'match', 'matchAll', 'split'];
const PATTERNS = ['test', 'exec'];
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
    default:
      return undefined;
  }
}

function isEmpty(node: Node | undefined): boolean {
  return node?.type === 'Literal' ? node.value === '' || node.value === null : node?.name === 'undefined';
}

export const noSentenceDecisions = {
  meta: { docs: { description: 'code decides by fields, never by sentences' } },
  create: (context: Context) => ({
    BinaryExpression(node: Node) {
      if (!EQUALITIES.includes(node.operator ?? '')) return;
      const [left, right] = [sentenceOf(node.left), sentenceOf(node.right)];
      if (left !== 'message' && right !== 'message') return;
      if (left === right || isEmpty(left === 'message' ? node.right : node.left)) return;
      context.report({ node, message: 'compares a message with words: decide by a field' });
    },
    CallExpression(node: Node) {
      const method = node.callee?.type === 'MemberExpression' ? (node.callee.property?.name ?? '') : '';
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
