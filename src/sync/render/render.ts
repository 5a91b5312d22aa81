/** From the files of a commit to objects. */
import { existsSync } from 'node:fs';
import { canonical } from '../../api/digest.ts';
import { decode, type RenderedCluster } from './decode.ts';
import { RenderError, type RenderErrorCode } from './errors.ts';
import { positionOf, type Finding } from './finding.ts';
import { importCircle } from './imports.ts';
import { DEFAULT_LIMITS, runChild, type RenderLimits } from './run.ts';
import { atLeast, walls, type Isolation, type Wall } from './wall.ts';
import type { ChildInput } from './wire.ts';

export interface RenderOptions {
  /** The bundled child. */
  childPath: string;
  /** Module that declares the fleet: `fleet/main.ts`. */
  entry: string;
  /** Refuse to render behind less. Default `process`: any wall is accepted. */
  isolationAtLeast?: Isolation;
  /**
   * What comes of components that the fleet's file of signatures should have and has not. Decided here, outside of the child, which gets the same input
   * either way: fleet code cannot find out whether what it renders gets signed. Default `Refuse`.
   */
  unsigned?: 'Refuse' | 'Allow';
  /** Render twice and refuse what differs. */
  verify?: boolean;
  limits?: Partial<RenderLimits>;
  signal: AbortSignal;
  /** Default: what works on this machine, strongest first. The first one is taken. */
  walls?: readonly Wall[];
}

export interface Rendered {
  /** By name. At least one, and at least one object in all of them together. */
  clusters: RenderedCluster[];
  /** What fleet code logged, fit to print. */
  log: string;
  isolation: Isolation;
  /** How long it took. */
  ms: number;
}

/**
 * Runs the fleet that `files` (path and text, by path in the commit) declare. Same files, same objects.
 *
 * Guarantees: the code sees nothing but `files` and the packages on the shelf; it ends within the limits; nothing is left of it.
 * Errors: RenderError with findings, each with its line. An abort rejects with the signal's reason.
 */
export async function render(files: ReadonlyMap<string, string>, options: RenderOptions): Promise<Rendered> {
  const started = performance.now();
  const limits = { ...DEFAULT_LIMITS, ...options.limits };
  const [wall] = options.walls ?? (await walls());
  const isolation: Isolation = wall?.isolation ?? 'process';
  const wanted = options.isolationAtLeast ?? 'process';
  const refuse = (code: RenderErrorCode, message: string, next?: string, file?: string) =>
    new RenderError([{ code, message, next, file }], { isolation });
  if (wall === undefined || !atLeast(isolation, wanted))
    throw refuse(
      'RenderIsolation',
      `the fleet must be rendered behind "${wanted}", and "${isolation}" is what this machine has`,
      'docs/security.md lists what this wall needs (user namespaces and unshare or bubblewrap), and how to do without: kubenode controller --hub --isolation process',
    );
  if (!files.has(options.entry))
    throw refuse(
      'RenderNotFound',
      `the commit has no file "${options.entry}"`,
      'name the module that declares the fleet in Fleet `spec.entry`',
      options.entry,
    );
  if (!existsSync(options.childPath)) throw refuse('RenderCrashed', `the bundled child is not there: ${options.childPath}`);
  const input = JSON.stringify({ entry: options.entry, files: [...files] } satisfies ChildInput);
  if (input.length > limits.inputBytes)
    throw refuse('RenderTooLarge', `the files to render have ${input.length} bytes, at most ${limits.inputBytes} are allowed`);

  const first = await once();
  if (options.verify === true) {
    const second = await once();
    const unstable = difference(first.clusters, second.clusters);
    if (unstable !== undefined) throw new RenderError([unstable], { log: first.log, isolation });
  }
  return { ...first, isolation, ms: Math.round(performance.now() - started) };

  async function once(): Promise<Pick<Rendered, 'clusters' | 'log'>> {
    if (wall === undefined) throw refuse('RenderIsolation', 'there is no way to run the child');
    const { output, failure, log } = await runChild(wall, options.childPath, input, limits, options.signal);
    const fail = (...findings: [Finding, ...Finding[]]) => new RenderError(findings, { log, isolation });
    if (failure !== undefined) throw fail({ file: options.entry, ...failure });
    const decoded = decode(output);
    if (decoded === undefined)
      throw fail({ code: 'RenderCrashed', message: 'the child wrote something that is not a result', file: options.entry });
    const [one, ...more] = decoded.findings.map((finding) => withCircle(finding, files));
    if (one !== undefined) throw fail(one, ...more);
    const [missing, ...others] = options.unsigned === 'Allow' ? [] : decoded.unsigned;
    if (missing !== undefined) throw fail(missing, ...others);
    if (decoded.clusters.length === 0)
      throw fail({
        code: 'RenderEmpty',
        message: 'the fleet declares no cluster; an empty fleet deletes nothing',
        file: options.entry,
        next: "fleet.cluster('…')",
      });
    if (decoded.clusters.every((cluster) => cluster.objects.length === 0))
      throw fail({
        code: 'RenderEmpty',
        message: 'no cluster has any object; an empty fleet deletes nothing',
        file: options.entry,
        next: 'fleet.clusters(selector, (cluster) => …)',
      });
    return { clusters: decoded.clusters, log };
  }
}

/** The engine reports only that a name was read too early; where modules import each other the reason is not in that file. */
function withCircle(finding: Finding, files: ReadonlyMap<string, string>): Finding {
  // oxlint-disable-next-line kubenode/no-sentence-decisions -- V8 gives no code
  if (finding.file === undefined || !/^ReferenceError: Cannot access '[^']+' before initialization$/.test(finding.message)) return finding;
  const circle = importCircle(files, finding.file);
  if (circle === undefined) return finding;
  return {
    ...finding,
    message: `${finding.message}; files import each other: ${circle.join(' → ')}`,
    next: 'move what they need of each other into a file that imports none of them',
  };
}

function difference(a: RenderedCluster[], b: RenderedCluster[]): Finding | undefined {
  const [first, second] = [everyObject(a), everyObject(b)];
  const at = first.findIndex((each, index) => each.text !== second[index]?.text);
  const found = at >= 0 ? first[at] : second[first.length];
  if (found === undefined) return undefined;
  return {
    ...positionOf(found.location),
    code: 'RenderUnstable',
    cluster: found.cluster,
    object: `${found.object.kind}/${found.object.metadata.name}`,
    message: 'is another object on a second rendering of the same files',
  };
}

function everyObject(clusters: RenderedCluster[]) {
  return clusters.flatMap((cluster) =>
    [cluster, ...cluster.objects].map(({ object, location }) => ({ cluster: cluster.name, object, location, text: canonical(object) })),
  );
}
