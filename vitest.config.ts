import { defineConfig } from 'vitest/config';

/** Tests that start whole systems: one file at a time, after all others, so that nothing else takes their processor. */
const INTEGRATION = ['test/integration/**/*.test.ts'];
const SYSTEM = ['test/e2e/**/*.test.ts', ...INTEGRATION, 'test/package/**/*.test.ts'];

/** What lies between a client and its server breaks: an embedded server in every run, a real one too where one is wanted. */
const FAULTS = ['test/faults/**/*.test.ts'];

/** The embedded server beside a real one, or beside what a real one answered when it was recorded. */
const CONFORMANCE = ['test/conformance/**/*.test.ts', 'test/kubernetes/clientgo.test.ts'];

/** What needs a real API server: `npm run test:kubernetes` starts one. */
const KUBERNETES = ['test/kubernetes/!(clientgo).test.ts', 'test/leastprivilege/**/*.test.ts'];
const withKubernetes = process.env['KUBENODE_TEST_KUBECONFIG'] !== undefined;

export default defineConfig({
  resolve: { conditions: ['@kubenode/source'] },
  ssr: { resolve: { conditions: ['@kubenode/source'] } },
  test: {
    testTimeout: 30_000,
    hookTimeout: 30_000,
    projects: [
      {
        extends: true,
        test: {
          name: 'unit',
          include: ['{src,test,fleet,rules,bench}/**/*.test.ts'],
          exclude: ['node_modules/**', 'dist/**', ...SYSTEM, ...FAULTS, ...CONFORMANCE, ...KUBERNETES],
          sequence: { groupOrder: 0 },
        },
      },
      {
        extends: true,
        // One file at a time: the files share the real server.
        test: { name: 'conformance', include: CONFORMANCE, fileParallelism: false, sequence: { groupOrder: 0 } },
      },
      {
        extends: true,
        test: { name: 'system', include: SYSTEM, fileParallelism: false, sequence: { groupOrder: 1 } },
      },
      {
        extends: true,
        // All files at once: each has a server of its own, and mostly they wait.
        test: { name: 'faults', include: FAULTS, maxWorkers: 5, sequence: { groupOrder: 2 } },
      },
      ...(withKubernetes
        ? [
            {
              extends: true as const,
              test: {
                name: 'kubernetes',
                include: [...KUBERNETES, ...INTEGRATION, ...FAULTS],
                fileParallelism: false,
                sequence: { groupOrder: 3 },
              },
            },
          ]
        : []),
    ],
  },
});
