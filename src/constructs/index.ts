/** What a fleet repository imports as `kubenode/constructs`. */
export { fleet, type Build, type Fleet } from './fleet.ts';
export { Cluster, Pool, type ClusterProps } from './scope.ts';
export { KubeObject, type KubeObjectProps, type MetadataProps } from './object.ts';
export { MachineSet, type MachineSetProps } from './machine-set.ts';
export { MachineComponentSet, type MachineComponentSetProps } from './machine-component-set.ts';
export { DefenderPolicy, type DefenderPolicyProps } from './defender-policy.ts';
export { NodeRemedier, type NodeRemedierProps } from './node-remedier.ts';
export { all, any, not, type Term } from './remedy/term.ts';
export { condition, fact, machineCondition, type FactName } from './remedy/fact.ts';
export { askHuman, cleanDisk, migratePods, reboot, replaceMachine, restartComponent, type RungProps } from './remedy/actions.ts';
export {
  Release,
  locked,
  release,
  sha256,
  type Artifact,
  type Artifacts,
  type Lock,
  type Platform,
  type ReleaseContent,
} from './release.ts';
export type { Signatures } from './signatures.ts';
export { FleetError, fleetErrorCodes, type FleetErrorCode } from './errors.ts';
export { Kubelet, type KubeletProps } from './components/kubelet.ts';
export { Containerd, type ContainerdProps } from './components/containerd.ts';
export { CniPlugins } from './components/cni-plugins.ts';
export { KERNEL_MONITOR, NodeProblemDetector, type NodeProblemDetectorProps } from './components/node-problem-detector.ts';
export { NodeExporter, type NodeExporterProps } from './components/node-exporter.ts';
export { type Digests, type DownloadProps, type LinuxPlatform } from './components/download.ts';
