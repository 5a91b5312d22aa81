import { ApiObject, JsonPatch } from 'cdk8s';
import { signedText } from '../api/component-form.ts';
import { sha256Hex } from '../api/digest.ts';
import { FleetError } from './errors.ts';
import type { Cluster } from './scope.ts';

/**
 * Signatures of components, by component and version: what `kubenode component sign` writes. `content` is the sha256 of what was signed; signatures
 * are by key ID.
 */
export type Signatures = Readonly<
  Record<string, Readonly<Record<string, { content: string; signatures: Readonly<Record<string, string>> }>>>
>;

const NEXT = 'kubenode component sign --key FILE';

/**
 * Puts their signatures on the components of a cluster. An empty file demands none. Returns a `SignatureMissing` for each component that is not signed.
 * It never throws them: what makes of them a refusal is outside of where fleet code runs, so that code sees no difference between signing and rendering.
 */
export function putSignatures(cluster: Cluster, lock: Signatures): FleetError[] {
  if (Object.keys(lock).length === 0) return [];
  const unsigned: FleetError[] = [];
  for (const construct of cluster.node.findAll()) {
    if (!ApiObject.isApiObject(construct) || construct.kind !== 'MachineComponent') continue;
    const { spec } = construct.toJson() as { spec: { componentName: string; version: string } };
    const { componentName, version } = spec;
    const versions = Object.hasOwn(lock, componentName) ? lock[componentName] : undefined;
    const entry = versions !== undefined && Object.hasOwn(versions, version) ? versions[version] : undefined;
    if (entry?.content !== sha256Hex(signedText(spec))) {
      const why = entry === undefined ? 'is not signed' : 'was changed since it was signed';
      unsigned.push(new FleetError('SignatureMissing', `${componentName} ${version} ${why}`, NEXT));
      continue;
    }
    const signatures = Object.entries(entry.signatures).map(([keyID, value]) => ({ keyID, value }));
    construct.addJsonPatch(JsonPatch.add('/spec/signatures', signatures));
  }
  return unsigned;
}
