import { FINALIZERS } from '../../../api/names.ts';
import { normal } from '../events.ts';
import { setFinalizers } from '../finalizers.ts';
import type { StepKinds } from '../step-kind.ts';
import { ensureInstance } from '../../identity/provision.ts';

export const PROVISION_STEPS: StepKinds<'AddFinalizer' | 'EnsureInstance'> = {
  AddFinalizer: {
    guarded: undefined,
    plain: (_, view, hands) => setFinalizers(view, [...(view.machine.metadata.finalizers ?? []), FINALIZERS.machine], hands),
    event: undefined,
  },
  EnsureInstance: {
    guarded: undefined,
    plain: async (_, { machine }, { client, provider, cell, signal }) => {
      if (provider === undefined) return { done: false, why: 'the cell has no such provider' };
      await ensureInstance(client, machine, provider, cell, signal);
      return { done: true };
    },
    event: () => normal('InstanceMade', 'its provider was asked for an instance, and has one'),
  },
};
