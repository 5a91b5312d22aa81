import { parseKeys } from '../../api/component-key.ts';
import { serviceAccountUser } from '../../api/identity.ts';
import type { Client } from '../../kube/client.ts';
import type { Connected } from '../connection.ts';
import type { Ports } from '../ports.ts';
import type { ControllerFlags } from './flags.ts';
import { within, type Leading } from './term.ts';

/** The controllers of a cell, for one term. */
export async function runCell(ports: Ports, flags: ControllerFlags, connection: Connected, term: Leading | undefined): Promise<void> {
  const { runCellControllers } = await import('../cell.ts');
  const as = (writer: string): Client => within(term, connection.as(serviceAccountUser(flags.namespace, writer)));
  await runCellControllers(
    { ...ports, client: within(term, ports.client) },
    {
      namespace: flags.namespace,
      localNodes: flags.localNodes,
      mirror: flags.mirror,
      server: flags.server ?? connection.server,
      certificateAuthority: connection.ca,
      ...componentKeys(flags.componentKey),
      ...(flags.reservedNodeNames === undefined ? {} : { reservedNodeNames: flags.reservedNodeNames }),
      ...(flags.nodeDomains === undefined ? {} : { nodeDomains: flags.nodeDomains }),
      serverURLs: connection.urls,
      ...(flags.separateIdentities === true ? { as } : {}),
    },
  );
}

/** Errors: `KeysInvalid`. */
function componentKeys(lines: readonly string[] | undefined): { componentKeys?: string } {
  if (lines === undefined) return {};
  const text = lines.join('\n');
  parseKeys(text, '`--component-key`');
  return { componentKeys: text };
}
