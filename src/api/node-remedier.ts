import type { Static } from 'typebox';
import { defineKind } from './kind/definition.ts';
import { nodeRemedierSpec, nodeRemedierStatus, type healedWhen, type rung } from './node-remedier/schema.ts';

export type Rung = Static<typeof rung>;
export type HealedWhen = Static<typeof healedWhen>;
export type NodeRemedierSpec = Static<typeof nodeRemedierSpec>;

export const NodeRemediers = defineKind({
  kind: 'NodeRemedier',
  plural: 'noderemediers',
  shortNames: ['nrem'],
  namespaced: false,
  description: 'A repair rule: how an unhealthy node is recognised, what is tried against it, and what proves that it helped.',
  spec: nodeRemedierSpec,
  status: nodeRemedierStatus,
  columns: [
    { name: 'Mode', type: 'string', jsonPath: '.spec.mode' },
    { name: 'Accepted', type: 'string', jsonPath: '.status.conditions[?(@.type=="Accepted")].status' },
    { name: 'Holds', type: 'integer', jsonPath: '.spec.holdsForSeconds', description: 'seconds' },
    { name: 'Would', type: 'integer', jsonPath: '.status.counters.wouldBeJobs', description: 'jobs it would have made in Shadow' },
    { name: 'Jobs', type: 'integer', jsonPath: '.status.counters.jobs' },
    { name: 'Last', type: 'string', jsonPath: '.status.lastJob.node', priority: 1 },
  ],
});
export type NodeRemedier = ReturnType<typeof NodeRemediers.parse>;
