import { Type, type Static } from 'typebox';
import { conditions } from './fields.ts';
import { defineKind } from './kind/definition.ts';
import { machineComponentSpec } from './machine-component/schema.ts';
import { MACHINE_COMPONENT } from './machine-component/values.ts';

export type MachineComponentSpec = Static<typeof machineComponentSpec>;

/** `MachineComponent.metadata.name`; as `machineComponentName`. */
const NAME = "self.spec.componentName + '-' + self.spec.version.lowerAscii().replace('+', '-').replace('_', '-')";

/** All but the signatures, which another key may add to. */
const UNCHANGED = Object.keys(machineComponentSpec.properties)
  .filter((field) => field !== 'signatures')
  .map((field) =>
    machineComponentSpec.required.some((each) => each === field)
      ? `self.spec.${field} == oldSelf.spec.${field}`
      : `has(self.spec.${field}) == has(oldSelf.spec.${field}) && (!has(self.spec.${field}) || self.spec.${field} == oldSelf.spec.${field})`,
  )
  .join(' && ');

export const MachineComponents = defineKind({
  ...MACHINE_COMPONENT,
  shortNames: ['mcomp'],
  description: 'One immutable version of one component: what to fetch, what to write, what to run, how to prove that it works.',
  spec: machineComponentSpec,
  status: Type.Object({ conditions: conditions() }),
  rules: [
    { rule: UNCHANGED, message: 'a MachineComponent is immutable: make a new version', fieldPath: '.spec' },
    {
      rule: `self.metadata.name == ${NAME}`,
      message: 'name must be made of componentName and version',
      messageExpression: `'name must be "' + ${NAME} + '"'`,
      fieldPath: '.metadata',
    },
    {
      rule: '!has(self.spec.probes) || self.spec.probes.all(probe, !has(probe.unit) || (has(self.spec.units) && self.spec.units.exists(unit, unit.name == probe.unit)))',
      message: 'must name only units of this component',
      fieldPath: '.spec.probes',
    },
  ],
  columns: [
    { name: 'Component', type: 'string', jsonPath: '.spec.componentName' },
    { name: 'Version', type: 'string', jsonPath: '.spec.version' },
  ],
});

export type MachineComponent = ReturnType<typeof MachineComponents.parse>;
