import { Release } from '../release.ts';
import { downloads, type DownloadProps } from './download.ts';

export interface NodeProblemDetectorProps extends DownloadProps {
  /** Monitors of the system log, by name of their file; default: `KERNEL_MONITOR`. The documentation of node-problem-detector explains each. */
  systemLogMonitors?: Readonly<Record<string, object>>;
  /** More flags, after ours. */
  flags?: readonly string[];
}

/**
 * Conditions of the Node that the catalogue's rules read, from lines of the kernel's log. As shipped node-problem-detector makes KernelDeadlock of a hung task
 * only where the task is docker's; here of any task. Each stays True until the detector is started again, which after a boot it is.
 */
export const KERNEL_MONITOR = {
  plugin: 'kmsg',
  logPath: '/dev/kmsg',
  lookback: '5m',
  bufferSize: 10,
  source: 'kernel-monitor',
  metricsReporting: true,
  conditions: [
    { type: 'KernelDeadlock', reason: 'KernelHasNoDeadlock', message: 'kernel has no deadlock' },
    { type: 'ReadonlyFilesystem', reason: 'FilesystemIsNotReadOnly', message: 'no file system was remounted read-only' },
  ],
  rules: [
    {
      type: 'permanent',
      condition: 'KernelDeadlock',
      reason: 'TaskHung',
      pattern: String.raw`task [\S ]+:\w+ blocked for more than \w+ seconds\.`,
    },
    {
      type: 'permanent',
      condition: 'ReadonlyFilesystem',
      reason: 'FilesystemIsReadOnly',
      pattern: 'Remounting filesystem read-only',
    },
    {
      type: 'temporary',
      reason: 'OOMKilling',
      pattern: String.raw`Killed process \d+ (.+) total-vm:\d+kB, anon-rss:\d+kB, file-rss:\d+kB.*`,
    },
    { type: 'temporary', reason: 'KernelOops', pattern: 'BUG: unable to handle .*' },
    { type: 'temporary', reason: 'Ext4Error', pattern: 'EXT4-fs error .*' },
    { type: 'temporary', reason: 'IOError', pattern: 'Buffer I/O error .*' },
    { type: 'temporary', reason: 'MemoryReadError', pattern: 'CE memory read error .*' },
  ],
};

/**
 * node-problem-detector, which turns lines of the kernel's log into conditions of the Node. For real nodes. Its access comes from the agent, as the access of exactly
 * this node, and the agent renews it. It needs a kubelet, which makes the Node. Its restart disturbs nothing, so new versions need no permission.
 */
export class NodeProblemDetector extends Release {
  constructor({
    version,
    sha256,
    urlBase = 'https://github.com/kubernetes/node-problem-detector/releases/download',
    systemLogMonitors = { 'kernel-monitor.json': KERNEL_MONITOR },
    flags = [],
    content,
  }: NodeProblemDetectorProps) {
    const artifacts = downloads(NAME, sha256, (arch, digest) => ({
      url: `${urlBase}/v${version}/${NAME}-v${version}-linux_${arch}.tar.gz`,
      sha256: digest,
      unpack: 'TarGz',
    }));
    const monitors = Object.entries(systemLogMonitors).map(([file, monitor]) => ({
      path: `${FOLDER}/${file}`,
      content: `${JSON.stringify(monitor, null, 2)}\n`,
    }));
    super(NAME, version, artifacts, {
      files: monitors,
      nodeCredentials: CREDENTIALS,
      units: [
        {
          name: NAME,
          exec: [
            `{{dir}}/${NAME}/bin/${NAME}`,
            '--logtostderr',
            `--config.system-log-monitor=${monitors.map(({ path }) => path).join(',')}`,
            // The kubeconfig names the server.
            `--apiserver-override=?inClusterConfig=false&auth=${CREDENTIALS.kubeconfig}`,
            '--hostname-override={{machine.nodeName}}',
            '--address=127.0.0.1',
            '--port=20256',
            '--prometheus-address=127.0.0.1',
            '--prometheus-port=20257',
            ...flags,
          ],
          systemd: {
            after: ['network-online.target'],
            wants: ['network-online.target'],
            restart: 'always',
            restartSeconds: 5,
          },
        },
      ],
      probes: [
        { name: 'running', unit: NAME },
        { name: 'healthz', http: { url: 'http://127.0.0.1:20256/healthz' } },
      ],
      disruption: { config: 'None', patch: 'None', minor: 'None', major: 'None' },
      requires: [{ componentName: 'kubelet' }],
      ...content,
    });
  }
}

const NAME = 'node-problem-detector';
const FOLDER = `/etc/kubernetes/${NAME}`;
const CREDENTIALS = {
  kubeconfig: `${FOLDER}/kubeconfig`,
  certificateAuthority: `${FOLDER}/ca.crt`,
  clientCertificate: `${FOLDER}/client.pem`,
};
