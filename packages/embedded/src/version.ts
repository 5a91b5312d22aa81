import type { JsonObject } from '@kubenode/api-machinery/wire';

/** The answer of `/version`. The behaviour is modelled on 1.34; 1.33 keeps kubectl from 1.32 to 1.34 free of skew warnings. */
export const VERSION: JsonObject = {
  major: '1',
  minor: '33',
  gitVersion: 'v1.33.0+kubenode',
  gitCommit: '',
  gitTreeState: 'clean',
  buildDate: '1970-01-01T00:00:00Z',
  goVersion: '',
  compiler: '',
  platform: 'kubenode/embedded',
};
