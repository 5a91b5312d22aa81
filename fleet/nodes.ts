/** Which nodes there are, and how new versions reach them. */
import { fleet, MachineComponentSet, MachineSet, type Release } from 'kubenode/constructs';
import { detector, kubelet, runtime } from './versions.ts';

/** Nodes of the web pool, by the cluster's stage. */
const replicas: Record<string, number> = { test: 1, pre: 2, prod: 4 };

fleet.allClusters((cluster) => {
  const web = cluster.pool('web', { labels: { team: 'web' } });

  new MachineSet(web, 'web', {
    replicas: replicas[cluster.label('stage')] ?? 1,
    provider: 'local',
    // Batches and Defender spread over these, so that one rack never carries a whole change.
    failureDomains: ['rack-a', 'rack-b'],
    template: { labels: { 'node.example.com/role': 'web' } },
  });

  const everywhere = (component: Release) =>
    new MachineComponentSet(cluster, component.component, {
      component,
      // One node first, then half of them, then all; a first failure stops the rest. New nodes are installed at once.
      batches: [1, '50%', '100%'],
      maxUnavailable: 1,
      maxFailed: 1,
      // So short because this fleet is for a demonstration on one machine. Production soaks for minutes to hours.
      soakSeconds: 1,
    });

  everywhere(runtime);
  everywhere(kubelet);
  everywhere(detector);
});
