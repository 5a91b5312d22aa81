import { describe, expect, it } from 'vitest';
import { API_VERSION } from '../api/kind.ts';
import type { MachineComponentSet } from '../api/machine-component-set.ts';
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
    'is none, and is halted, where no other could be made of what it reports: %s',
    (createFailure) => {
      expect(evidence({ createFailure })).toEqual({ evidence: false, halted: 'no provider "locl"' });
    },
  );

  it('is halted by nothing that was reported of an earlier generation', () => {
    expect(evidence({ createFailure: 'UnknownProvider', observedGeneration: 1 })).toEqual({ evidence: false, halted: undefined });
  });

  it('is none where a machine cannot have what the template gives, and reports that', () => {
    const conditions = [
      { type: 'WriteFailed', status: 'True' as const, reason: 'Invalid', message: 'no such label', lastTransitionTime: AT },
    ];
    expect(evidenceOf(set({ conditions }), 'sha256:1')).toEqual({
      evidence: false,
      halted: undefined,
      progress: '3/3 machines available, no such label',
    });
  });

  it('is not halted by what passes: it lacks machines, and waits', () => {
    expect(evidence({ createFailure: 'Forbidden', replicas: 2, availableReplicas: 2 })).toEqual({ evidence: false, halted: undefined });
  });
});

describe('how far a component set is', () => {
  const progress = (reason: string, soakUntil?: string): string | undefined => {
    const set: Stored<MachineComponentSet> = {
      apiVersion: API_VERSION,
      kind: 'MachineComponentSet',
      metadata: { name: 'a', uid: 'u', resourceVersion: '1', creationTimestamp: AT, generation: 2 },
      spec: { componentName: 'a', version: '1' },
      status: {
        progress: '1/1',
        observedGeneration: 2,
        ...(soakUntil === undefined ? {} : { soakUntil }),
        conditions: [{ type: 'Progressing', status: 'True', reason, message: 'batch 1 of 3', lastTransitionTime: AT }],
      },
    };
    return evidenceOf(set, 'sha256:1').progress;
  };

  it('reports that it soaks, and until when', () => {
    expect(progress('Soaking', '2026-11-20T00:01:00Z')).toBe('1/1 machines, batch 1 of 3, soaks there until 2026-11-20T00:01:00.000Z');
  });

  it.each([
    ['RollingOut', '2026-11-20T00:01:00Z'],
    ['Soaking', undefined],
    ['Soaking', 'soon'],
  ])('reports nothing of a soak where it is %s until %s', (reason, until) => {
    expect(progress(reason, until)).toBe('1/1 machines, batch 1 of 3');
  });
});
