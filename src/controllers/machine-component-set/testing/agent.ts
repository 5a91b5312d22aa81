import type { ComponentEntry, ComponentStatus, Machine } from '../../../api/machine.ts';
import { contentOf } from '../../../api/machine/values.ts';
import type { Stored } from '../../../api/wire.ts';

/** A node's agent, as far as the set controller can distinguish it from a real one. */
export interface ModelAgent {
  online: boolean;
  boot: number;
  /** Restarts the node: probes have not succeeded in the new boot before the next step. */
  reboot(): void;
  /** The running component stops passing its probes, or passes them again. */
  healthy: boolean;
  /** As after a restore of the API from a backup: it knows of revisions that the API has forgotten. */
  remembers(revisions: number): void;
  /** What it does next; changes `machine.status`. */
  step(machine: Stored<Machine>): void;
  /** Version that runs; undefined: none. */
  readonly running: string | undefined;
}

type Running = Pick<ComponentEntry, 'action' | 'version' | 'values' | 'revision'>;

/** `fails`: whether this content does not come up on this node. `waits`: whether it has to wait for an operation. */
export function modelAgent(name: string, fails: (entry: ComponentEntry) => boolean, waits: (entry: ComponentEntry) => boolean): ModelAgent {
  /** Highest revision accepted, with its content: the journal. */
  let floor = 0;
  let floorContent = '';
  let running: Running | undefined;
  let carriedOut = 0;
  let switching = false;
  let probedBoot = 0;
  let failed: ComponentStatus['failed'];
  let refused: ComponentStatus['refused'];

  const agent: ModelAgent = {
    online: true,
    boot: 1,
    healthy: true,
    reboot() {
      agent.boot++;
      switching = false;
    },
    remembers(revisions) {
      if (floor === 0) return;
      floor += revisions;
      floorContent = 'something else';
      if (running !== undefined) running = { ...running, revision: floor };
      carriedOut = floor;
    },
    get running() {
      return running?.action === 'Install' ? running.version : undefined;
    },
    step(machine) {
      const entry = machine.spec.components?.find((each) => each.name === name);
      machine.status ??= {};
      machine.status.agent = { version: '1', apiLevel: 1, bootID: `boot-${agent.boot}`, os: 'linux', arch: 'amd64' };
      if (entry === undefined) return;
      const state = advance(entry);
      const status = statusOf(state);
      machine.status.components = [...(machine.status.components ?? []).filter((each) => each.name !== name), status];
    },
  };

  function advance(entry: ComponentEntry): ComponentStatus['state'] {
    const content = contentOf(entry);
    if (entry.revision < floor || (entry.revision === floor && content !== floorContent)) {
      refused = { revision: entry.revision, reason: 'Older' };
      return settled();
    }
    if (entry.revision > floor) {
      floor = entry.revision;
      floorContent = content;
      failed = undefined;
      refused = undefined;
      const isRunning = running !== undefined && contentOf(running) === content;
      if (isRunning) {
        running = { ...entry };
        carriedOut = entry.revision;
        return settled();
      }
      switching = false;
      return 'Waiting';
    }
    if (carriedOut === entry.revision || failed?.revision === entry.revision) return settled();
    if (!switching && waits(entry)) return 'Waiting';
    if (!switching) {
      switching = true;
      return 'Switching';
    }
    switching = false;
    if (fails(entry)) {
      failed = {
        revision: entry.revision,
        reason: 'ProbesFailed',
        message: `${entry.version} did not come up`,
        restored: running !== undefined,
      };
      return settled();
    }
    running = { ...entry };
    carriedOut = entry.revision;
    return settled();
  }

  function settled(): ComponentStatus['state'] {
    probedBoot = agent.boot;
    if (running === undefined) return failed === undefined ? 'Waiting' : 'Failed';
    if (running.action === 'Remove') return 'Removed';
    return agent.healthy ? 'Healthy' : 'Unhealthy';
  }

  function statusOf(state: ComponentStatus['state']): ComponentStatus {
    const installed = running?.action === 'Install' ? running : undefined;
    return {
      name,
      version: installed?.version ?? '',
      content: installed === undefined ? '' : contentOf(installed),
      revision: floor,
      running: running?.revision ?? 0,
      state,
      ...(state === 'Waiting' ? { needs: 'Restart', needsFor: 'Change' } : {}),
      ...(failed === undefined ? {} : { failed }),
      ...(refused === undefined ? {} : { refused }),
      bootID: `boot-${probedBoot}`,
    };
  }

  return agent;
}
