/**
 * What the components are made of. These are stand-ins: small Node programs that behave like a kubelet, a container runtime and a
 * node-problem-detector on one machine without root. On real nodes use `Kubelet`, `Containerd` and their like from
 * `kubenode/constructs` instead.
 *
 * A version that a cluster has is immutable: changing its declaration here is refused. Release a new version, or put
 * what varies between pools into `values` of the set.
 */
import { locked, release, type Release, type ReleaseContent } from 'kubenode/constructs';
import lock from './artifacts.lock.json' with { type: 'json' };

export const localRuntime = (version: string): Release => standIn('local-runtime', version, {});

export const localKubelet = (version: string): Release =>
  standIn(
    'local-kubelet',
    version,
    { maxPods: 110 },
    {
      // As for a real kubelet: a patch restarts it beside its pods, a minor version wants the node empty.
      disruption: { patch: 'Restart', minor: 'Drain', major: 'Drain' },
      requires: [{ componentName: 'local-runtime' }],
    },
  );

export const localDetector = (version: string): Release =>
  standIn('local-detector', version, { heartbeatSeconds: 2 }, { requires: [{ componentName: 'local-kubelet' }] });

/** The artifact is a folder with a `main.js`, which serves on a socket under the node's root and probes it. */
function standIn(name: string, version: string, config: object, content: ReleaseContent = {}): Release {
  const main = `{{dir}}/${name}/main.js`;
  return release(name, version, locked(lock, name, version), {
    files: [
      {
        path: `/etc/${name}/config.json`,
        content: JSON.stringify(
          { ...config, nodeName: '{{machine.nodeName}}', providerID: '{{machine.providerID}}', bootstrap: '{{bootstrap}}' },
          null,
          2,
        ),
      },
    ],
    units: [{ name, exec: [main, 'run', '{{root}}'] }],
    probes: [
      { name: 'running', unit: name, periodSeconds: 1 },
      { name: 'healthy', exec: { command: [main, 'probe', '{{root}}'] }, periodSeconds: 1 },
    ],
    // A node that is not healthy within this time goes back to what ran before. Real components get minutes.
    healthDeadlineSeconds: 10,
    ...content,
  });
}
