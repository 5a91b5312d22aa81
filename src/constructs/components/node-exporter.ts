import { Release } from '../release.ts';
import { downloads, type DownloadProps } from './download.ts';

export interface NodeExporterProps extends DownloadProps {
  /** Default `:9100`. */
  listenAddress?: string;
}

/** Prometheus' node_exporter. For real nodes. Its restart disturbs nothing, so new versions need no permission. */
export class NodeExporter extends Release {
  constructor({
    version,
    sha256,
    urlBase = 'https://github.com/prometheus/node_exporter/releases/download',
    listenAddress = ':9100',
    content,
  }: NodeExporterProps) {
    const name = 'node-exporter';
    const artifacts = downloads(name, sha256, (arch, digest) => ({
      url: `${urlBase}/v${version}/node_exporter-${version}.linux-${arch}.tar.gz`,
      sha256: digest,
      unpack: 'TarGz',
    }));
    const binary = `{{dir}}/${name}/node_exporter`;
    super(name, version, artifacts, {
      hooks: {
        // The archive has a folder whose name depends on the processor.
        preInstall: {
          command: [
            'find',
            `{{dir}}/${name}`,
            '-mindepth',
            '2',
            '-type',
            'f',
            '-name',
            'node_exporter',
            '-exec',
            'ln',
            '-sfn',
            '{}',
            binary,
            ';',
          ],
        },
      },
      units: [{ name, exec: [binary, `--web.listen-address=${listenAddress}`] }],
      probes: [
        { name: 'running', unit: name },
        { name: 'metrics', http: { url: `http://127.0.0.1:${listenAddress.split(':').at(-1) ?? '9100'}/metrics` } },
      ],
      disruption: { config: 'None', patch: 'None', minor: 'None', major: 'None' },
      ...content,
    });
  }
}
