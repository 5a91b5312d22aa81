import { Release } from '../release.ts';
import { downloads, type DownloadProps } from './download.ts';

/** Where agents keep the version that is switched to; what `{{dir}}` is in this component's own units and files. */
export const CNI_PLUGINS_FOLDER = '/var/lib/kubenode/components/cni-plugins/current/cni-plugins';

/**
 * The CNI project's plugins. For real nodes. `Containerd` searches for them where the agent keeps them; another runtime must be configured. They run
 * only while a pod starts or stops, so replacing them disturbs none. Which network uses them is configured elsewhere (`/etc/cni/net.d`,
 * mostly by the network's own DaemonSet).
 */
export class CniPlugins extends Release {
  constructor({ version, sha256, urlBase = 'https://github.com/containernetworking/plugins/releases/download', content }: DownloadProps) {
    const artifacts = downloads('cni-plugins', sha256, (arch, digest) => ({
      url: `${urlBase}/v${version}/cni-plugins-linux-${arch}-v${version}.tgz`,
      sha256: digest,
      unpack: 'TarGz',
    }));
    super('cni-plugins', version, artifacts, {
      // Without a command a plugin prints its name and succeeds.
      probes: [{ name: 'runs', exec: { command: ['{{dir}}/cni-plugins/loopback'] } }],
      disruption: { config: 'None', patch: 'None', minor: 'None', major: 'Drain' },
      ...content,
    });
  }
}
