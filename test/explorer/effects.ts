/** What an act does to the world once it is sent. */
import type { Machine } from '../../src/api/machine.ts';
import { ANNOTATIONS } from '../../src/api/names.ts';
import type { Json, KubeObject, Stored } from '../../src/api/wire.ts';
import type { Effect } from '../../src/controllers/machine/guards.ts';
import type { ReleaseMark } from '../../src/defender/evidence.ts';
import type { Move } from '../../src/defender/guarded-write.ts';
import { isMet, machinePatch, nodePatch } from '../../src/defender/guarded-patch.ts';
import { stateOf } from '../../src/defender/state.ts';
import { jsonPatch } from '@kubenode/embedded/testing';
import type { JsonPatchOperation } from '../../src/kube/client.ts';
import { DEGRADED, ownerOf } from '../../src/controllers/machine/cordon/cordon.ts';
import type { Mutation } from './mutants.ts';
import { cyclePower, withSite } from './repairs.ts';
import {
  FRESH_AGENT,
  replaced,
  withLeader,
  type Agent,
  type Flight,
  type Slot,
  type Leader,
  type Mark,
  type RepairPlan,
  type Scenario,
  type World,
} from './world.ts';
import { kubeletAnswers, read } from './leader-view.ts';
import { settled } from './terms.ts';

export function carryOut(
  world: World,
  index: number,
  at: number,
  flight: Flight,
  move: Exclude<Move<Effect>, { stop: string }>,
  scenario: Scenario,
  mutation: Mutation,
): World {
  if ('effect' in move) {
    if (scenario.repair !== undefined && move.effect.do !== 'DeleteInstance')
      return repairEffect(world, index, at, move.effect, scenario.repair, mutation);
    if (move.effect.do === 'Evict') return { ...world, pods: replaced(world.pods, at, Math.max(0, (world.pods[at] ?? 0) - 1)) };
    if (move.effect.do !== 'DeleteInstance') return world;
    const { providerID } = move.effect;
    if (`p://${world.instances[at] ?? ''}` !== providerID) return world;
    const agent: Agent = { ...FRESH_AGENT, state: 'dead' };
    return { ...world, instances: replaced(world.instances, at, undefined), agents: replaced(world.agents, at, agent) };
  }
  const bare = { ...move.object, metadata: { ...move.object.metadata, resourceVersion: '' } };
  if (move.write === 'ledger') {
    const { releases } = move;
    const mark = (leader: Leader, by: number): Leader =>
      releases === undefined ? leader : settled({ ...leader, marks: [...leader.marks, markFrom(releases, at, by === index)] }, world);
    const marked = { ...world, leaders: world.leaders.map(mark) };
    // The CRD's rule.
    if ((move.object.status?.epoch ?? 0) < (world.ledger.object?.status?.epoch ?? 0)) return marked;
    if (flight.ledger?.version !== world.ledger.version && mutation.cas !== 'ledger') return marked;
    return { ...marked, ledger: { version: world.ledger.version + 1, object: bare as Stored<typeof move.object> } };
  }
  if (move.write === 'node') {
    const slot = world.nodes[at];
    if (slot?.object === undefined || slot.object.metadata.uid !== move.object.metadata.uid) return world;
    const whole = { ...(bare as Stored<typeof move.object>), ...(slot.object.status === undefined ? {} : { status: slot.object.status }) };
    const seen = read(flight.node);
    const patched = seen === undefined ? undefined : applied(nodePatch(seen, move.object, { known: false }), slot);
    const object = patched ?? (mutation.cas === 'node' ? whole : undefined);
    if (object === undefined) return world;
    const owner = ownerOf(move.object);
    const isNew = owner !== undefined && owner !== DEGRADED && ownerOf(slot.object) !== owner;
    const { epoch, reservations } = stateOf(world.ledger.object ?? {});
    // Nothing stops what a leader had sent before the ledger that knew the reservation was deleted; an order cannot follow.
    const isLate =
      isNew &&
      epoch > 0 &&
      flight.epoch < world.reborn &&
      reservations.every((reservation) => reservation.machineUID !== world.machines[at]?.object?.metadata.uid);
    const late = isLate ? [...world.late, owner] : world.late;
    // The mark is the version that the write was decided on.
    return { ...world, late, nodes: replaced(world.nodes, at, { version: slot.version + 1, own: flight.node?.version, object }) };
  }
  const slot = world.machines[at];
  if (slot?.object === undefined || slot.object.metadata.uid !== move.object.metadata.uid) return world;
  const seen = read(flight.machine);
  const patched = seen === undefined ? undefined : applied(machinePatch(seen, move.object, { known: false }, move.status), slot);
  if (patched === undefined && mutation.cas !== 'machine') return world;
  if (move.status === true) {
    const status = (patched ?? move.object).status;
    const written: Stored<Machine> = { ...slot.object, ...(status === undefined ? {} : { status }) };
    return { ...world, machines: replaced(world.machines, at, { ...slot, version: slot.version + 1, object: written }) };
  }
  const before = slot.object.spec.operation?.epoch ?? 0;
  if ((move.object.spec.operation?.epoch ?? -1) < before) return world;
  const { status: _, ...main } = patched ?? (bare as Stored<Machine>);
  const object: Stored<Machine> = { ...atAnyTime(main), ...(slot.object.status === undefined ? {} : { status: slot.object.status }) };
  return { ...world, machines: replaced(world.machines, at, { version: slot.version + 1, own: slot.version + 1, object }) };
}

