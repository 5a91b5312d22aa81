/** What commands have in common that render the fleet in a folder. */
import { renderErrorCodes } from '../sync/render/errors.ts';
import { Option, type Command } from 'commander';
import { ISOLATIONS } from '../api/fleet.ts';
import { isCoded, reworded } from '../api/errors.ts';
import type { Isolation } from '../sync/render/wall.ts';
import type { Output } from './output.ts';
import { outputFlag } from './output-flag.ts';
import { DEFAULT_ENTRY, DEFAULT_INCLUDE } from '../sync/fleet/entry.ts';

export interface FleetFlags {
  entry: string;
  include?: string[];
  isolation?: Isolation;
  output?: 'json';
}

export function fleetFlags(command: Command): Command {
  return command
    .option('--entry <path>', 'module that declares the fleet, as spec.entry of the Fleet', DEFAULT_ENTRY)
    .option('--include <folder...>', `folders that rendering sees, as spec.include of the Fleet (default: ${DEFAULT_INCLUDE.join(', ')})`)
    .addOption(
      new Option(
        '--isolation <wall>',
        'weakest wall around the code of the fleet that is accepted: "namespaces" of its own, or just a "process" of this user (default: the best there is). Ask for namespaces where the code is not yours',
      ).choices(ISOLATIONS),
    )
    .addOption(outputFlag(['json'], 'one JSON object'));
}

/** On stderr: stdout is what programs read. */
export function reportIsolation(isolation: Isolation, output: Output): void {
  if (isolation === 'namespaces') output.report('done', 'rendered at isolation namespaces');
  else
    output.report(
      'warning',
      'rendered at isolation process: nothing but Node itself kept the code of the fleet from what you may do here. For code that is not yours: --isolation namespaces (kubenode check reports what this machine has)',
    );
}

/** An error of rendering, with what the user of a command can do about isolation that is not available. */
export function ofCommand(error: unknown): unknown {
  if (!isCoded(error, renderErrorCodes, 'RenderIsolation')) return error;
  return reworded(error, error.message, {
    cause: error,
    next: 'install util-linux or bubblewrap, and allow user namespaces (docs/security.md, "The two walls"); or, for code that you trust: --isolation process',
  });
}
