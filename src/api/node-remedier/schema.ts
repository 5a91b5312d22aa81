/** Schemas of a NodeRemedier, and of its parts that other kinds have too. */
import { Type } from 'typebox';
import { atomic, conditions, labelSelector, seconds, time, values } from '../fields.ts';
import { ACTIONS } from './values.ts';

export const rung = Type.Object({
  action: Type.Enum([...ACTIONS]),
  args: Type.Optional(values('arguments of the action; which there are: ACTION_ARGS')),
  attempts: Type.Optional(Type.Integer({ minimum: 1, maximum: 10, description: 'before the next rung; default 1' })),
  timeoutSeconds: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: 86_400,
      description: 'from the order: within this time the proof of recovery must have begun; default 600',
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

/** How recovery is proved. */
export const healedWhen = Type.Object({
  condition: Type.String({ minLength: 1, description: 'type of a condition' }),
  of: Type.Optional(Type.Enum(['Node', 'Machine'], { description: 'whose condition; default Node' })),
  is: Type.Enum(['True', 'False']),
  onNewBoot: Type.Optional(Type.Boolean({ description: 'only a boot later than the one of the order counts; a Reboot always needs that' })),
  forSeconds: Type.Integer({ minimum: 1, maximum: 86_400, description: 'it must stay so for this long' }),
});

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
  mode: Type.Optional(Type.Enum(['Shadow', 'Enforce'], { description: 'Shadow only reports what it would do; default Shadow' })),
  pools: Type.Optional(atomic(Type.String({ minLength: 1 }), { minItems: 1, description: 'namespaces; absent: all' })),
  selector: Type.Optional(labelSelector()),
  unitDigest: Type.Optional(Type.String({ description: 'written by sync' })),
});

export const nodeRemedierStatus = Type.Object({
  observedGeneration: Type.Optional(Type.Integer()),
  acceptedDigest: Type.Optional(Type.String({ description: 'spec.unitDigest that Accepted is about' })),
  validationErrors: Type.Optional(
    atomic(Type.Object({ path: Type.String(), message: Type.String(), hint: Type.String() }), {
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
});
