/** Which line of fleet code made what. */
import { Node, type IConstruct } from 'constructs';
import { originPort, rememberOrigin } from '../../../constructs/origin.ts';
import { SCHEME, pathOf } from './scheme.ts';

/** Reads the frames above `helper`, also where fleet code has changed Error in the meantime. */
function framesAbove<T extends string>(
  helper: (...args: never[]) => unknown,
  read: (sites: NodeJS.CallSite[]) => T | undefined,
): T | undefined {
  const before = { stackTraceLimit: Error.stackTraceLimit, prepareStackTrace: Reflect.get(Error, 'prepareStackTrace') as unknown };
  const holder: { stack?: T } = {};
  try {
    Error.stackTraceLimit = 50;
    Error.prepareStackTrace = (_, sites) => read(sites);
    Error.captureStackTrace(holder, helper);
    return holder.stack;
  } finally {
    Object.assign(Error, before);
  }
}

/**
 * The innermost line of fleet code that is not inside a constructor: of a subclass it is the line that makes one, not its
 * own `super()`. undefined when no fleet code is running.
 */
export function fleetLine(): string | undefined {
  return framesAbove(fleetLine, (sites) => {
    const ours = sites.filter((site) => site.getFileName()?.startsWith(SCHEME) === true);
    const site = ours.find((each) => !each.isConstructor()) ?? ours[0];
    return site === undefined
      ? undefined
      : `${pathOf(site.getFileName() ?? '')}:${site.getLineNumber() ?? 0}:${site.getColumnNumber() ?? 0}`;
  });
}

/** True when it is fleet code that called `helper`, and not a package or Node itself. */
export function calledByFleet(helper: (...args: never[]) => unknown): boolean {
  const caller = framesAbove(helper, (sites) => sites.map((site) => site.getFileName() ?? '').find((file) => file !== ''));
  return caller?.startsWith(SCHEME) === true;
}

/**
 * From here on every construct remembers its line: each constructor reaches `addChild`, also those of cdk8s and cdk8s-plus.
 * Returns everything that will be made, so that what is in no cluster is not lost without a report.
 */
export function rememberLocations(): ReadonlySet<IConstruct> {
  const made = new Set<IConstruct>();
  const addChild: unknown = Reflect.get(Node.prototype, 'addChild');
  if (typeof addChild !== 'function') throw new TypeError('this version of constructs has no addChild');
  Reflect.set(Node.prototype, 'addChild', function remembering(this: Node, child: IConstruct, name: string) {
    made.add(child);
    rememberOrigin(child, fleetLine());
    Reflect.apply(addChild, this, [child, name]);
  });
  originPort.find = fleetLine;
  return made;
}
