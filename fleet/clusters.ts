/** The business clusters. Stages in the hub, and `fleet.clusters(…)` in this repository, select them by label. */
import { fleet } from 'kubenode/constructs';

fleet.cluster('test', { labels: { stage: 'test' } });
fleet.cluster('pre', { labels: { stage: 'pre' } });
fleet.cluster('prod', { labels: { stage: 'prod' } });
