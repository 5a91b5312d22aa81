/** One validation error in a fleet, and where it is. Locations are as people write them: lines and columns count from 1. */
export interface Finding {
  /** Of `renderErrorCodes`, `findingCodes` or the constructs' `fleetErrorCodes`. */
  code: string;
  message: string;
  /** Path in the commit. Absent when no location is known. */
  file?: string | undefined;
  line?: number | undefined;
  column?: number | undefined;
  cluster?: string | undefined;
  /** `Kind/[namespace/]name` */
  object?: string | undefined;
  /** Field of the object: `spec.batches[0]`. */
  path?: string | undefined;
  /** Something to do about it. */
  next?: string | undefined;
  /** What called that location: `fleet/nodes.ts:12:3`, innermost first. */
  trace?: string[] | undefined;
}

/** `fleet/nodes.ts:12:3` as fields. */
export function positionOf(location: string): Pick<Finding, 'file' | 'line' | 'column'> {
  const match = /^(.+?)(?::(\d+))?(?::(\d+))?$/s.exec(location);
  if (match?.[1] === undefined) return {};
  return {
    file: match[1],
    line: match[2] === undefined ? undefined : Number(match[2]),
    column: match[3] === undefined ? undefined : Number(match[3]),
  };
}

/** One line: `fleet/nodes.ts:12:3: MachineSet/web/a: spec.replicas: must be …`. */
export function findingText({ file, line, column, cluster, object, path, message }: Finding): string {
  const position = [file, line, column].filter((part) => part !== undefined).join(':');
  const subject = object === undefined ? undefined : cluster === undefined ? object : `${object} in ${cluster}`;
  return [position === '' ? undefined : position, subject, path === undefined ? undefined : `\`${path}\``, message]
    .filter((part) => part !== undefined)
    .join(': ');
}

const MOST_NAMED = 3;

/** For people: what is wrong in the same way in several clusters, such as an object of a loop, once and with their names (`bj-1, bj-2, bj-3 and 27 more`). */
export function oncePerFleet(findings: readonly Finding[]): Finding[] {
  const clustersOf = new Map<string, { finding: Finding; names: string[] }>();
  for (const { cluster, ...finding } of findings) {
    const key = JSON.stringify(finding);
    const known = clustersOf.get(key) ?? { finding, names: new Array<string>() };
    if (cluster !== undefined && !known.names.includes(cluster)) known.names.push(cluster);
    clustersOf.set(key, known);
  }
  return [...clustersOf.values()].map(({ finding, names }) => {
    const more = names.length - MOST_NAMED;
    const named = more > 0 ? `${names.slice(0, MOST_NAMED).join(', ')} and ${more} more` : names.join(', ');
    return names.length === 0 ? finding : { ...finding, cluster: named };
  });
}
