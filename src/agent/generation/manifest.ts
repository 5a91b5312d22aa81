import { canonical, sha256Hex } from '../../api/digest.ts';
import type { ComponentSpec, FileSpec, Hook, ProbeSpec } from './spec.ts';
import type { UnitSpec } from './unit-spec.ts';
import { agentError } from '../errors.ts';
import { componentLayout } from '../disk/layout.ts';
import type { DiskLayout } from '../disk/layout.ts';
import type { AcceptedEntry } from '../records/state.ts';
import { expand } from './template.ts';
import type { Variables } from './template.ts';

/** What of the node templates may name. */
export interface TemplateNode {
  name: string;
  namespace: string;
  uid: string;
  providerID: string;
  /** Path of the file the node was installed with. */
  bootstrap: string;
}

/**
 * A generation: one version of a component with one set of values, with every template filled in. All that is needed to run it, to
 * go back to it and to take it away is in here and in its folder.
 */
export interface Manifest {
  digest: string;
  name: string;
  version: string;
  values: Record<string, unknown>;
  labels: Record<string, string>;
  content: string;
  artifacts: ComponentSpec['artifacts'];
  files: FileSpec[];
  units: (UnitSpec & { hash: string })[];
  hooks: ComponentSpec['hooks'];
  probes: ProbeSpec[];
  nodeCredentials?: ComponentSpec['nodeCredentials'];
  disposable?: ComponentSpec['disposable'];
  healthDeadlineSeconds: number;
  disruption: ComponentSpec['disruption'];
  requires: ComponentSpec['requires'];
}

/** Version of the form in which manifests are kept and digests are made. */
const FORM = 1;

/**
 * Errors: `TemplateInvalid`, `TemplateUnknown`, `SpecInvalid`. In hooks `{{dir}}` is the generation's own folder, since they run before and
 * after the switch; everywhere else it is the link to the current one, so that what runs is not another program when only values change.
 */
export function renderManifest(
  layout: DiskLayout,
  node: TemplateNode,
  accepted: Pick<AcceptedEntry, 'name' | 'version' | 'values' | 'labels' | 'content'>,
  spec: ComponentSpec,
): Manifest {
  const { name, version, values, labels, content } = accepted;
  if (spec.componentName !== name || spec.version !== version) {
    throw agentError('SpecInvalid', `the MachineComponent is ${spec.componentName} ${spec.version}, asked for was ${name} ${version}`);
  }
  const machine = { name: node.name, namespace: node.namespace, uid: node.uid, nodeName: node.name, providerID: node.providerID, labels };
  const digest = sha256Hex(canonical({ form: FORM, root: layout.root, spec, values, machine, bootstrap: node.bootstrap })).slice(0, 24);
  const paths = componentLayout(layout, name);
  const running: Variables = { root: layout.root, dir: paths.current, version, bootstrap: node.bootstrap, values, machine };
  const own: Variables = { ...running, dir: paths.generation(digest) };
  const hook = (key: keyof ComponentSpec['hooks']): Partial<Record<typeof key, Hook>> => {
    const found = spec.hooks[key];
    return found === undefined ? {} : { [key]: { ...found, command: all(found.command, own, `hooks.${key}.command`) } };
  };
  return {
    digest,
    name,
    version,
    values,
    labels,
    content,
    artifacts: spec.artifacts,
    files: spec.files.map((file) => ({ ...file, content: expand(file.content, running, `files[${file.path}].content`) })),
    units: spec.units.map((unit) => {
      const exec = all(unit.exec, running, `units[${unit.name}].exec`);
      const environment = Object.fromEntries(
        Object.entries(unit.environment).map(([key, each]) => [key, expand(each, running, `units[${unit.name}].environment.${key}`)]),
      );
      const { systemd } = unit;
      const runs = systemd === undefined ? { exec, environment } : { exec, environment, systemd };
      return { ...unit, exec, environment, hash: sha256Hex(canonical(runs)).slice(0, 16) };
    }),
    hooks: { ...hook('preInstall'), ...hook('postInstall'), ...hook('preRemove') },
    probes: spec.probes.map((probe) => ({
      ...probe,
      ...(probe.url === undefined ? {} : { url: loopback(expand(probe.url, running, `probes[${probe.name}].http.url`), probe.name) }),
      ...(probe.exec === undefined ? {} : { exec: all(probe.exec, running, `probes[${probe.name}].exec.command`) }),
    })),
    ...(spec.nodeCredentials === undefined ? {} : { nodeCredentials: spec.nodeCredentials }),
    ...(spec.disposable === undefined ? {} : { disposable: spec.disposable }),
    healthDeadlineSeconds: spec.healthDeadlineSeconds,
    disruption: spec.disruption,
    requires: spec.requires,
  };
}

const all = (items: string[], variables: Variables, where: string): string[] =>
  items.map((item, index) => expand(item, variables, `${where}[${index}]`));

/** A probe that leaves the node would check the network, and would be a request that the fleet's author can send anywhere. */
function loopback(url: string, probe: string): string {
  const parsed = URL.canParse(url) ? new URL(url) : undefined;
  if (parsed !== undefined && ['http:', 'https:'].includes(parsed.protocol) && isLoopback(parsed)) return url;
  throw agentError('SpecInvalid', `probes[${probe}].http.url must be http or https on a loopback address, got "${url}"`);
}

export function isLoopback(url: URL): boolean {
  return url.hostname === 'localhost' || url.hostname === '[::1]' || /^127(\.\d{1,3}){3}$/.test(url.hostname);
}
