/** What makes a Debian a Kubernetes node, by the constructs that fleets use. What differs from their defaults is of this rig, and gives the reason. */
import { CniPlugins, Containerd, KERNEL_MONITOR, Kubelet, NodeProblemDetector, type Release } from '../../src/constructs/index.ts';
import type { KubeletVersion } from '../../tools/nodes/programs.ts';
import type { Artifacts } from './artifacts.ts';

const SYSTEM = { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' };
export const SANDBOX = 'docker.io/local/pod:1';

/** containerd 1.6 of Debian; cgroupfs, since the nodes' systemd does not manage the controllers of cgroup v1. */
const CONFIG = `version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "${SANDBOX}"
  # The machine that the nodes run on has no CAP_SYS_RESOURCE.
  restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "/var/lib/kubenode/components/cni-plugins/current/cni-plugins"
  conf_dir = "/etc/cni/net.d"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
  SystemdCgroup = false
  BinaryName = "{{dir}}/runc"
`;

export const cniPlugins = ({ versions, sha256 }: Artifacts): Release =>
  new CniPlugins({
    version: versions.cni,
    sha256: { 'linux/amd64': sha256.cni },
    urlBase: 'cni',
    content: {
      files: [
        {
          path: '/etc/cni/net.d/10-node.conflist',
          content: JSON.stringify({
            cniVersion: '0.4.0',
            name: 'node',
            plugins: [
              {
                type: 'bridge',
                bridge: 'cni0',
                isGateway: true,
                ipMasq: false,
                ipam: { type: 'host-local', ranges: [[{ subnet: '10.244.1.0/24' }]], routes: [{ dst: '0.0.0.0/0' }] },
              },
            ],
          }),
        },
      ],
    },
  });

export const containerd = ({ versions, sha256 }: Artifacts): Release =>
  new Containerd({
    version: versions.containerd,
    sha256: { 'linux/amd64': sha256.containerd },
    urlBase: 'containerd',
    runc: { version: versions.runc, sha256: { 'linux/amd64': sha256.runc }, urlBase: 'runc' },
    config: CONFIG,
    content: {
      units: [
        {
          name: 'containerd',
          exec: ['{{dir}}/containerd/bin/containerd', '--config', '/etc/containerd/config.toml'],
          environment: SYSTEM,
          stopTimeoutSeconds: 30,
          // As in the construct, but for oomScoreAdjust, which needs CAP_SYS_RESOURCE.
          systemd: {
            type: 'notify',
            killMode: 'process',
            delegate: true,
            restart: 'always',
            restartSeconds: 1,
            limitNOFILE: 'infinity',
            tasksMax: 'infinity',
          },
        },
      ],
    },
  });

/** `program`: what is served instead of the kubelet of that version. */
export const kubelet = (
  { sha256 }: Artifacts,
  version: KubeletVersion,
  release: string = version,
  digest = sha256[`kubelet-${version}`],
): Release =>
  new Kubelet({
    version: release,
    sha256: { 'linux/amd64': digest ?? '' },
    urlBase: 'kubelet',
    config: {
      cgroupDriver: 'cgroupfs',
      failCgroupV1: false,
      failSwapOn: false,
      localStorageCapacityIsolation: false,
      evictionHard: {},
      // The kernel's settings are those of the machine that the nodes run on.
      protectKernelDefaults: false,
      // There is no logind to ask for the delay of a shutdown.
      shutdownGracePeriod: '0s',
      shutdownGracePeriodCriticalPods: '0s',
    },
    content: {
      units: [
        {
          name: 'kubelet',
          exec: [
            '{{dir}}/kubelet',
            '--config=/etc/kubernetes/kubelet-config.yaml',
            '--kubeconfig=/etc/kubernetes/kubelet.kubeconfig',
            '--cert-dir=/var/lib/kubelet/pki',
            '--hostname-override={{machine.nodeName}}',
          ],
          environment: SYSTEM,
          systemd: { after: ['containerd.service'], restart: 'always', restartSeconds: 2 },
        },
      ],
      healthDeadlineSeconds: 60,
    },
  });

/** Where the node's kernel log is, for its detector. All nodes share the kernel of the machine that they run on, so each has a file of its own. */
export const KERNEL_LOG = '/var/log/kern.log';

export const detector = ({ versions, sha256 }: Artifacts): Release =>
  new NodeProblemDetector({
    version: versions.detector,
    sha256: { 'linux/amd64': sha256.detector },
    urlBase: 'npd',
    // It reports what has not changed every five minutes, and a repair is proven by what is reported after it.
    flags: ['--k8s-exporter-heartbeat-period=5s'],
    systemLogMonitors: {
      'kernel-monitor.json': {
        ...KERNEL_MONITOR,
        plugin: 'filelog',
        pluginConfig: { timestamp: '^.{15}', message: String.raw`kernel: \[.*\] (.*)`, timestampFormat: 'Jan _2 15:04:05' },
        logPath: KERNEL_LOG,
        // A machine's boot empties its kernel's log, and does not empty this file.
        lookback: '0',
      },
    },
  });
