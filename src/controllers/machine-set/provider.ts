import { errorsOf, type CodedError } from '../../api/errors.ts';
import { UNMAKEABLE, type MachineSet } from '../../api/machine-set.ts';
import type { InfraProvider } from '../../api/provider.ts';

/** By name. */
export type Providers = ReadonlyMap<string, Pick<InfraProvider, 'validate'>>;

/**
 * Why no machine can ever be made by the provider and configuration of the set; undefined: it can. Known before a machine is asked for: a set that has all
 * its machines would seem well until the first of them is replaced. Codes: `UNMAKEABLE`.
 */
export function unmakeable({ spec }: MachineSet, providers: Providers): CodedError | undefined {
  const { name, config } = spec.provider;
  const provider = providers.get(name);
  if (provider === undefined) {
    const known = [...providers.keys()].toSorted().join(', ');
    return because('UnknownProvider', `this cell has no provider "${name}"; it has ${known === '' ? 'none' : known}`);
  }
  const [error] = provider.validate(config ?? {});
  return error === undefined ? undefined : because('InvalidConfig', `\`spec.provider.config.${error.path}\` ${error.message}`);
}

const because = errorsOf(UNMAKEABLE);
