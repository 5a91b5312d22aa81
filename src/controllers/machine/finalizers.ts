import type { Performed } from '../../defender/guarded-write.ts';
import { unlessConflict, writeMachine } from './patching.ts';
import type { Hands } from './step-kind.ts';
import type { MachineView } from './view.ts';

export async function setFinalizers(view: MachineView, finalizers: string[], { client, signal }: Hands): Promise<Performed> {
  const { machine } = view;
  const wanted = { ...machine, metadata: { ...machine.metadata, finalizers } };
  return await unlessConflict(writeMachine(client, machine, wanted, { known: false, signal }));
}
