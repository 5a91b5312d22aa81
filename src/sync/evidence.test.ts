import { describe, expect, it } from 'vitest';
import { API_VERSION } from '../api/kind.ts';
import type { MachineSet } from '../api/machine-set.ts';
import type { Stored } from '../api/wire.ts';
import { evidenceOf } from './evidence.ts';

const AT = '2026-11-20T00:00:00Z';

describe('E2: a MachineSet that has all its machines', () => {
  const set = (status: MachineSet['status']): Stored<MachineSet> => ({
    apiVersion: API_VERSION,
    kind: 'MachineSet',
    metadata: { namespace: 'web', name: 'a', uid: 'u', resourceVersion: '1', creationTimestamp: AT, generation: 2 },
    spec: { replicas: 3, provider: { name: 'locl' } },
    status: {
      replicas: 3,
      availableReplicas: 3,
      observedGeneration: 2,
      conditions: [{ type: 'Progressing', status: 'False', reason: 'CreateFailed', message: 'no provider "locl"', lastTransitionTime: AT }],
      ...status,
    },
  });
  const evidence = (status: MachineSet['status']) => {
    const { evidence, halted } = evidenceOf(set(status), 'sha256:1');
    return { evidence, halted };
  };

  it('is proof', () => {
    expect(evidence({})).toEqual({ evidence: true, halted: undefined });
  });

  it.each(['UnknownProvider', 'InvalidConfig'])(
    'is none, and is halted, where no other could be made of what it says: %s',
    (createFailure) => {
      expect(evidence({ createFailure })).toEqual({ evidence: false, halted: 'no provider "locl"' });
    },
  );

  it('is halted by nothing that was said of an earlier generation', () => {
    expect(evidence({ createFailure: 'UnknownProvider', observedGeneration: 1 })).toEqual({ evidence: false, halted: undefined });
  });

  it('is not halted by what passes: it lacks machines, and waits', () => {
    expect(evidence({ createFailure: 'Forbidden', replicas: 2, availableReplicas: 2 })).toEqual({ evidence: false, halted: undefined });
  });
});
