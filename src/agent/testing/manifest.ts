import type { Manifest } from '../generation/manifest.ts';

/** Of a component that is given as little as it can be. */
export function manifestOf(own: Pick<Manifest, 'digest' | 'name' | 'version'> & Partial<Manifest>): Manifest {
  return {
    values: {},
    labels: {},
    content: 'c',
    artifacts: [],
    files: [],
    units: [],
    hooks: {},
    probes: [],
    healthDeadlineSeconds: 1,
    disruption: {},
    requires: [],
    ...own,
  };
}
