import { Release } from '../release.ts';
import { downloads, SYSTEM_PATH, type DownloadProps } from './download.ts';

export interface KubeletProps extends DownloadProps {
  /** Fields of KubeletConfiguration, each instead of the default. Templates as in files of a MachineComponent. */
  config?: Record<string, unknown>;
  /** More flags, after ours. */
  flags?: readonly string[];
}

/**
 * The kubelet, with a container runtime at containerd's socket. For real nodes. Its first certificate comes by the agent, for exactly this node, in
 * `/etc/kubernetes/kubelet.kubeconfig`; it renews it by itself. systemd starts it again when it ends, also while no agent runs.
 *
 * A patch restarts it beside its pods. A minor version wants the node drained, as Kubernetes' skew policy asks.
 */
export class Kubelet extends Release {
  constructor({ version, sha256, urlBase = 'https://dl.k8s.io/release', config = {}, flags = [], content }: KubeletProps) {
    const artifacts = downloads('kubelet', sha256, (arch, digest) => ({
      url: `${urlBase}/v${version}/bin/linux/${arch}/kubelet`,
      sha256: digest,
    }));
    super('kubelet', version, artifacts, {
      files: [{ path: '/etc/kubernetes/kubelet-config.yaml', content: `${JSON.stringify({ ...DEFAULTS, ...config }, null, 2)}\n` }],
      units: [
        {
          name: 'kubelet',
          exec: [
            '{{dir}}/kubelet',
            '--config=/etc/kubernetes/kubelet-config.yaml',
            `--kubeconfig=${KUBECONFIG}`,
            '--cert-dir=/var/lib/kubelet/pki',
            '--hostname-override={{machine.nodeName}}',
            ...flags,
          ],
          environment: { PATH: SYSTEM_PATH },
          systemd: {
            after: ['containerd.service', 'network-online.target'],
            wants: ['network-online.target'],
            restart: 'always',
            restartSeconds: 5,
            oomScoreAdjust: -999,
          },
        },
      ],
      nodeCredentials: { kubeconfig: KUBECONFIG, certificateAuthority: AUTHORITY },
      probes: [
        { name: 'running', unit: 'kubelet' },
        // Several times in a row: a kubelet that cannot keep up answers at first.
        { name: 'healthz', http: { url: 'http://127.0.0.1:10248/healthz' }, successThreshold: 3 },
      ],
      disruption: { config: 'Restart', patch: 'Restart', minor: 'Drain', major: 'Drain' },
      requires: [{ componentName: 'containerd' }],
      ...content,
    });
  }
}

const KUBECONFIG = '/etc/kubernetes/kubelet.kubeconfig';
const AUTHORITY = '/etc/kubernetes/pki/ca.crt';

const DEFAULTS = {
  apiVersion: 'kubelet.config.k8s.io/v1beta1',
  kind: 'KubeletConfiguration',
  authentication: { anonymous: { enabled: false }, webhook: { enabled: true }, x509: { clientCAFile: AUTHORITY } },
  authorization: { mode: 'Webhook' },
  cgroupDriver: 'systemd',
  containerRuntimeEndpoint: 'unix:///run/containerd/containerd.sock',
  providerID: '{{machine.providerID}}',
  rotateCertificates: true,
  serverTLSBootstrap: true,
  shutdownGracePeriod: '30s',
  shutdownGracePeriodCriticalPods: '10s',
};
