import { isCoded } from '../../api/errors.ts';
import type { Performed } from '../../defender/guarded-write.ts';
import { writeMachine } from './patching.ts';
import type { Hands } from './step-kind.ts';
import type { MachineView } from './view.ts';

export async function setFinalizers(view: MachineView, finalizers: string[], { client, signal }: Hands): Promise<Performed> {
  const { machine } = view;
  const wanted = { ...machine, metadata: { ...machine.metadata, finalizers } };
  return await unlessConflict(writeMachine(client, machine, wanted, { known: false, signal }));
}

/** A conflict is an answer: what was read has changed, and the next reconcile sees how. */
export async function unlessConflict(write: Promise<unknown>): Promise<Performed> {
  try {
    await write;
    return { done: true };
  } catch (error) {
    if (isCoded(error, 'Conflict')) return { done: false, why: 'it changed meanwhile' };
    throw error;
  }
}
