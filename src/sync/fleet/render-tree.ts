/** The files of one commit, or of a folder, rendered, validated and split into units, as the hub does before it accepts them. */
import { CodedError } from '../../api/errors.ts';
import type { FleetSpec } from '../../api/fleet.ts';
import type { KubeObject } from '../../api/wire.ts';
import { findingText, oncePerFleet, type Finding } from '../render/finding.ts';
import { isVerdict, RenderError } from '../render/errors.ts';
import { render } from '../render/render.ts';
import { objectKey, validateInTurns, type Checks } from '../render/validate.ts';
import { strongest, type Isolation } from '../render/wall.ts';
import type { RenderedCommit } from './checkout.ts';
import { DEFAULT_ENTRY } from './entry.ts';

const SHOWN_FINDINGS = 10;

export interface Renderer extends Checks {
  /** The bundled render child. */
  childPath: string;
  /** The weakest wall that is accepted; a Fleet may ask for a stronger one. */
  isolation: Isolation;
  /** Renders once, for what was accepted already. Absent: twice, and what differs is refused. */
  once?: boolean;
}

/** `files`: text by path. Errors: those of rendering and of findings, with `verdict` where the content is judged. */
export async function renderTree(
  files: ReadonlyMap<string, string>,
  spec: Pick<FleetSpec, 'entry' | 'isolation'>,
  { childPath, isolation, once = false, ...checks }: Renderer,
  signal: AbortSignal,
): Promise<RenderedCommit> {
  try {
    const rendered = await render(files, {
      childPath,
      entry: spec.entry ?? DEFAULT_ENTRY,
      isolationAtLeast: strongest(spec.isolation ?? isolation, isolation),
      verify: !once,
      signal,
    });
    const validation = await validateInTurns(rendered, checks, signal);
    if (!validation.ok) throw new TreeRefusal(validation.findings);
    return {
      isolation: rendered.isolation,
      ms: rendered.ms,
      clusters: validation.valid.clusters.map((cluster) => ({
        name: cluster.name,
        object: cluster.cluster,
        units: cluster.units.map((unit) => ({
          ...unit,
          origins: unit.objects.map((object: KubeObject) => cluster.locations.get(objectKey(object))),
        })),
      })),
    };
  } catch (error) {
    throw error instanceof RenderError ? new TreeRefusal(error.findings) : error;
  }
}

/** What keeps a tree from being applied: the first findings, under the code of the first. */
class TreeRefusal extends CodedError {
  constructor(findings: readonly Finding[]) {
    const each = oncePerFleet(findings);
    const lines = each.slice(0, SHOWN_FINDINGS).map(findingText);
    if (each.length > SHOWN_FINDINGS) lines.push(`… and ${each.length - SHOWN_FINDINGS} more`);
    const next = findings.find((finding) => finding.next !== undefined)?.next;
    super(findings[0]?.code ?? 'InvalidFleet', lines.join('\n'), { verdict: isVerdict(findings), ...(next === undefined ? {} : { next }) });
    this.name = 'TreeRefusal';
  }
}
