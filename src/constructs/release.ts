import type { MachineComponentSpec } from '../api/machine-component.ts';
import { machineComponentName } from '../api/machine-component/values.ts';
import { FleetError } from './errors.ts';
import { originPort, rememberOrigin } from './origin.ts';

type ApiArtifact = MachineComponentSpec['platforms'][number]['artifacts'][number];

/** `any` is any system and processor. */
export type Platform = `${'linux' | 'darwin' | 'any'}/${'amd64' | 'arm64' | 'any'}` | 'any';

/** Something to fetch. Its folder on the node is `{{dir}}/<name>`; the name is by default the component's. */
export interface Artifact extends Omit<ApiArtifact, 'name'> {
  name?: string;
}

export type Artifacts = Partial<Record<Platform, Artifact | readonly Artifact[]>>;

/** What a release is besides its artifacts; see the kind MachineComponent. */
export type ReleaseContent = Omit<MachineComponentSpec, 'componentName' | 'version' | 'platforms'>;

/**
 * One version of one component: the MachineComponent that sets name. A release is immutable once a cluster has it, its
 * files and units included: to change them, make a new version, or put what varies into `values` of the set.
 */
export class Release {
  readonly spec: MachineComponentSpec;

  constructor(component: string, version: string, artifacts: Artifacts, content: ReleaseContent = {}) {
    const platforms = Object.entries(artifacts).map(([platform, items]) => {
      const [os, arch] = platform === 'any' ? ['any', 'any'] : platform.split('/');
      const list = Array.isArray(items) ? items : [items];
      return {
        os,
        arch,
        artifacts: list.map((item: Artifact) => ({ name: component, ...item })),
      } as MachineComponentSpec['platforms'][number];
    });
    if (platforms.length === 0)
      throw new FleetError('ReleaseInvalid', `${component} ${version} has no artifacts for any platform`, "'linux/amd64': { url, sha256 }");
    this.spec = { componentName: component, version, platforms, ...content };
    rememberOrigin(this, originPort.find());
  }

  get component(): string {
    return this.spec.componentName;
  }

  get version(): string {
    return this.spec.version;
  }

  /** Name of its MachineComponent. */
  get objectName(): string {
    return machineComponentName(this.component, this.version);
  }
}

/** A release of a component that KubeNode has no class for. */
export function release(component: string, version: string, artifacts: Artifacts, content: ReleaseContent = {}): Release {
  return new Release(component, version, artifacts, content);
}

/** A sha256 digest, checked here so that a cut one is found at its line: 64 hexadecimal digits in lower case. */
export function sha256(hex: string): string {
  if (/^[a-f0-9]{64}$/.test(hex)) return hex;
  throw new FleetError('ReleaseInvalid', `a sha256 must have 64 hexadecimal digits in lower case, got "${hex}" (${hex.length} characters)`);
}

/** Artifacts that were packed in this repository: by component and version, their digests and paths under the mirror. */
export type Lock = Record<string, Record<string, { sha256: string; path: string }>>;

/** The artifact of one version, from a lock file: a tar.gz for any platform, found under the mirror that nodes were installed with. */
export function locked(lock: Lock, component: string, version: string): Artifacts {
  const versions = Object.hasOwn(lock, component) ? lock[component] : undefined;
  const entry = versions !== undefined && Object.hasOwn(versions, version) ? versions[version] : undefined;
  if (entry === undefined) {
    const known = Object.keys(versions ?? lock).join(', ');
    throw new FleetError(
      'ReleaseInvalid',
      `the lock file has no ${versions === undefined ? component : `version ${version} of ${component}`}; it has: ${known}`,
    );
  }
  return { any: { url: entry.path, sha256: sha256(entry.sha256), unpack: 'TarGz' } };
}
