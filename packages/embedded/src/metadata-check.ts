import type { JsonObject } from '@kubenode/api-machinery/wire';
import { forbidden, invalid, required, tooLong, type FieldProblem } from './field-error.ts';
import { listAt, objectAt, stringsAt, textAt } from './json.ts';
import { checkLabelName, checkLabelValue, checkPathSegment, checkQualifiedName } from './names.ts';

const MAX_ANNOTATIONS = 256 * 1024;

function checkOwners(metadata: JsonObject): FieldProblem[] {
  const out: FieldProblem[] = [];
  let controller = '';
  for (const owner of listAt(metadata, 'ownerReferences')) {
    for (const field of ['apiVersion', 'kind', 'name', 'uid']) {
      const path = `metadata.ownerReferences.${field}`;
      if ((textAt(owner, field) ?? '') === '')
        out.push(invalid(path, textAt(owner, field) ?? '', field === 'apiVersion' ? 'version must not be empty' : 'must not be empty'));
    }
    if (objectAt(owner)['controller'] !== true) continue;
    const name = `${textAt(owner, 'kind') ?? ''}/${textAt(owner, 'name') ?? ''}`;
    if (controller !== '') {
      out.push(
        invalid(
          'metadata.ownerReferences',
          metadata['ownerReferences'],
          `Only one reference can have Controller set to true. Found "true" in references for ${controller} and ${name}`,
        ),
      );
    }
    controller = name;
  }
  return out;
}

/** What is wrong with the metadata of an object, which stands at `metadata`. */
export function checkMetadata(metadata: JsonObject, namespaced: boolean): FieldProblem[] {
  const out: FieldProblem[] = [];
  const name = textAt(metadata, 'name') ?? '';
  const generateName = textAt(metadata, 'generateName') ?? '';
  for (const line of generateName === '' ? [] : checkPathSegment(generateName))
    out.push(invalid('metadata.generateName', generateName, line));
  if (name === '') out.push(required('metadata.name', 'name or generateName is required'));
  else for (const line of checkPathSegment(name)) out.push(invalid('metadata.name', name, line));
  const namespace = textAt(metadata, 'namespace') ?? '';
  if (namespaced && namespace === '') out.push(required('metadata.namespace'));
  if (namespaced && namespace !== '')
    for (const line of checkLabelName(namespace)) out.push(invalid('metadata.namespace', namespace, line));
  if (!namespaced && namespace !== '') out.push(forbidden('metadata.namespace', 'not allowed on this type'));
  for (const [key, value] of Object.entries(objectAt(metadata, 'labels'))) {
    for (const line of checkQualifiedName(key)) out.push(invalid('metadata.labels', key, line));
    for (const line of typeof value === 'string' ? checkLabelValue(value) : []) out.push(invalid('metadata.labels', value, line));
  }
  let size = 0;
  for (const [key, value] of Object.entries(objectAt(metadata, 'annotations'))) {
    size += key.length + (typeof value === 'string' ? value.length : 0);
    for (const line of checkQualifiedName(key.toLowerCase())) out.push(invalid('metadata.annotations', key, line));
  }
  if (size > MAX_ANNOTATIONS) {
    out.push({
      type: 'FieldValueTooLong',
      field: 'metadata.annotations',
      message: `Too long: may not be more than ${MAX_ANNOTATIONS} bytes`,
    });
  }
  for (const [index, entry] of listAt(metadata, 'managedFields').entries()) {
    if ((textAt(entry, 'manager') ?? '').length > 128) out.push(tooLong(`metadata.managedFields[${index}].manager`, 128));
  }
  out.push(...checkOwners(metadata));
  const finalizers = stringsAt(metadata, 'finalizers');
  for (const finalizer of finalizers) {
    for (const line of checkQualifiedName(finalizer)) out.push(invalid('metadata.finalizers', finalizer, line));
  }
  if (finalizers.includes('orphan') && finalizers.includes('foregroundDeletion')) {
    out.push(invalid('metadata.finalizers', finalizers, 'finalizer orphan and foregroundDeletion cannot be both set'));
  }
  return out;
}
