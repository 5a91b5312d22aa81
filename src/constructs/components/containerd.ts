import { Release } from '../release.ts';
import { CNI_PLUGINS_FOLDER } from './cni-plugins.ts';
import { downloads, SYSTEM_PATH, type Digests, type DownloadProps } from './download.ts';

export interface ContainerdProps extends DownloadProps {
  /** runc has releases of its own. `urlBase` is here for its downloads. */
  runc: { version: string; sha256: Digests; urlBase?: string };
  /** Replaces `/etc/containerd/config.toml`. */
  config?: string;
}

/**
 * containerd 2.1 or later with runc. For real nodes with systemd. Containers outlive a restart of it, so new versions restart it and
 * only a new major version drains. Running containers remember the path of runc, which is why it must be one that versions share.
 */
export class Containerd extends Release {
  constructor({
    version,
    sha256,
    urlBase = 'https://github.com/containerd/containerd/releases/download',
    runc,
    config = CONFIG,
    content,
  }: ContainerdProps) {
    const runcBase = runc.urlBase ?? 'https://github.com/opencontainers/runc/releases/download';
    const runcs = downloads('runc', runc.sha256, (arch, digest) => ({
      name: 'runc',
      url: `${runcBase}/v${runc.version}/runc.${arch}`,
      sha256: digest,
    }));
    const artifacts = downloads('containerd', sha256, (arch, digest) => [
      { url: `${urlBase}/v${version}/containerd-${version}-linux-${arch}.tar.gz`, sha256: digest, unpack: 'TarGz' },
      ...[runcs[arch === 'amd64' ? 'linux/amd64' : 'linux/arm64'] ?? []].flat(),
    ]);
    super('containerd', version, artifacts, {
      files: [{ path: '/etc/containerd/config.toml', content: config }],
      units: [
        {
          name: 'containerd',
          exec: ['{{dir}}/containerd/bin/containerd', '--config', '/etc/containerd/config.toml'],
          environment: { PATH: SYSTEM_PATH },
          stopTimeoutSeconds: 30,
          // As its own unit file has it: the shims, and with them the containers, outlive it.
          systemd: {
            type: 'notify',
            killMode: 'process',
            delegate: true,
            restart: 'always',
            restartSeconds: 5,
            limitNOFILE: 'infinity',
            limitNPROC: 'infinity',
            limitCORE: 'infinity',
            tasksMax: 'infinity',
            oomScoreAdjust: -999,
            after: ['network.target'],
          },
        },
      ],
      probes: [
        { name: 'running', unit: 'containerd' },
        { name: 'answers', exec: { command: ['{{dir}}/containerd/bin/ctr', '--address', '/run/containerd/containerd.sock', 'version'] } },
      ],
      disruption: { config: 'Restart', patch: 'Restart', minor: 'Restart', major: 'Drain' },
      ...content,
    });
  }
}

const CONFIG = `version = 3

# What CniPlugins installs, and what networks bring along.
[plugins.'io.containerd.cri.v1.runtime'.cni]
  bin_dirs = ['${CNI_PLUGINS_FOLDER}', '/opt/cni/bin']

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
  runtime_type = 'io.containerd.runc.v2'

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
  SystemdCgroup = true
  BinaryName = '{{dir}}/runc'
`;
