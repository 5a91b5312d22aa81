import { Release } from '../release.ts';
import { downloads, type DownloadProps } from './download.ts';

/**
 * The CNI project's plugins, in `/opt/cni/bin`. For real nodes. They run only while a pod starts or stops, so replacing them
 * disturbs none. Which network uses them is said elsewhere (`/etc/cni/net.d`, mostly by the network's own DaemonSet).
 */
export class CniPlugins extends Release {
  constructor({ version, sha256, urlBase = 'https://github.com/containernetworking/plugins/releases/download', content }: DownloadProps) {
    const artifacts = downloads('cni-plugins', sha256, (arch, digest) => ({
      url: `${urlBase}/v${version}/cni-plugins-linux-${arch}-v${version}.tgz`,
      sha256: digest,
      unpack: 'TarGz',
    }));
    super('cni-plugins', version, artifacts, {
      hooks: {
        preInstall: { command: ['mkdir', '-p', '/opt/cni/bin'] },
        // A plugin that runs right now keeps its old file.
        postInstall: { command: ['cp', '-a', '--remove-destination', '{{dir}}/cni-plugins/.', '/opt/cni/bin/'] },
      },
      // Without a command a plugin says what it is and succeeds.
      probes: [{ name: 'runs', exec: { command: ['/opt/cni/bin/loopback'] } }],
      disruption: { config: 'None', patch: 'None', minor: 'None', major: 'Drain' },
      ...content,
    });
  }
}
