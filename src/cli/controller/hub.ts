import { join } from 'node:path';
import type { Transport } from '../../api/transport.ts';
import { createCache } from '../../kube/cache.ts';
import { createRecorder } from '../../kube/recorder.ts';
import { together, type Ports } from '../ports.ts';
import { countRequests } from '../requests.ts';
import type { ControllerFlags } from './flags.ts';
import { within, type Leading } from './term.ts';

/** The controllers of a hub, for one term. */
export async function runHub(given: Ports, flags: Pick<ControllerFlags, 'cache' | 'isolation'>, term: Leading | undefined): Promise<void> {
  const ports = { ...given, client: within(term, given.client) };
  const [
    { runFleetController },
    { runRolloutController },
    { openCheckouts },
    { openBundles },
    { openFence },
    { checkRules },
    { judgeObject },
    { clientFromKubeconfig },
    { showHub },
  ] = await Promise.all([
    import('../../sync/fleet/controller.ts'),
    import('../../sync/rollout/controller.ts'),
    import('../../sync/fleet/checkouts.ts'),
    import('../../sync/bundles.ts'),
    import('../../sync/fence.ts'),
    import('../../rules/check.ts'),
    import('../object-rules.ts'),
    import('../remote.ts'),
    import('../state-metrics.ts'),
  ]);
  const dir = flags.cache ?? '';
  const bundles = openBundles(join(dir, 'units'));
  const childPath = await renderChild();
  await together(ports.signal, [
    async (signal) => {
      const cache = createCache({ ...ports, signal });
      const { metrics } = ports;
      const endShow = metrics === undefined ? undefined : showHub(metrics, cache);
      const connect = async (text: string): ReturnType<typeof clientFromKubeconfig> => {
        const counted = (transport: Transport) =>
          metrics === undefined ? transport : countRequests(transport, 'cells', { metrics, clock: ports.clock });
        const cell = await clientFromKubeconfig(text, counted);
        return { ...cell, client: within(term, cell.client) };
      };
      const recorder = createRecorder({ ...ports, signal, component: 'kubenode-sync', instance: 'hub' });
      const checkouts = openCheckouts({
        ...ports,
        signal,
        cacheDir: join(dir, 'git'),
        childPath,
        isolation: flags.isolation ?? 'namespaces',
        checkRules,
        judgeObject,
      });
      const fence = openFence({ ...ports, signal, isOurs: term?.isOurs });
      await together(signal, [
        (signal) => runFleetController({ ...ports, signal, cache, bundles, checkouts, fence, recorder }),
        (signal) =>
          runRolloutController({
            ...ports,
            signal,
            cache,
            bundles,
            connect,
            fence,
            render: (...call) => checkouts.unit(...call),
            recorder,
          }),
      ]);
      await checkouts.closeAll();
      endShow?.();
      await cache.done();
    },
  ]);
}

/** From a checkout the child is bundled when its sources changed; a published package ships it. */
async function renderChild(): Promise<string> {
  const { bundleFor } = await import('../bundles.ts');
  return await bundleFor('render');
}
