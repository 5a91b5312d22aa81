import { bundleFor } from '../src/cli/bundles.ts';
import { render } from '../src/sync/render/render.ts';
import type { Benchmark } from './harness.ts';

const CLUSTERS = [3, 30, 300];
const OBJECTS = 50;

const benchmark: Benchmark = {
  processes: 5,
  about: `
A fleet of so many clusters with ${OBJECTS} objects each (half of them MachineComponentSets of 25 components, half their MachineComponents),
rendered once as the hub does it: the files go to a child behind the strongest wall that this machine has, are compiled and run there, and
the objects come back with their positions. The reference is \`JSON.parse(JSON.stringify(…))\` of those objects in the process that asked, the
median of five times. A child takes a fixed time to start, so the ratio falls as fleets grow.`,
  goals: {},
  async run(report) {
    const childPath = await bundleFor('render');
    for (const clusters of CLUSTERS) {
      const began = performance.now();
      const rendered = await render(fleetOf(clusters), { childPath, entry: 'fleet/main.ts', signal: AbortSignal.timeout(120_000) });
      const value = performance.now() - began;
      const objects = rendered.clusters.map((cluster) => cluster.objects.map(({ object }) => object));
      const short = objects.find(({ length }) => length !== OBJECTS);
      if (objects.length !== clusters || short !== undefined)
        throw new Error(`rendered ${objects.length} clusters, one with ${short?.length} objects`);
      report({ name: `render/${clusters}x${OBJECTS}`, tier: 'W', unit: 'ms', value, reference: copying(objects) });
    }
  },
};
export default benchmark;

function copying(objects: unknown): number {
  const times = Array.from({ length: 5 }, () => {
    const began = performance.now();
    JSON.parse(JSON.stringify(objects));
    return performance.now() - began;
  });
  return times.toSorted((a, b) => a - b)[2] ?? Number.NaN;
}

export function fleetOf(clusters: number): Map<string, string> {
  const main = `import { fleet, MachineComponentSet, release, sha256 } from 'kubenode/constructs';
for (let index = 0; index < ${clusters}; index++) fleet.cluster(\`cluster-\${index}\`, { labels: { stage: index < 3 ? 'test' : 'prod' } });
const components = Array.from({ length: ${OBJECTS / 2} }, (_, index) =>
  release(\`component-\${index}\`, '1.0.0', {
    'linux/amd64': { url: \`https://example.com/\${index}/amd64.tgz\`, sha256: sha256('a'.repeat(64)), unpack: 'TarGz' },
    'linux/arm64': { url: \`https://example.com/\${index}/arm64.tgz\`, sha256: sha256('b'.repeat(64)), unpack: 'TarGz' },
  }, {
    files: [{ path: \`/etc/component-\${index}.conf\`, content: 'node={{machine.nodeName}}\\n' }],
    units: [{ name: \`component-\${index}\`, exec: ['{{dir}}/bin', '--root', '{{root}}'] }],
    probes: [{ name: 'runs', unit: \`component-\${index}\` }],
  }),
);
fleet.allClusters((cluster) => {
  for (const component of components)
    new MachineComponentSet(cluster, component.component, { component, batches: [1, 5, '25%', '100%'], soakSeconds: 300, maxUnavailable: '10%' });
});
`;
  return new Map([['fleet/main.ts', main]]);
}
