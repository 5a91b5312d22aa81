/** Small changes of one source file, each of which a test of behaviour should notice. Found in the syntax tree, so that types and comments stay. */
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
  const found: Mutant[] = [];
  const text = (node: SyntaxNode): string => source.slice(node.start, node.end);
  const add = (node: { start: number; end: number }, replacement: string, operator: string): void => {
    if (source.slice(node.start, node.end) !== replacement) found.push({ start: node.start, end: node.end, replacement, operator });
  };

  /** `isTried`: within a `try` of the same function. */
  function visit(node: SyntaxNode, parent: SyntaxNode | undefined, isTried: boolean): void {
    if (isErased(node)) return;
    // Outside of a `try`, a promise is returned with and without an `await` alike.
    const isReturned = parent?.type === 'ReturnStatement' || (parent?.type === 'ArrowFunctionExpression' && parent['body'] === node);
    if (!(node.type === 'AwaitExpression' && isReturned && !isTried)) mutate(node);
    const tried = node.type === 'TryStatement' || (isTried && !FUNCTIONS.includes(node.type));
    for (const [field, value] of Object.entries(node)) {
      if (field === 'typeAnnotation' || field === 'typeArguments' || field === 'returnType') continue;
      for (const child of Array.isArray(value) ? value : [value]) if (isNode(child)) visit(child, node, tried);
    }
  }

  function mutate(node: SyntaxNode): void {
    const { left, right, operator, test, argument, callee, expression } = node;
    switch (node.type) {
      case 'BinaryExpression':
      case 'LogicalExpression': {
        if (!isNode(left) || !isNode(right) || typeof operator !== 'string') return;
        // Text that is joined is a message.
        const isText = [left, right].some(
          (side) => side.type === 'TemplateLiteral' || (side.type === 'Literal' && typeof side['value'] === 'string'),
        );
        const other = SWAPPED[operator];
        if (other !== undefined && !(isText && operator === '+')) {
          const at = source.indexOf(operator, left.end);
          add({ start: at, end: at + operator.length }, other, `${operator} → ${other}`);
        }
        // Behind an index the type wants `?? ''` where nothing is ever missing.
        if (operator === '??' && text(right) !== "''") add(node, text(left), '?? dropped');
        return;
      }
      case 'IfStatement':
      case 'ConditionalExpression':
        if (!isNode(test)) return;
        add(test, 'true', 'condition → true');
        add(test, 'false', 'condition → false');
        return;
      case 'UnaryExpression':
        if (operator === '!' && isNode(argument)) add(node, text(argument), '! dropped');
        return;
      case 'AwaitExpression':
        if (isNode(argument)) add(node, `(${text(argument)})`, 'await dropped');
        return;
      case 'ExpressionStatement':
        if (
          isNode(expression) &&
          ['CallExpression', 'AwaitExpression', 'AssignmentExpression', 'UpdateExpression'].includes(expression.type)
        )
          add(node, ';', 'statement dropped');
        return;
      case 'Literal':
        if (typeof node['value'] === 'boolean') add(node, String(!node['value']), `${String(node['value'])} flipped`);
        else if (node['value'] === 0 || node['value'] === 1) add(node, node['value'] === 0 ? '1' : '0', 'number flipped');
        return;
      case 'CallExpression': {
        if (!isNode(callee) || callee.type !== 'MemberExpression') return;
        const { property, object } = callee;
        if (!isNode(property) || !isNode(object)) return;
        const name = text(property);
        const other = Object.hasOwn(METHODS, name) ? METHODS[name] : undefined;
        if (other !== undefined) add(property, other, `${name} → ${other}`);
        if (name === 'filter') add({ start: object.end, end: node.end }, '', 'filter dropped');
        return;
      }
      default:
    }
  }

  visit(program as unknown as SyntaxNode, undefined, false);
  return found.toSorted((a, b) => a.start - b.start || (a.replacement < b.replacement ? -1 : 1));
}

export function applied(source: string, { start, end, replacement }: Mutant): string {
  return source.slice(0, start) + replacement + source.slice(end);
}
