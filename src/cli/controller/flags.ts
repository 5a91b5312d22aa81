import type { ConnectionFlags } from '../connection.ts';
import { requireDomains } from '../node-domains.ts';
import type { Isolation } from '../../sync/render/wall.ts';
import { cliError } from '../errors.ts';

export interface ControllerFlags extends ConnectionFlags {
  hub?: boolean;
  cell?: boolean;
  leaderElect: string;
  leaseSeconds: string;
  cache?: string;
  isolation?: Isolation;
  localNodes?: string;
  mirror?: string;
  namespace: string;
  server?: string;
  separateIdentities?: boolean;
  reservedNodeNames?: string[];
  nodeDomains?: string[];
  componentKey?: string[];
  health?: string;
  metrics?: string;
  logLevel: string;
}

/** Flags of a cell alone. */
const CELL_FLAGS = ['server', 'separateIdentities', 'mirror', 'localNodes', 'reservedNodeNames', 'nodeDomains', 'componentKey'] as const;

/** Checks flags against each other. Errors: `Usage`. */
export function readFlags(flags: ControllerFlags): { role: 'hub' | 'cell'; leaseSeconds: number } {
  if (flags.hub !== true && flags.cell !== true) throw cliError('Usage', 'choose which controllers to run: --hub or --cell');
  if (flags.hub === true && flags.cache === undefined)
    throw cliError('Usage', '--hub needs --cache DIR, a folder for what can be made again');
  for (const name of CELL_FLAGS) {
    if (flags.hub === true && flags[name] !== undefined)
      throw cliError('Usage', `--${name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)} is for --cell`);
  }
  if (flags.cell === true && flags.isolation !== undefined) throw cliError('Usage', '--isolation is for --hub');
  if (flags.server !== undefined && !/^https:\/\/[^/?#]+\/?$/.test(flags.server))
    throw cliError('Usage', `\`--server\` must be https://host:port, got "${flags.server}"`);
  requireDomains(flags.nodeDomains);
  const leaseSeconds = Number(flags.leaseSeconds);
  if (!Number.isInteger(leaseSeconds) || leaseSeconds < 3 || leaseSeconds > 3600)
    throw cliError('Usage', `\`--lease-seconds\` must be whole seconds from 3 to 3600, got "${flags.leaseSeconds}"`);
  return { role: flags.hub === true ? 'hub' : 'cell', leaseSeconds };
}
