import { fact } from 'kubenode/constructs';

/**
 * Machines in use: not those that are still installed, are being deleted or have lost their Node. `Degraded` belongs to them: a node that a
 * repair did not mend is left Degraded, and a rule that stopped matching there would never climb its ladder.
 */
export const inUse = fact('machine.phase').in('Running', 'Degraded');
