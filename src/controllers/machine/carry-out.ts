import { CodedError } from '../../api/errors.ts';
import { perform, type Performed } from '../../defender/guarded-write.ts';
import { isRefusal } from '../../kube/api-error.ts';
import type { ActContext } from './guards.ts';
import type { Hands } from './step-kind.ts';
import { actOf, carryOutPlainly } from './steps.ts';
import type { MachineView, Step } from './view.ts';

export interface CarriedOut {
  done: Step['do'][];
  /** Effects that the other side refused, each with why. */
  refusals: string[];
  /** The provider would not make the instance. */
  failure: CodedError | undefined;
  /** The message of the server where it refuses a Node with the Machine's labels and taints: nothing else waits for that. */
  nodeRefused?: string;
}

/** Carries steps out in order. What is not needed any more, or was lost to a faster writer, is left out: the state will show it. */
export async function carryOutAll(
  steps: readonly Step[],
  view: MachineView,
  hands: Hands,
  onDone: (step: Step, result: { note?: string }) => void,
): Promise<CarriedOut> {
  const result: CarriedOut = { done: [], refusals: [], failure: undefined };
  let proven = steps.every((step) => step.do !== 'DeleteInstance');
  for (const step of steps) {
    if (step.do === 'Finalize' && !proven) break;
    try {
      const performed = await carryOut(step, view, hands);
      if (performed.done) {
        result.done.push(step.do);
        onDone(step, performed);
        proven ||= step.do === 'DeleteInstance' && performed.note === 'gone';
      } else if (performed.refused === true) result.refusals.push(performed.why);
    } catch (error) {
      if (step.do === 'SyncNode' && isRefusal(error)) {
        result.nodeRefused = error.message;
        continue;
      }
      if (step.do !== 'EnsureInstance' || !(error instanceof CodedError) || hands.signal.aborted) throw error;
      result.failure = error;
    }
  }
  return result;
}

/** Carries one step out, or gives why there is nothing to do any more. */
async function carryOut(step: Step, view: MachineView, hands: Hands): Promise<Performed> {
  const { namespace, name } = view.machine.metadata;
  const context: ActContext = { epoch: hands.epoch, machine: { namespace, name }, node: name, facts: view.facts, newID: hands.newID };
  const act = actOf(step, context);
  return act === undefined ? await carryOutPlainly(step, view, hands) : await perform(act, hands.port);
}
