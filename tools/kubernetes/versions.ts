/** The versions of Kubernetes that can be built here: releases, and the folders whose `go.mod` names them. The first is the usual one. */
export interface Version {
  release: string;
  folder: string;
}

const VERSIONS: readonly [Version, ...Version[]] = [
  { release: 'v1.34.4', folder: '.' },
  // The oldest that KubeNode runs on.
  { release: 'v1.30.4', folder: 'v1.30' },
];

/** Whether it is the one whose answers are recorded. */
export const isUsual = ({ release }: Version): boolean => release === VERSIONS[0].release;

/** `1.34` of `v1.34.4`. */
export const minorOf = ({ release }: Version): string => release.slice(1).split('.', 2).join('.');

/** The one that `KUBENODE_KUBERNETES` names by its minor version, else the usual one. Errors: a version that is not in the table. */
export function wantedVersion(env: Readonly<Record<string, string | undefined>> = process.env): Version {
  const minor = env['KUBENODE_KUBERNETES'] ?? '';
  const found = minor === '' ? VERSIONS[0] : VERSIONS.find((each) => minorOf(each) === minor);
  if (found !== undefined) return found;
  throw new Error(`KUBENODE_KUBERNETES must be one of ${VERSIONS.map(minorOf).join(', ')}, got "${minor}"`);
}
