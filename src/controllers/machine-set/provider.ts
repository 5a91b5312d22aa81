import { errorsOf, type CodedError } from '../../api/errors.ts';
import { UNMAKEABLE, type MachineSet } from '../../api/machine-set.ts';
import type { InfraProvider } from '../../api/provider.ts';

/** By name. */
export type Providers = ReadonlyMap<string, Pick<InfraProvider, 'validate'>>;

/**
 * Why no machine can ever be made of what the set says of its provider; undefined: it can. Known before a machine is asked for: a set that has all
 * its machines would look well until the first of them is replaced. Codes: `UNMAKEABLE`.
 */
export function unmakeable({ spec }: MachineSet, providers: Providers): CodedError | undefined {
  const { name, config } = spec.provider;
  const provider = providers.get(name);
  if (provider === undefined) {
    const known = [...providers.keys()].toSorted().join(', ');
    return because('UnknownProvider', `this cell has no provider "${name}"; it has ${known === '' ? 'none' : known}`);
  }
  const [mistake] = provider.validate(config ?? {});
  return mistake === undefined ? undefined : because('InvalidConfig', `\`spec.provider.config.${mistake.path}\` ${mistake.message}`);
}

const because = errorsOf(UNMAKEABLE);
