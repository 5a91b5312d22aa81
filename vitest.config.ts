import { defineConfig } from 'vitest/config';

/** Tests that start whole systems: one file at a time, after all others, so that nothing else takes their processor. */
const SYSTEM = ['test/e2e/**/*.test.ts', 'test/integration/**/*.test.ts', 'test/package/**/*.test.ts'];

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
          exclude: ['node_modules/**', 'dist/**', ...SYSTEM],
          sequence: { groupOrder: 0 },
        },
      },
      {
        extends: true,
        test: { name: 'system', include: SYSTEM, fileParallelism: false, sequence: { groupOrder: 1 } },
      },
    ],
  },
});
