import { Release } from '../release.ts';
import { downloads, type DownloadProps } from './download.ts';

export interface NodeProblemDetectorProps extends DownloadProps {
  /** Monitors of the system log, by name of their file among those that the release brings. */
  systemLogMonitors?: readonly string[];
}

/**
 * node-problem-detector, which turns lines of the kernel's log into conditions of the Node. For real nodes. The set that installs it must
 * say where the API server is, `values: { apiServer: 'https://…' }`, and `/etc/kubernetes/node-problem-detector.kubeconfig` must be there.
 * Its restart disturbs nothing, so new versions need no permission.
 */
export class NodeProblemDetector extends Release {
  constructor({
    version,
    sha256,
    urlBase = 'https://github.com/kubernetes/node-problem-detector/releases/download',
    systemLogMonitors = ['kernel-monitor.json'],
    content,
  }: NodeProblemDetectorProps) {
    const name = 'node-problem-detector';
    const folder = `{{dir}}/${name}`;
    const artifacts = downloads(name, sha256, (arch, digest) => ({
      url: `${urlBase}/v${version}/${name}-v${version}-linux_${arch}.tar.gz`,
      sha256: digest,
      unpack: 'TarGz',
    }));
    super(name, version, artifacts, {
      units: [
        {
          name,
          exec: [
            `${folder}/bin/node-problem-detector`,
            '--logtostderr',
            `--config.system-log-monitor=${systemLogMonitors.map((file) => `${folder}/config/${file}`).join(',')}`,
            `--apiserver-override={{values.apiServer}}?inClusterConfig=false&auth=/etc/kubernetes/${name}.kubeconfig`,
            '--hostname-override={{machine.nodeName}}',
            '--address=127.0.0.1',
            '--port=20256',
          ],
        },
      ],
      probes: [
        { name: 'running', unit: name },
        { name: 'healthz', http: { url: 'http://127.0.0.1:20256/healthz' } },
      ],
      values: [{ name: 'apiServer', pattern: String.raw`https://(\[[0-9A-Fa-f:.]+\]|[-A-Za-z0-9.]+)(:[0-9]{1,5})?` }],
      disruption: { config: 'None', patch: 'None', minor: 'None', major: 'None' },
      ...content,
    });
  }
}
