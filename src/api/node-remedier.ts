import { Type, type Static } from 'typebox';
import type { Disruption } from './disruption.ts';
import { atomic, conditions, labelSelector, seconds, time, values } from './fields.ts';
import { defineKind } from './kind.ts';

/** What a rung may do, weakest first; Human does nothing to the node. */
export const ACTIONS = ['Human', 'CleanDisk', 'RestartComponent', 'MigratePods', 'Reboot', 'Replace'] as const;
export type Action = (typeof ACTIONS)[number];

export interface ActionTraits {
  /** Who carries it out. */
  by: 'Agent' | 'Controller' | 'Human';
  /** What it does to the workload; Drain and more take the pods away first. */
  disruption: Disruption;
  /**
   * What ends its job well. `Healed`: the rule's proof. `Done`: that it was done; it heals nothing by itself. `Gone`: the provider's proof that
   * the machine is no more. `Nothing`: a human ends it.
   */
  proof: 'Healed' | 'Done' | 'Gone' | 'Nothing';
}

export const ACTION_TRAITS: Readonly<Record<Action, ActionTraits>> = {
  Human: { by: 'Human', disruption: 'None', proof: 'Nothing' },
  CleanDisk: { by: 'Agent', disruption: 'None', proof: 'Healed' },
  RestartComponent: { by: 'Agent', disruption: 'Restart', proof: 'Healed' },
  MigratePods: { by: 'Controller', disruption: 'Drain', proof: 'Done' },
  Reboot: { by: 'Agent', disruption: 'Reboot', proof: 'Healed' },
  Replace: { by: 'Controller', disruption: 'Reboot', proof: 'Gone' },
};

/**
 * `action` of an operation of kind Repair. What the agent carries out it reports in `Machine.status.operation`; the rest is carried out by the
 * machine controller, which reports in `Machine.status.repair`, and agents leave it alone. PowerCycle is a Reboot of a node whose agent is
 * silent, by its provider.
 */
export const AGENT_OPERATIONS = ['CleanDisk', 'RestartComponent', 'Reboot'] as const;
export const CONTROLLER_OPERATIONS = ['MigratePods', 'Replace', 'PowerCycle'] as const;
export type RepairOperation = (typeof AGENT_OPERATIONS)[number] | (typeof CONTROLLER_OPERATIONS)[number];

export const rung = Type.Object({
  action: Type.Enum([...ACTIONS]),
  args: Type.Optional(values('arguments of the action; which there are: ACTION_ARGS')),
  attempts: Type.Optional(Type.Integer({ minimum: 1, maximum: 10, description: 'before the next rung; default 1' })),
  timeoutSeconds: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: 86_400,
      description: 'from the order: by then the proof of recovery must have begun; default 600',
    }),
  ),
  cooldownSeconds: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: 604_800,
      description: 'after an attempt, before anything more of this rule is done here; default none',
    }),
  ),
});
export type Rung = Static<typeof rung>;

/** What holds where a rung does not say. */
export const RUNG_DEFAULTS = { attempts: 1, timeoutSeconds: 600, cooldownSeconds: 0 } as const;

interface Argument {
  required: boolean;
  /** For people. */
  allowed: string;
  accepts(value: unknown): boolean;
}

const integer = (minimum: number, maximum: number) => (value: unknown) =>
  typeof value === 'number' && Number.isInteger(value) && value >= minimum && value <= maximum;

/** The arguments that each action takes, and no others. */
export const ACTION_ARGS: Readonly<Record<Action, Readonly<Record<string, Argument>>>> = {
  Human: {
    note: { required: false, allowed: 'a text for the person who is paged', accepts: (value) => typeof value === 'string' && value !== '' },
  },
  CleanDisk: { belowPercent: { required: true, allowed: 'the use of the disk to get below, from 1 to 99', accepts: integer(1, 99) } },
  RestartComponent: {
    component: { required: true, allowed: 'the name of a component', accepts: (value) => typeof value === 'string' && value !== '' },
  },
  MigratePods: { graceSeconds: { required: false, allowed: 'seconds from 0 to 3600', accepts: integer(0, 3600) } },
  Reboot: {},
  Replace: {},
};

