import type { Machine } from '../api/machine.ts';
import { fullRung, RUNG_DEFAULTS } from '../api/noderemedier.ts';
import type { RemedyOperationJobSpec } from '../api/remedyoperationjob.ts';
import { whyFired } from './explain.ts';
import type { LadderStep } from './ladder.ts';
import type { RuleOutcome } from './pass.ts';

/** The job that a rule which is due makes for a step of its ladder. */
export function jobSpecOf(
  outcome: RuleOutcome,
  step: LadderStep & { step: 'Act' | 'AskHuman' },
  machine: Machine,
  nowMs: number,
): RemedyOperationJobSpec {
  const { rule } = outcome.rule;
  const { spec } = rule;
  const rung = spec.ladder[step.rung];
  const { timeoutSeconds } = rung === undefined ? RUNG_DEFAULTS : fullRung(rung);
  return {
    rule: rule.metadata.name,
    ...(rule.metadata.uid === undefined ? {} : { ruleUID: rule.metadata.uid }),
    ...(spec.unitDigest === undefined ? {} : { unitDigest: spec.unitDigest }),
    machine: { name: machine.metadata.name, uid: machine.metadata.uid ?? '' },
    node: machine.status?.nodeRef?.name ?? '',
    rung: step.rung,
    attempt: step.step === 'Act' ? step.attempt : 1,
    action: step.step === 'Act' ? step.action : 'Human',
    ...(rung?.args === undefined ? {} : { args: rung.args }),
    timeoutSeconds,
    healedWhen: spec.healedWhen,
    priority: spec.priority ?? 0,
    matchedSince: new Date(outcome.sinceMs ?? nowMs).toISOString(),
    why: whyFired(outcome),
  };
}
