/** What several rules ask besides the fault itself. */
import { any, fact, type Term } from 'kubenode/constructs';

/**
 * Machines in use: not those that are still installed, are being deleted or have lost their Node. `Degraded` belongs to them: a node that a
 * repair did not heal is left Degraded, and a rule that stopped matching there would never climb its ladder.
 */
export const inUse = fact('machine.phase').in('Running', 'Degraded');

/**
 * Less than this share of the other machines of the pool is unhealthy. When many are, it is a version, a registry or a network, and repairing nodes
 * one by one only harms. In a pool of a few machines one of them is a large share already; there only Defender's limits count.
 */
export const poolIsWell = (percent: number): Term =>
  any(fact('peers.pool.total').below(9), fact('peers.pool.unhealthyPercent').below(percent));
