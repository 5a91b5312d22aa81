import { FleetError } from '../errors.ts';
import { sha256, type Artifact, type Artifacts, type ReleaseContent } from '../release.ts';

export type LinuxPlatform = 'linux/amd64' | 'linux/arm64';

/** By platform; those that are left out cannot be installed. Publishers list the digests beside their downloads. */
export type Digests = Partial<Record<LinuxPlatform, string>>;

/**
 * What every component that is downloaded is given. These components are for real nodes: Linux with systemd, root, and the paths that
 * Kubernetes uses. `content` replaces single parts of the class (files, units, probes …);
 * templates that name values of the set need `content.values`, which lists the values that are allowed, on nodes that pin keys.
 */
export interface DownloadProps {
  /** Without a leading "v". */
  version: string;
  sha256: Digests;
  /** A mirror with the publisher's layout; by default the publisher itself. No slash at the end. */
  urlBase?: string;
  content?: ReleaseContent;
}

/** The artifacts of each platform that there is a digest for. */
export function downloads(
  component: string,
  digests: Digests,
  artifacts: (arch: string, digest: string) => Artifact | Artifact[],
): Artifacts {
  const entries = Object.entries(digests).map(([platform, digest]) => {
    const match = /^linux\/(amd64|arm64)$/.exec(platform);
    if (match?.[1] === undefined)
      throw new FleetError('ReleaseInvalid', `${component} is downloaded for linux/amd64 and linux/arm64, not for "${platform}"`);
    return [platform, artifacts(match[1], sha256(digest))];
  });
  return Object.fromEntries(entries) as Artifacts;
}

/** Where programs that a component starts search for others. */
export const SYSTEM_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';
