import { CodedError, messageOf } from '../../../api/errors.ts';
import type { Machine } from '../../../api/machine.ts';
import type { InfraProvider } from '../../../api/provider.ts';
import type { Stored } from '../../../api/wire.ts';
import { requestOf } from '../../identity/provision.ts';
import { isDeleting } from '../facts.ts';
import type { InstanceView } from '../view.ts';

/** What the provider proves of this machine's instance. Its errors are not absence (invariant 1). */
export async function instanceOf(
  machine: Stored<Machine>,
  provider: InfraProvider | undefined,
  signal: AbortSignal,
): Promise<InstanceView> {
  if (machine.spec.provider === undefined) return { state: 'NoProvider' };
  if (provider === undefined) {
    return { state: 'Unknown', reason: 'UnknownProvider', message: `this cell has no provider "${machine.spec.provider.name}"` };
  }
  const [error] = isDeleting(machine) ? [] : provider.validate(machine.spec.provider.config ?? {});
  if (error !== undefined)
    return { state: 'Unknown', reason: 'InvalidConfig', message: `\`spec.provider.config.${error.path}\` ${error.message}` };
  try {
    const instance = await provider.get(machine.status?.providerID ?? provider.providerIDOf(requestOf(machine)), signal);
    return instance === undefined ? { state: 'Absent' } : { state: 'Present', instance };
  } catch (error) {
    if (signal.aborted) throw error;
    return { state: 'Unknown', reason: error instanceof CodedError ? error.code : 'Unavailable', message: messageOf(error) };
  }
}
