/**
 * Rule of the linter: a coded error comes from the table of its area, by the function that `errorsOf` makes of it. So every code is in one table,
 * with its meaning and whether it is a verdict, and a mistyped code does not compile. A class may extend CodedError and type its codes itself.
 */
interface Node {
  readonly type: string;
  readonly name?: string;
  readonly callee?: Node;
}
interface Context {
  report(problem: { node: Node; message: string }): void;
}

export const codesOfTables = {
  meta: { docs: { description: 'a coded error comes from the table of its area' } },
  create: (context: Context) => ({
    NewExpression(node: Node) {
      if (node.callee?.type !== 'Identifier' || node.callee.name !== 'CodedError') return;
      context.report({ node, message: 'a code outside a table: make the error by the `errorsOf` of its area, or by `reworded`' });
    },
  }),
};