/** What the API server makes of it; undefined: a condition is not true. */
function applied<T extends KubeObject>(patch: JsonPatchOperation[], slot: Slot<T>): Stored<T> | undefined {
  const live = read(slot);
  if (live === undefined || !isMet(patch, live)) return undefined;
  const object = jsonPatch(live as object as Json, patch as object as Json) as object as Stored<T>;
  const { generation: _, annotations, ...rest } = object.metadata;
  const { [ANNOTATIONS.nodeWrite]: __, ...others } = annotations ?? {};
  const metadata = { ...rest, resourceVersion: '', ...(annotations === undefined ? {} : { annotations: others }) };
  return { ...object, metadata };
}

/** What must never happen must not depend on when a machine asks again: here it may at once. */
function atAnyTime<T extends Pick<Machine, 'spec'>>(machine: T): T {
  if (machine.spec.operation?.retry === undefined) return machine;
  const { retry: _, ...operation } = machine.spec.operation;
  return { ...machine, spec: { ...machine.spec, operation } };
}

/** As src/controllers/machine/effects.ts does it. */
function repairEffect(world: World, index: number, at: number, effect: Effect, plan: RepairPlan, mutation: Mutation): World {
  const site = world.sites[at];
  const leader = world.leaders[index];
  if (site === undefined || leader === undefined) return world;
  const count = world.pods[at] ?? 0;
  switch (effect.do) {
    case 'Evict':
      if (effect.pod.terminating || count === 0) return world;
      return kubeletAnswers(world, at)
        ? { ...world, pods: replaced(world.pods, at, count - 1) }
        : withSite(world, at, { terminating: site.terminating + 1 });
    case 'StopInstance':
      return site.keys.includes(effect.operationID) ? world : withSite(world, at, { power: 'Stopped' });
    case 'RetirePower':
      if (site.keys.includes(effect.operationID)) return world;
      return withSite(world, at, { keys: [...site.keys, effect.operationID] });
    case 'PowerCycle': {
      const id = mutation.keyless === true ? `${effect.operationID}#${site.keys.length}` : effect.operationID;
      const cycled = cyclePower(world, at, id, plan);
      const taken = withLeader(cycled, index, { ...leader, cycled: [effect.operationID] });
      return mutation.keyless === true ? withSite(taken, at, { acts: [...site.acts, effect.operationID] }) : taken;
    }
    case 'ForceDelete': {
      if (site.power !== 'Stopped' && mutation.oldProof !== true) return world;
      const left = count - effect.pods.length;
      return withSite({ ...world, pods: replaced(world.pods, at, Math.max(0, left)) }, at, { terminating: 0 });
    }
    case 'DeleteMachine': {
      const slot = world.machines[at];
      if (slot?.object === undefined || String(slot.version) !== effect.machine.metadata.resourceVersion) return world;
      const object = { ...slot.object, metadata: { ...slot.object.metadata, deletionTimestamp: '2026-11-20T00:00:00Z' } };
      return { ...world, machines: replaced(world.machines, at, { version: slot.version + 1, own: slot.version + 1, object }) };
    }
    case 'DeleteInstance':
      return world;
    default:
      return effect satisfies never;
  }
}

function markFrom(releases: ReleaseMark, machine: number, own: boolean): Mark {
  const { node } = releases;
  return {
    machine,
    uid: releases.machine.uid,
    machineVersion: versionOf(releases.machine.resourceVersion),
    nodeVersion: node !== undefined && 'resourceVersion' in node ? versionOf(node.resourceVersion) : undefined,
    nodeGoneUID: node !== undefined && 'goneUID' in node ? node.goneUID : undefined,
    own,
  };
}

const versionOf = (resourceVersion: string | undefined): number | undefined =>
  resourceVersion === undefined ? undefined : Number(resourceVersion);
