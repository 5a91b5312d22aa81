import { defineConfig } from 'vitest/config';

export default defineConfig({
  resolve: { conditions: ['@kubenode/source'] },
  ssr: { resolve: { conditions: ['@kubenode/source'] } },
  test: {
    include: ['src/**/*.test.ts', 'test/**/*.test.ts', 'fleet/**/*.test.ts', 'rules/**/*.test.ts'],
    exclude: ['node_modules/**', 'dist/**', 'test/kubernetes/**', 'test/nodes/**'],
    testTimeout: 20_000,
    hookTimeout: 30_000,
  },
});
