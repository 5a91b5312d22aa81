import { describe, expect, it } from 'vitest';
import type { UnitStatus } from '../api/cluster.ts';
import { unitDigest } from '../api/digest.ts';
import { API_VERSION } from '../api/kind.ts';
import { unitKey } from '../api/unit.ts';
import type { KubeObject } from '../api/wire.ts';
import { refuseGroupChanges } from './group-changes.ts';

const widget = (apiVersion: string, kind = 'Widget'): KubeObject => ({ apiVersion, kind, metadata: { namespace: 'web', name: 'w' } });
const UNIT = 'Widget/web/w';

/** Why a commit with this object is refused in cluster "p"; undefined: it is not. */
async function refusal(after: KubeObject, there: { records?: UnitStatus[]; wanted?: KubeObject; kept?: boolean }): Promise<unknown> {
  const unitOf = (object: KubeObject) => ({ key: unitKey(object), digest: unitDigest([object]), objects: [object] });
  const before = there.wanted === undefined ? undefined : unitOf(there.wanted);
  try {
    await refuseGroupChanges({
      clusters: [
        {
          name: 'p',
          object: { apiVersion: API_VERSION, kind: 'Cluster', metadata: { name: 'p' }, spec: {} },
          units: [{ ...unitOf(after), origins: ['fleet/main.ts:3:5'] }],
        },
      ],
      recorded: new Map([['p', there.records ?? []]]),
      wanted: new Map([['p', new Map(before === undefined ? [] : [[before.key, { digest: before.digest, commit: 'c1' }]])]]),
      bundles: { get: async (digest) => (digest === before?.digest && there.kept !== false ? { ...before, origins: [] } : undefined) },
    });
    return undefined;
  } catch (error) {
    return error;
  }
}
const recordOf = (object: KubeObject, rest: Partial<UnitStatus> = {}): UnitStatus => ({
  unit: UNIT,
  fleet: 'main',
  digest: unitDigest([object]),
  inventory: [{ apiVersion: object.apiVersion, kind: object.kind, namespace: 'web', name: 'w', uid: 'u' }],
  ...rest,
});

describe('E1: a unit keeps its API group', () => {
  const former = widget('b.example.com/v1');
  const after = widget('a.example.com/v1');

  it('a commit that changes it is refused with its line, both groups and what to do', async () => {
    expect(await refusal(after, { records: [recordOf(former)], wanted: former })).toMatchObject({
      code: 'GroupChanged',
      verdict: true,
      message: expect.stringContaining('fleet/main.ts:3:5: Widget/web/w in p from b.example.com to a.example.com') as unknown,
      next: expect.stringContaining('remove the former one by a commit of its own') as unknown,
    });
  });

  it('also where what was accepted has not begun yet', async () => {
    expect(await refusal(after, { wanted: former })).toMatchObject({ code: 'GroupChanged', verdict: true });
    expect(await refusal(after, { wanted: former, records: [recordOf(former, { digest: 'v1:x', begun: 'v1:y' })] })).toMatchObject({
      code: 'GroupChanged',
    });
  });

  it('a commit that adds the new one is tried again until the former one is removed', async () => {
    expect(await refusal(after, { records: [recordOf(former, { begun: 'Removal' })] })).toMatchObject({
      code: 'GroupInUse',
      verdict: false,
    });
    const removed: UnitStatus = { unit: UNIT, fleet: 'main', removal: { lane: 'Forward', at: '2026-11-20T00:00:00Z' } };
    expect(await refusal(after, { records: [removed] })).toBeUndefined();
  });

  it('its version may change, and so may what it names', async () => {
    const newer = widget('b.example.com/v2');
    expect(await refusal(newer, { records: [recordOf(former)], wanted: former })).toBeUndefined();
    const names: UnitStatus = recordOf(former, {
      inventory: [
        { apiVersion: 'a.example.com/v1', kind: 'Part', namespace: 'web', name: 'w', uid: 'p' },
        { apiVersion: 'b.example.com/v1', kind: 'Widget', namespace: 'web', name: 'w', uid: 'u' },
      ],
    });
    expect(await refusal(newer, { records: [names], wanted: former })).toBeUndefined();
  });

  it('between a group and the core group too', async () => {
    const service = widget('v1', 'Service');
    const knative = widget('serving.knative.dev/v1', 'Service');
    expect(await refusal(service, { wanted: knative })).toMatchObject({
      message: expect.stringContaining('from serving.knative.dev to the core group') as unknown,
    });
  });
});
