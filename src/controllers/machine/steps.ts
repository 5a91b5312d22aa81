/** Every step that `decide` can ask for: one line of the table of its folder. The explorer in test/explorer runs exactly these guarded writes. */
import type { RecordedEvent } from '../../kube/recorder.ts';
import type { Performed } from '../../defender/guarded-write.ts';
import { CORDON_STEPS } from './cordon/steps.ts';
import { DELETION_STEPS } from './deletion/steps.ts';
import { DRAIN_STEPS } from './drain/steps.ts';
import type { Act, ActContext } from './guards.ts';
import { NODE_SYNC_STEPS } from './node-sync/steps.ts';
import { ORDER_STEPS } from './order/steps.ts';
import { POWER_STEPS } from './power/steps.ts';
import { PROVISION_STEPS } from './provision/steps.ts';
import { REPAIR_STEPS } from './repair/steps.ts';
import { RESERVATION_STEPS } from './reservation/steps.ts';
import type { Hands, StepKinds, StepName, StepOf } from './step-kind.ts';
import type { MachineView, Step } from './view.ts';

const STEPS: StepKinds<StepName> = {
  ...RESERVATION_STEPS,
  ...CORDON_STEPS,
  ...DRAIN_STEPS,
  ...ORDER_STEPS,
  ...REPAIR_STEPS,
  ...POWER_STEPS,
  ...DELETION_STEPS,
  ...PROVISION_STEPS,
  ...NODE_SYNC_STEPS,
};

/** The step as a guarded write; undefined for steps that change nothing which two leaders could dispute. */
export function actOf(step: Step, context: ActContext): Act | undefined {
  return guarded(step.do, step, context);
}

/** Carries out a step that is no guarded write. */
export async function carryOutPlainly(step: Step, view: MachineView, hands: Hands): Promise<Performed> {
  return await plain(step.do, step, view, hands);
}

/** What a person who describes a Machine should read of a step that was carried out; undefined where nothing is new. */
export function eventOf(step: Step, view: MachineView, note: string | undefined): RecordedEvent | undefined {
  return event(step.do, step, view, note);
}

// TypeScript follows from the name of a step to its kind only where one type parameter stands for both.
function guarded<K extends StepName>(name: K, step: StepOf<K>, context: ActContext): Act | undefined {
  return STEPS[name].guarded?.(step, context);
}

async function plain<K extends StepName>(name: K, step: StepOf<K>, view: MachineView, hands: Hands): Promise<Performed> {
  const carryOut = STEPS[name].plain;
  if (carryOut === undefined) throw new Error(`${name} is a guarded write`);
  return await carryOut(step, view, hands);
}

function event<K extends StepName>(name: K, step: StepOf<K>, view: MachineView, note: string | undefined): RecordedEvent | undefined {
  return STEPS[name].event?.(step, view, note);
}
