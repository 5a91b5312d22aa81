/** Fields that a request to a resource or subresource cannot change, and so never owns or conflicts over. */

const statusOnly: readonly string[] = ['status'];
const specOnly: readonly string[] = ['spec'];

/** Reset fields of built-in kinds, by `group/Kind` and subresource; '' is the kind itself. An absent entry resets no field. */
const builtin: Readonly<Record<string, Readonly<Record<string, readonly string[]>>>> = {
  '/Namespace': { '': statusOnly, status: specOnly, finalize: statusOnly },
  '/Node': { '': statusOnly, status: specOnly },
  '/Pod': { '': statusOnly, status: ['spec', 'metadata.deletionTimestamp', 'metadata.ownerReferences'] },
  'policy/PodDisruptionBudget': { '': statusOnly, status: specOnly },
  'apiextensions.k8s.io/CustomResourceDefinition': { '': statusOnly, status: ['metadata', 'spec'] },
  'certificates.k8s.io/CertificateSigningRequest': {
    '': ['spec', 'status'],
    status: ['spec', 'status.conditions'],
    approval: ['spec', 'status.certificate'],
  },
};

/** What the server resets for a built-in kind: `resetFieldsOf('', 'Node', 'status')` is `['spec']`. */
export function resetFieldsOf(group: string, kind: string, subresource = ''): readonly string[] {
  return builtin[`${group}/${kind}`]?.[subresource] ?? [];
}

/** What it resets for a custom resource with or without a status subresource. `/status` leaves metadata out until 1.36: who writes labels there owns them, though they are dropped. */
export function customResetFields(hasStatus: boolean, subresource?: string): readonly string[] {
  if (subresource === 'status') return specOnly;
  return subresource === undefined && hasStatus ? statusOnly : [];
}
