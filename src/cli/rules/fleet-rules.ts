/** The repair rules of a fleet, rendered and checked as the hub would. */
import { canonical } from '../../api/digest.ts';
import { NodeRemediers, type NodeRemedier } from '../../api/node-remedier.ts';
import { checkRules } from '../../rules/check.ts';
import { judgeObject } from '../object-rules.ts';
import { RenderError } from '../../sync/render/errors.ts';
import type { Finding } from '../../sync/render/finding.ts';
import { render } from '../../sync/render/render.ts';
import { validate } from '../../sync/render/validate.ts';
import type { Isolation } from '../../sync/render/wall.ts';
import { unusedFiles } from './unused.ts';
import { readFleet, type FleetFolder } from './working-tree.ts';

/** One rule, with the clusters that have it just so. */
export interface FleetRule {
  rule: NodeRemedier;
  clusters: string[];
  /** `rules/hung.ts:12:3` */
  location: string;
}

/** A mistake and the clusters it is in. */
export type ClusterFindings = Finding & { clusters: string[] };

export interface FleetRules {
  /** By name. Of a fleet with findings: none. */
  rules: FleetRule[];
  clusters: string[];
  findings: ClusterFindings[];
  /** The wall that it was rendered behind. */
  isolation: Isolation;
}

/** Errors: `RenderIsolation`, and those of reading the folder. Any other that rendering has is a finding. */
export async function fleetRules(
  folder: FleetFolder,
  childPath: string,
  signal: AbortSignal,
  isolationAtLeast: Isolation = 'process',
): Promise<FleetRules> {
  const files = readFleet(folder);
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
  const unused = unusedFiles(files, folder.entry);
  if (unused.length > 0) return { rules: [], clusters, findings: grouped(unused), isolation };
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
  return { rules: sorted, clusters, findings: [], isolation };
}

/** One mistake in the text is found in every cluster that it makes objects for. */
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
