import type { LedgerReservation } from '../../../api/disruption-ledger.ts';
import type { Machine } from '../../../api/machine.ts';
import type { Clock } from '../../../api/ports.ts';
import type { InfraProvider } from '../../../api/provider.ts';
import type { Stored } from '../../../api/wire.ts';
import type { Reflector } from '../../../kube/reflector.ts';
import { isOnItsProvider } from '../decide.ts';
import { isDeleting } from '../facts.ts';
import { instanceOf } from '../provision/instance.ts';
import type { InstanceView } from '../view.ts';

/** How old the answer of a provider may be about a machine that runs. The provider is asked every time about any other machine. */
const KEPT_MS = 60_000;

interface Answer {
  view: InstanceView;
  /** Monotonic ms. */
  at: number;
}

/** What providers answered last about the instances of machines. */
export interface Instances {
  of(
    machine: Stored<Machine>,
    reservation: LedgerReservation | undefined,
    provider: InfraProvider | undefined,
    signal: AbortSignal,
  ): Promise<InstanceView>;
  stop(): void;
}

export function createInstances(machines: Pick<Reflector<Machine>, 'subscribe'>, clock: Pick<Clock, 'monotonic'>): Instances {
  /** By the UID of the machine. */
  const answers = new Map<string, Answer>();
  const stop = machines.subscribe((event) => {
    if (event.type === 'deleted') answers.delete(event.object.metadata.uid);
  });
  return {
    async of(machine, reservation, provider, signal) {
      const { uid } = machine.metadata;
      const last = answers.get(uid);
      if (last !== undefined && isSettled(machine, reservation, last) && clock.monotonic() - last.at < KEPT_MS) return last.view;
      const view = await instanceOf(machine, provider, signal);
      answers.set(uid, { view, at: clock.monotonic() });
      return view;
    },
    stop,
  };
}

/** The machine runs, and neither its deletion nor a repair of its provider is under way. */
function isSettled(machine: Stored<Machine>, reservation: LedgerReservation | undefined, { view }: Answer): boolean {
  return (
    !isOnItsProvider({ machine, reservation }) && machine.status?.phase === 'Running' && !isDeleting(machine) && view.state === 'Present'
  );
}
