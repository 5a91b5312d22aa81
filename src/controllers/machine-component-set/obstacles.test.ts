import { describe, expect, it } from 'vitest';
import { API_VERSION } from '../../api/kind.ts';
import type { Machine } from '../../api/machine.ts';
import type { MachineComponent } from '../../api/machine-component.ts';
import type { Stored } from '../../api/wire.ts';
import type { Lane } from './lane.ts';
import type { SetView } from './observe.ts';
import { findRequirements, obstacleOf, type MemberObstacle } from './obstacles.ts';
import type { Standing } from './standing.ts';

type Platforms = { os: string; arch: string }[];
const component = (platforms: Platforms, requires?: { componentName: string; versionRange?: string }[]): MachineComponent =>
  ({
    apiVersion: API_VERSION,
    kind: 'MachineComponent',
    metadata: { name: 'kubelet-1.0.0' },
    spec: { platforms, ...(requires === undefined ? {} : { requires }) },
  }) as unknown as MachineComponent;
const view = (found: MachineComponent | undefined, wanted: Record<string, string> = {}): SetView =>
  ({
    set: { spec: { componentName: 'kubelet' } },
    component: (version: string) => (version === '1.0.0' ? found : undefined),
    wanted: (_machine: Machine, name: string) => wanted[name],
  }) as unknown as SetView;

const AGENT = { os: 'linux', arch: 'amd64' };
function standing(
  spec: Machine['spec'] = {},
  more: { agent?: object | undefined; isAside?: boolean; phase?: string | undefined; firstReadyAt?: string } = {},
): Standing {
  const { isAside = false, firstReadyAt } = more;
  const agent = 'agent' in more ? more.agent : AGENT;
  const phase = 'phase' in more ? more.phase : 'Running';
  const machine = {
    metadata: { namespace: 'web', name: 'a' },
    spec,
    status: {
      ...(agent === undefined ? {} : { agent }),
      ...(phase === undefined ? {} : { phase }),
      ...(firstReadyAt === undefined ? {} : { firstReadyAt }),
    },
  } as unknown as Stored<Machine>;
  return { machine, isAside, target: { action: 'Install', version: '1.0.0' } } as unknown as Standing;
}
const any = component([{ os: 'any', arch: 'any' }]);
const found = (
  of: Standing,
  lane: Lane = 'Forward',
  action: 'Install' | 'Remove' = 'Install',
  its: SetView = view(any),
  version = '1.0.0',
): MemberObstacle['reason'] | undefined => obstacleOf(its, of, { action, version }, lane)?.reason;

