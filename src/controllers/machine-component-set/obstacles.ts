import semver from 'semver';
import type { Machine } from '../../api/machine.ts';
import type { MachineComponent } from '../../api/machine-component.ts';
import { machineComponentName } from '../../api/machine-component/values.ts';
import { keyOf } from '../../api/resource.ts';
import type { Content } from './content.ts';
import type { Lane } from './lane.ts';
import { isUnreported } from './new-machine.ts';
import type { SetView } from './observe.ts';
import type { Standing } from './standing.ts';

/** Why one machine cannot be given its content now, though its batch has come. Others go on. */
export interface MemberObstacle {
  machine: string;
  reason: 'Paused' | 'Held' | 'Offline' | 'NoAgent' | 'ComponentMissing' | 'NoPlatform' | 'NotReported';
  message: string;
}

/** `Adopt` and `Settle` change nothing on the node, so only a paused Machine stops them. */
export function obstacleOf(view: SetView, standing: Standing, content: Content, lane: Lane): MemberObstacle | undefined {
  const { machine } = standing;
  const name = keyOf(machine.metadata);
  if (machine.spec.paused === true) return { machine: name, reason: 'Paused', message: `${name} is paused` };
  if (lane === 'Adopt' || lane === 'Settle') return undefined;
  if (machine.spec.hold === true || machine.status?.agent?.hold === true)
    return { machine: name, reason: 'Held', message: `${name} is held` };
  // Back to what worked is written even where no agent reads it: the node must not come back and start what was withdrawn.
  if (lane !== 'Restore' && standing.isAside) return { machine: name, reason: 'Offline', message: `${name} is offline` };
  if (lane !== 'Restore' && isUnreported(machine)) {
    return { machine: name, reason: 'NotReported', message: `nothing is known of ${name} yet: it may be in use` };
  }
  if (content.action === 'Remove') return undefined;
  const component = view.component(content.version);
  if (component === undefined) {
    const missing = machineComponentName(view.set.spec.componentName, content.version);
    return { machine: name, reason: 'ComponentMissing', message: `there is no MachineComponent ${missing}` };
  }
  const agent = machine.status?.agent;
  if (agent === undefined) return { machine: name, reason: 'NoAgent', message: `${name} has no agent yet` };
  if (!runsOn(component, agent)) {
    const message = `${component.metadata.name} has no platform for ${name} (${agent.os}/${agent.arch})`;
    return { machine: name, reason: 'NoPlatform', message };
  }
  return undefined;
}

function runsOn(component: MachineComponent, agent: { os: string; arch: string }): boolean {
  return component.spec.platforms.some(({ os, arch }) => (os === 'any' || os === agent.os) && (arch === 'any' || arch === agent.arch));
}

/** Machines that are to have this component and not what it requires. The agent waits for it; here it is reported, since it may never come. */
export function findRequirements(view: SetView, standings: readonly Standing[]): { any: boolean; missing: string[] } {
  const missing: string[] = [];
  let any = false;
  for (const { machine, target } of standings) {
    const requires = target.action === 'Install' ? (view.component(target.version)?.spec.requires ?? []) : [];
    any ||= requires.length > 0;
    for (const { componentName, versionRange } of requires) {
      const problem = unmet(view, machine, componentName, versionRange);
      if (problem !== undefined) missing.push(problem);
    }
  }
  return { any, missing };
}

function unmet(view: SetView, machine: Machine, componentName: string, range: string | undefined): string | undefined {
  const version = view.wanted(machine, componentName);
  if (version === undefined) return `${keyOf(machine.metadata)} is not to have ${componentName}`;
  if (range === undefined || semver.satisfies(version, range, { includePrerelease: true })) return undefined;
  return `${keyOf(machine.metadata)} is to have ${componentName} ${version}, not ${range}`;
}
