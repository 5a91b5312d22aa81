import { availableParallelism } from 'node:os';
import { defineConfig } from 'vitest/config';

/** Tests that start whole systems: one file at a time, after all others, so that nothing else takes their processor. */
const INTEGRATION = ['test/integration/**/*.test.ts'];
const SYSTEM = ['test/e2e/**/*.test.ts', ...INTEGRATION, 'test/package/**/*.test.ts'];

/** What lies between a client and its server breaks: an embedded server in every run, a real one too where one is wanted. */
const FAULTS = ['test/faults/**/*.test.ts'];

/** The embedded server beside a real one, or beside what a real one answered when it was recorded. */
const CONFORMANCE = ['test/conformance/**/*.test.ts', 'test/kubernetes/client-go.test.ts'];

/** What needs a real API server: `npm run test:kubernetes` starts one. */
const KUBERNETES = ['test/kubernetes/!(client-go).test.ts', 'test/least-privilege/**/*.test.ts'];
/** What needs machines that boot: `npm run test:nodes` checks whether they can. */
const NODES = ['test/nodes/*.test.ts'];
/** What one of those machines runs, which sees this folder and can write nothing there. */
const INSIDE = ['test/nodes/inside/*.test.ts'];
const inside = process.env['KUBENODE_TEST_INSIDE'] !== undefined;
const withNodes = process.env['KUBENODE_TEST_NODES'] !== undefined;

const withKubernetes = process.env['KUBENODE_TEST_KUBECONFIG'] !== undefined;

/**
 * Which projects run one after the other. None is 0: on a machine with two processors vitest would run the unit tests after everything
 * else, since it takes one worker and no order for a wish to be alone.
 */
const ORDER = { unit: 1, conformance: 2, system: 3, faults: 4, kubernetes: 5, nodes: 6 };

export default defineConfig({
  ...(inside ? { cacheDir: '/tmp/vitest' } : {}),
  resolve: { conditions: ['@kubenode/source'] },
  ssr: { resolve: { conditions: ['@kubenode/source'] } },
  test: {
    testTimeout: 30_000,
    hookTimeout: 30_000,
    setupFiles: ['test/random.ts'],
    projects: [
      {
        extends: true,
        test: {
          name: 'unit',
          include: ['{src,packages,test,fleet,rules,bench,tools}/**/*.test.ts'],
          exclude: ['node_modules/**', 'dist/**', ...SYSTEM, ...FAULTS, ...CONFORMANCE, ...KUBERNETES, ...NODES, ...INSIDE],
          maxWorkers: Math.max(2, availableParallelism() - 1),
          sequence: { groupOrder: ORDER.unit },
        },
      },
      {
        extends: true,
        // One file at a time: the files share the real server.
        test: { name: 'conformance', include: CONFORMANCE, fileParallelism: false, sequence: { groupOrder: ORDER.conformance } },
      },
      {
        extends: true,
        test: { name: 'system', include: SYSTEM, fileParallelism: false, sequence: { groupOrder: ORDER.system } },
      },
      {
        extends: true,
        // All files at once: each has a server of its own, and mostly they wait.
        test: { name: 'faults', include: FAULTS, maxWorkers: 5, sequence: { groupOrder: ORDER.faults } },
      },
      ...(withKubernetes
        ? [
            {
              extends: true as const,
              test: {
                name: 'kubernetes',
                include: [...KUBERNETES, ...INTEGRATION, ...FAULTS],
                // Of the embedded server's folder alone.
                exclude: ['test/faults/state-folder.test.ts'],
                fileParallelism: false,
                sequence: { groupOrder: ORDER.kubernetes },
              },
            },
          ]
        : []),
      ...(inside
        ? [
            {
              extends: true as const,
              test: { name: 'inside', include: INSIDE, testTimeout: 300_000, sequence: { groupOrder: ORDER.nodes } },
            },
          ]
        : []),
      ...(withNodes
        ? [
            {
              extends: true as const,
              // Machines boot and drain; what takes so long on a busy machine is late, and not wrong.
              test: {
                name: 'nodes',
                include: NODES,
                fileParallelism: false,
                testTimeout: 600_000,
                hookTimeout: 900_000,
                sequence: { groupOrder: ORDER.nodes },
              },
            },
          ]
        : []),
    ],
  },
});