describe('what keeps a machine from its content', () => {
  it('is nothing where it runs, is current and the content is there', () => {
    expect(found(standing())).toBeUndefined();
    expect(found(standing({ hold: false, paused: false }))).toBeUndefined();
  });

  it.each<[string, Standing, Partial<Record<Lane, MemberObstacle['reason'] | undefined>>]>([
    [
      'a pause stops all',
      standing({ paused: true }),
      { Forward: 'Paused', Restore: 'Paused', Adopt: 'Paused', Settle: 'Paused', Join: 'Paused' },
    ],
    [
      'a hold stops what changes the node',
      standing({ hold: true }),
      { Forward: 'Held', Restore: 'Held', Adopt: undefined, Settle: undefined },
    ],
    [
      'a hold on the node does too',
      standing({}, { agent: { ...AGENT, hold: true } }),
      { Forward: 'Held', Restore: 'Held', Adopt: undefined, Settle: undefined },
    ],
    [
      'a stale agent stops all but the way back',
      standing({}, { isAside: true }),
      { Forward: 'Offline', Join: 'Offline', Restore: undefined, Adopt: undefined },
    ],
    [
      'that nothing is known of it yet does too',
      standing({}, { phase: undefined }),
      { Forward: 'NotReported', Join: 'NotReported', Restore: undefined, Settle: undefined },
    ],
    ['what was Ready once is known', standing({}, { phase: undefined, firstReadyAt: '2026-11-20T00:00:00Z' }), { Forward: undefined }],
    ['one without an agent gets nothing', standing({}, { agent: undefined }), { Forward: 'NoAgent', Restore: 'NoAgent', Adopt: undefined }],
  ])('%s', (_what, of, expected) => {
    for (const [lane, reason] of Object.entries(expected)) expect([lane, found(of, lane as Lane)]).toEqual([lane, reason]);
  });

  it('is named with the machine', () => {
    expect(obstacleOf(view(any), standing({ hold: true }), { action: 'Install', version: '1.0.0' }, 'Forward')).toEqual({
      machine: 'web/a',
      reason: 'Held',
      message: 'web/a is held',
    });
  });

  it('is that there is no such component, which a removal does not need', () => {
    expect(obstacleOf(view(undefined), standing(), { action: 'Install', version: '1.0.0' }, 'Forward')).toEqual({
      machine: 'web/a',
      reason: 'ComponentMissing',
      message: 'there is no MachineComponent kubelet-1.0.0',
    });
    expect(found(standing(), 'Forward', 'Install', view(any), '2.0.0')).toBe('ComponentMissing');
    expect(found(standing({}, { agent: undefined }), 'Forward', 'Remove', view(undefined))).toBeUndefined();
    expect(found(standing({ hold: true }), 'Forward', 'Remove', view(undefined))).toBe('Held');
  });

  it.each<[Platforms, boolean]>([
    [[{ os: 'linux', arch: 'amd64' }], true],
    [[{ os: 'any', arch: 'amd64' }], true],
    [[{ os: 'linux', arch: 'any' }], true],
    [[{ os: 'linux', arch: 'arm64' }], false],
    [[{ os: 'darwin', arch: 'amd64' }], false],
    [[{ os: 'darwin', arch: 'any' }], false],
    [[{ os: 'any', arch: 'arm64' }], false],
    [
      [
        { os: 'darwin', arch: 'amd64' },
        { os: 'linux', arch: 'amd64' },
      ],
      true,
    ],
    [[], false],
  ])('is that no platform of the component is its own: %j', (platforms, runs) => {
    const obstacle = obstacleOf(view(component(platforms)), standing(), { action: 'Install', version: '1.0.0' }, 'Forward');
    expect(obstacle?.message).toBe(runs ? undefined : 'kubelet-1.0.0 has no platform for web/a (linux/amd64)');
  });
});

describe('what a component requires', () => {
  const needs = (versionRange?: string): MachineComponent =>
    component([], [{ componentName: 'containerd', ...(versionRange === undefined ? {} : { versionRange }) }]);
  it.each<[string, SetView, { any: boolean; missing: string[] }]>([
    ['nothing', view(any), { any: false, missing: [] }],
    ['nothing that is known', view(undefined), { any: false, missing: [] }],
    ['what it is to have', view(needs(), { containerd: '1.7.0' }), { any: true, missing: [] }],
    ['what it is to have in this version', view(needs('>=1.6'), { containerd: '1.7.0-rc.1' }), { any: true, missing: [] }],
    ['what it is not to have', view(needs()), { any: true, missing: ['web/a is not to have containerd'] }],
    [
      'what it is to have in another version',
      view(needs('>=2'), { containerd: '1.7.0' }),
      { any: true, missing: ['web/a is to have containerd 1.7.0, not >=2'] },
    ],
  ])('%s', (_what, its, expected) => {
    expect(findRequirements(its, [standing()])).toEqual(expected);
  });
  it('is of no account where it is removed, and is found on any machine', () => {
    const removed = { ...standing(), target: { action: 'Remove', version: '1.0.0' } } as Standing;
    expect(findRequirements(view(needs()), [removed])).toEqual({ any: false, missing: [] });
    expect(findRequirements(view(needs()), [standing(), removed])).toMatchObject({ any: true });
  });
});