/** How recovery is proved. */
export const healedWhen = Type.Object({
  condition: Type.String({ minLength: 1, description: 'type of a condition' }),
  of: Type.Optional(Type.Enum(['Node', 'Machine'], { description: 'whose condition; default Node' })),
  is: Type.Enum(['True', 'False']),
  onNewBoot: Type.Optional(Type.Boolean({ description: 'only a boot later than the one of the order counts; a Reboot always needs that' })),
  forSeconds: Type.Integer({ minimum: 1, maximum: 86_400, description: 'it must stay so for this long' }),
});
export type HealedWhen = Static<typeof healedWhen>;

export const DEFAULT_CLEARS_AFTER_SECONDS = 60;
export const DEFAULT_FORGET_AFTER_SECONDS = 86_400;

export const nodeRemedierSpec = Type.Object({
  when: values('conditions of json-rules-engine over the fact catalogue: all, any, not, and {fact, operator, value}'),
  holdsForSeconds: Type.Integer({ minimum: 0, maximum: 604_800, description: 'it must match for this long' }),
  clearsAfterSeconds: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: 86_400,
      description: 'a shorter gap in the match is flapping: it is not counted and resets nothing; default 60',
    }),
  ),
  ladder: atomic(rung, { minItems: 1, maxItems: 8, description: 'what is tried, in this order; the last rung is Human' }),
  healedWhen,
  forgetAfterSeconds: Type.Optional(
    seconds('this long after its last job on a machine the ladder begins at its first rung again; default one day', { minimum: 60 }),
  ),
  priority: Type.Optional(
    Type.Integer({ minimum: 0, maximum: 1000, description: 'of two rules on one machine the higher acts; default 0' }),
  ),
  mode: Type.Optional(Type.Enum(['Shadow', 'Enforce'], { description: 'Shadow only says what it would do; default Shadow' })),
  pools: Type.Optional(atomic(Type.String({ minLength: 1 }), { minItems: 1, description: 'namespaces; absent: all' })),
  selector: Type.Optional(labelSelector()),
  unitDigest: Type.Optional(Type.String({ description: 'written by sync' })),
});
export type NodeRemedierSpec = Static<typeof nodeRemedierSpec>;

export const NodeRemediers = defineKind({
  kind: 'NodeRemedier',
  plural: 'noderemediers',
  shortNames: ['nrem'],
  namespaced: false,
  description: 'A repair rule: how an unhealthy node is recognised, what is tried against it, and what proves that it helped.',
  spec: nodeRemedierSpec,
  status: Type.Object({
    observedGeneration: Type.Optional(Type.Integer()),
    acceptedDigest: Type.Optional(Type.String({ description: 'spec.unitDigest that Accepted speaks of' })),
    mistakes: Type.Optional(
      atomic(Type.Object({ path: Type.String(), message: Type.String(), mend: Type.String() }), {
        maxItems: 20,
        description: 'why it is not accepted; such a rule never runs',
      }),
    ),
    counters: Type.Optional(
      Type.Object(
        {
          since: time('when this spec was first accepted; a change of spec starts it again'),
          wouldBeJobs: Type.Integer({ minimum: 0, description: 'in Shadow' }),
          jobs: Type.Integer({ minimum: 0 }),
          succeeded: Type.Integer({ minimum: 0 }),
          failed: Type.Integer({ minimum: 0 }),
          needsHuman: Type.Integer({ minimum: 0 }),
        },
        { description: 'jobs of this rule; evidence for its rollout' },
      ),
    ),
    lastJob: Type.Optional(Type.Object({ name: Type.String(), node: Type.String(), at: time() })),
    conditions: conditions(),
  }),
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

/** A rung with its defaults. */
export function fullRung(rung: Rung): Rung & { attempts: number; timeoutSeconds: number; cooldownSeconds: number } {
  return { ...RUNG_DEFAULTS, ...rung };
}

/** How much an action interferes; greater is stronger. */
export const strengthOf = (action: Action): number => ACTIONS.indexOf(action);
