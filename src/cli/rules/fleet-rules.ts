/** The repair rules of a fleet, rendered and checked as the hub would. */
import { canonical } from '../../api/digest.ts';
import { NodeRemediers, type NodeRemedier } from '../../api/node-remedier.ts';
import { checkRules } from '../../rules/check.ts';
import { readFleet, type FleetFolder } from '../fleet-folder.ts';
import { judgeObject } from '../object-rules.ts';
import { RenderError } from '../../sync/render/errors.ts';
import type { Finding } from '../../sync/render/finding.ts';
import { render } from '../../sync/render/render.ts';
import { typecheck, type TypeCheck } from '../../sync/render/type-check.ts';
import { validate } from '../../sync/render/validate.ts';
import type { Isolation } from '../../sync/render/wall.ts';
import { unusedFiles } from './unused.ts';

/** One rule, with the clusters that have it just so. */
export interface FleetRule {
  rule: NodeRemedier;
  clusters: string[];
  /** `rules/hung.ts:12:3` */
  location: string;
}

/** A finding and the clusters it is in. */
export type ClusterFindings = Finding & { clusters: string[] };

export interface FleetRules {
  /** By name. Of a fleet with findings: none. */
  rules: FleetRule[];
  clusters: string[];
  findings: ClusterFindings[];
  /** The wall that it was rendered behind. */
  isolation: Isolation;
  /** Why types could not be checked; undefined: they were, no check was asked for, or something else was found first. */
  untyped?: string | undefined;
}

/** `types`: also TypeScript's own check, which takes seconds and the hub does without. Errors: `RenderIsolation`, and those of reading the folder. Any other that rendering has is a finding. */
export async function fleetRules(
  folder: FleetFolder,
  childPath: string,
  signal: AbortSignal,
  { isolationAtLeast = 'process', types = false }: { isolationAtLeast?: Isolation; types?: boolean } = {},
): Promise<FleetRules> {
  const files = await readFleet(folder, signal);
  const rendered = await render(files, { isolationAtLeast, childPath, entry: folder.entry, signal }).catch((error: unknown) => {
    if (error instanceof RenderError && error.code !== 'RenderIsolation') return error;
    throw error;
  });
  if (rendered instanceof RenderError)
    return { rules: [], clusters: [], findings: grouped(rendered.findings), isolation: rendered.isolation ?? 'process' };
  const { isolation } = rendered;
  const clusters = rendered.clusters.map(({ name }) => name);
  const validation = validate(rendered, { checkRules, judgeObject });
  if (!validation.ok) return { rules: [], clusters, findings: grouped(validation.findings), isolation };
  const typed = types ? await typesOf(files, folder.entry, isolationAtLeast, signal) : undefined;
  const found = [...(typed?.checked === true ? typed.findings : []), ...unusedFiles(files, folder.entry)];
  const untyped = typed?.checked === false ? typed.reason : undefined;
  if (found.length > 0) return { rules: [], clusters, findings: grouped(found), isolation, untyped };
  const rules = new Map<string, FleetRule>();
  for (const { name, objects } of rendered.clusters)
    for (const { object, location } of objects) {
      if (object.kind !== NodeRemediers.kind || object.apiVersion !== `${NodeRemediers.group}/${NodeRemediers.version}`) continue;
      const rule = NodeRemediers.parse(object);
      const key = `${rule.metadata.name} ${canonical(rule.spec)}`;
      const known = rules.get(key);
      if (known === undefined) rules.set(key, { rule, clusters: [name], location });
      else known.clusters.push(name);
    }
  const sorted = [...rules.values()].sort((a, b) => (a.rule.metadata.name < b.rule.metadata.name ? -1 : 1));
  return { rules: sorted, clusters, findings: [], isolation, untyped };
}

/** Nothing is read but what the wall lets through where that was asked for; the compiler reads what the files name, wherever it lies. */
async function typesOf(files: ReadonlyMap<string, string>, entry: string, isolation: Isolation, signal: AbortSignal): Promise<TypeCheck> {
  if (isolation === 'namespaces') return { checked: false, reason: 'the compiler runs behind no wall' };
  return await typecheck(files, { entry, signal });
}

/** One error in the text is a finding in every cluster that it makes objects for. */
function grouped(findings: readonly Finding[]): ClusterFindings[] {
  const byText = new Map<string, ClusterFindings>();
  for (const finding of findings) {
    const { cluster, ...rest } = finding;
    const key = canonical(rest);
    const known = byText.get(key);
    if (known === undefined) byText.set(key, { ...finding, clusters: cluster === undefined ? [] : [cluster] });
    else if (cluster !== undefined) known.clusters.push(cluster);
  }
  return [...byText.values()];
}
