/** Small changes of one source file; a test of behaviour should notice each. Found in the syntax tree, so that types and comments stay. */
import { parseSync } from 'rolldown/utils';

export interface Mutant {
  /** UTF-16 offsets into the source. */
  readonly start: number;
  readonly end: number;
  readonly replacement: string;
  /** What kind of change it is, to read. */
  readonly operator: string;
}

interface SyntaxNode {
  readonly type: string;
  readonly start: number;
  readonly end: number;
  readonly [field: string]: unknown;
}

const SWAPPED: Readonly<Record<string, string>> = {
  '<': '<=',
  '<=': '<',
  '>': '>=',
  '>=': '>',
  '===': '!==',
  '!==': '===',
  '&&': '||',
  '||': '&&',
  '+': '-',
  '-': '+',
  '*': '/',
  '/': '*',
};

const METHODS: Readonly<Record<string, string>> = {
  some: 'every',
  every: 'some',
  min: 'max',
  max: 'min',
  startsWith: 'endsWith',
  endsWith: 'startsWith',
  shift: 'pop',
};

const isNode = (value: unknown): value is SyntaxNode =>
  typeof value === 'object' && value !== null && 'type' in value && typeof value.type === 'string' && 'start' in value && 'end' in value;

const FUNCTIONS = ['ArrowFunctionExpression', 'FunctionDeclaration', 'FunctionExpression'];

/** Types and imports change no behaviour. */
const isErased = ({ type }: SyntaxNode): boolean =>
  (type.startsWith('TS') && !['TSAsExpression', 'TSNonNullExpression', 'TSSatisfiesExpression'].includes(type)) ||
  type === 'ImportDeclaration' ||
  type === 'ExportAllDeclaration';

/** Every mutant of a TypeScript source, in the order of the text. Errors: a source that does not parse. */
export function mutantsOf(path: string, source: string): Mutant[] {
  const { program, errors } = parseSync(path, source);
  if (errors.length > 0) throw new Error(`${path} does not parse: ${errors[0]?.message ?? ''}`);
  return mutantsBelow(program as unknown as SyntaxNode, undefined, false, source)
    .filter(({ start, end, replacement }) => source.slice(start, end) !== replacement)
    .toSorted((a, b) => a.start - b.start || (a.replacement < b.replacement ? -1 : 1));
}

/** `isTried`: within a `try` of the same function. */
function mutantsBelow(node: SyntaxNode, parent: SyntaxNode | undefined, isTried: boolean, source: string): Mutant[] {
  if (isErased(node)) return [];
  // Outside of a `try`, a promise is returned with and without an `await` alike.
  const isReturned = parent?.type === 'ReturnStatement' || (parent?.type === 'ArrowFunctionExpression' && parent['body'] === node);
  const own = node.type === 'AwaitExpression' && isReturned && !isTried ? [] : mutantsOfNode(node, source);
  const tried = node.type === 'TryStatement' || (isTried && !FUNCTIONS.includes(node.type));
  const children = Object.entries(node)
    .filter(([field]) => field !== 'typeAnnotation' && field !== 'typeArguments' && field !== 'returnType')
    .flatMap(([, value]) => (Array.isArray(value) ? value : [value]))
    .filter(isNode);
  return [...own, ...children.flatMap((child) => mutantsBelow(child, node, tried, source))];
}

const mutant = ({ start, end }: { start: number; end: number }, replacement: string, operator: string): Mutant => ({
  start,
  end,
  replacement,
  operator,
});

/** Mutants of one node, without those below it. */
function mutantsOfNode(node: SyntaxNode, source: string): Mutant[] {
  const { operator, test, argument, expression } = node;
  const text = (each: SyntaxNode): string => source.slice(each.start, each.end);
  switch (node.type) {
    case 'BinaryExpression':
    case 'LogicalExpression':
      return ofOperator(node, source);
    case 'IfStatement':
    case 'ConditionalExpression':
      return isNode(test) ? [mutant(test, 'true', 'condition → true'), mutant(test, 'false', 'condition → false')] : [];
    case 'UnaryExpression':
      return operator === '!' && isNode(argument) ? [mutant(node, text(argument), '! dropped')] : [];
    case 'AwaitExpression':
      return isNode(argument) ? [mutant(node, `(${text(argument)})`, 'await dropped')] : [];
    case 'ExpressionStatement':
      return isNode(expression) && DROPPED.includes(expression.type) ? [mutant(node, ';', 'statement dropped')] : [];
    case 'Literal':
      if (typeof node['value'] === 'boolean') return [mutant(node, String(!node['value']), `${String(node['value'])} flipped`)];
      return node['value'] === 0 || node['value'] === 1 ? [mutant(node, node['value'] === 0 ? '1' : '0', 'number flipped')] : [];
    case 'CallExpression':
      return ofCall(node, source);
    default:
      return [];
  }
}

/** Statements that do something. */
const DROPPED = ['CallExpression', 'AwaitExpression', 'AssignmentExpression', 'UpdateExpression'];

function ofOperator(node: SyntaxNode, source: string): Mutant[] {
  const { left, right, operator } = node;
  if (!isNode(left) || !isNode(right) || typeof operator !== 'string') return [];
  const found: Mutant[] = [];
  // Text that is joined is a message.
  const isText = [left, right].some(
    (side) => side.type === 'TemplateLiteral' || (side.type === 'Literal' && typeof side['value'] === 'string'),
  );
  const other = SWAPPED[operator];
  if (other !== undefined && !(isText && operator === '+')) {
    const start = source.indexOf(operator, left.end);
    found.push(mutant({ start, end: start + operator.length }, other, `${operator} → ${other}`));
  }
  // Behind an index the type wants `?? ''` where nothing is ever missing.
  if (operator === '??' && source.slice(right.start, right.end) !== "''")
    found.push(mutant(node, source.slice(left.start, left.end), '?? dropped'));
  return found;
}

function ofCall(node: SyntaxNode, source: string): Mutant[] {
  const { callee } = node;
  if (!isNode(callee) || callee.type !== 'MemberExpression') return [];
  const { property, object } = callee;
  if (!isNode(property) || !isNode(object)) return [];
  const name = source.slice(property.start, property.end);
  const other = Object.hasOwn(METHODS, name) ? METHODS[name] : undefined;
  return [
    ...(other === undefined ? [] : [mutant(property, other, `${name} → ${other}`)]),
    ...(name === 'filter' ? [mutant({ start: object.end, end: node.end }, '', 'filter dropped')] : []),
  ];
}

export function applied(source: string, { start, end, replacement }: Mutant): string {
  return source.slice(0, start) + replacement + source.slice(end);
}
