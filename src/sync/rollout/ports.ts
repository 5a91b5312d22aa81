import type { Clock } from '../../api/ports.ts';
import type { Client } from '../../kube/client.ts';
import type { StoredUnit } from '../bundles.ts';
import type { CellContent } from '../cell/cell.ts';
import type { Fence } from '../fence.ts';
import type { Step } from './world.ts';

/** What steps are carried out with. */
export interface ActPorts {
  hub: Client;
  /** Of the term that has decided. */
  fence: Pick<Fence, 'require'>;
  fleet: string;
  clock: Clock;
  cell: CellContent | undefined;
  /** The unit's objects; renders the commit again when the cache lost them. */
  unit(digest: string, commit: string, unit: string, cluster: string): Promise<StoredUnit>;
  /** Called with what others had changed of a unit that was there as a whole, once it is put back. */
  corrected?: (step: Step, corrections: readonly string[]) => void;
  signal: AbortSignal;
}
