import { assert, constantFrom, dictionary, jsonValue, property, record, string } from 'fast-check';
import { test } from 'vitest';
import { contentOf as apiContentOf } from '../../api/machine.ts';
import { machineComponentName as apiComponentName } from '../../api/machine-component.ts';
import { contentOf, machineComponentName } from './content.ts';

test('the identity of an entry is the one that controllers compute', () => {
  const entry = record(
    {
      action: constantFrom('Install' as const, 'Remove' as const),
      version: string(),
      values: dictionary(string(), jsonValue()),
    },
    { requiredKeys: ['action', 'version'] },
  );
  assert(property(entry, (each) => contentOf(each) === apiContentOf(each)));
});

test('the name of a MachineComponent is the one that fleets write', () => {
  assert(
    property(string(), string(), (component, version) => machineComponentName(component, version) === apiComponentName(component, version)),
  );
});
