/**
 * One text for each world that differs in anything that could ever matter. Contents are numbered as they are met; resourceVersions, where only
 * order and equality matter, are replaced by their rank among those that the world still remembers.
 */
import type { KubeObject } from '../../src/api/wire.ts';
import type { Slot, World } from './world.ts';

export interface Encoder {
  key(world: World): string;
  /** Whether a text occurs in anything the world remembers, so that it must not be taken for a new id. */
  mentions(world: World, text: string): boolean;
}

/** Slots: machines, nodes, the ledger, then jobs. */
function slotsOf(world: World): Slot<KubeObject>[][] {
  const slots: Slot<KubeObject>[][] = [];
  const count = world.machines.length;
  for (let index = 0; index < 2 * count + 1; index++) {
    const current: Slot<KubeObject> | undefined =
      index < count ? world.machines[index] : index < 2 * count ? world.nodes[index - count] : world.ledger;
    slots.push(current === undefined ? [] : [current]);
  }
  for (const job of world.jobs) slots.push([job]);
  return slots;
}

export function createEncoder(): Encoder {
  const numbers = new Map<string, number>();
  const texts: string[] = [];
  const seen = new WeakMap<object, number>();

  function numberOf(value: object | undefined): number {
    if (value === undefined) return 0;
    let number = seen.get(value);
    if (number !== undefined) return number;
    const text = JSON.stringify(value);
    number = numbers.get(text);
    if (number === undefined) {
      number = texts.push(text);
      numbers.set(text, number);
    }
    seen.set(value, number);
    return number;
  }

  function key(world: World): string {
    const count = world.machines.length;
    const slots = slotsOf(world);
    const remembered: number[][] = slots.map((slot) => [slot[0]?.version ?? 0]);
    const owns: number[][] = slots.map((slot) => (slot[0]?.own === undefined ? [] : [slot[0].own]));
    const note = (slot: number, version: number | undefined, own?: number): void => {
      if (version !== undefined) remembered[slot]?.push(version);
      if (own !== undefined) owns[slot]?.push(own);
    };
    for (const leader of world.leaders) {
      for (const flight of leader.flights) {
        const machine = typeof flight.key === 'number' ? flight.key : 0;
        note(machine, flight.machine?.version, flight.machine?.own);
        note(count + machine, flight.node?.version, flight.node?.own);
        note(2 * count, flight.ledger?.version);
      }
      leader.frozen.machines?.forEach((slot, index) => note(index, slot.version, slot.own));
      leader.frozen.nodes?.forEach((slot, index) => note(count + index, slot.version, slot.own));
      note(2 * count, leader.frozen.ledger?.version);
      leader.beginning?.machines.forEach((slot, index) => note(index, slot.version, slot.own));
      leader.frozen.jobs?.forEach((slot, index) => note(2 * count + 1 + index, slot.version));
      for (const pass of leader.jobPasses) note(2 * count + 1 + pass.index, pass.version);
      for (const mark of leader.marks) {
        note(mark.machine, mark.machineVersion);
        note(count + mark.machine, mark.nodeVersion);
      }
    }
    const ranking = (versions: number[]): ((version: number | undefined) => number) => {
      const sorted = [...new Set(versions)].sort((a, b) => a - b);
      return (version) => (version === undefined ? -1 : sorted.indexOf(version));
    };
    const ranks = remembered.map(ranking);
    const ownRanks = owns.map(ranking);
    const rank = (slot: number, version: number | undefined): number => ranks[slot]?.(version) ?? -1;
    const textOf = (slot: number, value: Slot<KubeObject> | undefined): string =>
      value === undefined ? '-' : `${numberOf(value.object)}.${rank(slot, value.version)}.${ownRanks[slot]?.(value.own) ?? -1}`;

    const parts: (string | number)[] = slots.map((slot, index) => textOf(index, slot[0]));
    for (const leader of world.leaders) {
      parts.push(`L${leader.epoch ?? '-'}`);
      const flights = leader.flights.map((flight) => {
        const machine = typeof flight.key === 'number' ? flight.key : 0;
        return [
          flight.key,
          typeof flight.what === 'string' ? flight.what : numberOf(flight.what),
          flight.epoch,
          flight.reads,
          textOf(machine, flight.machine),
          textOf(count + machine, flight.node),
          textOf(2 * count, flight.ledger),
          ...(flight.gathered === undefined
            ? []
            : [...flight.gathered.machines, ...flight.gathered.nodes].map((each) => numberOf(each.object))),
        ].join(':');
      });
      parts.push(...flights.sort());
      parts.push(
        'f',
        leader.frozen.machines === undefined ? '-' : leader.frozen.machines.map((each, index) => textOf(index, each)).join(':'),
      );
      parts.push(leader.frozen.nodes === undefined ? '-' : leader.frozen.nodes.map((each, index) => textOf(count + index, each)).join(':'));
      parts.push(textOf(2 * count, leader.frozen.ledger));
      if (leader.beginning !== undefined) {
        // Lists that were made for a ledger that is gone are worth nothing.
        const isOfThisLedger = leader.beginning.version === world.ledger.version;
        parts.push(isOfThisLedger ? 'b' : 'B', leader.beginning.machines.map((each, index) => textOf(index, each)).join(':'));
      }
      if (world.jobs.length > 0) {
        parts.push(
          leader.frozen.jobs === undefined ? '-' : leader.frozen.jobs.map((each, index) => textOf(2 * count + 1 + index, each)).join(':'),
          leader.cycled.join(':'),
        );
        const passes = leader.jobPasses.map(({ index, version, job, ledger, machine, node, status }) =>
          [index, rank(2 * count + 1 + index, version), ...[job, ledger?.object, machine?.object, node?.object, status].map(numberOf)].join(
            ':',
          ),
        );
        parts.push(...passes.sort());
      }
      for (const mark of leader.marks)
        parts.push(
          `${mark.uid}:${mark.own}:${mark.nodeGoneUID ?? '-'}:${rank(mark.machine, mark.machineVersion)}:${rank(count + mark.machine, mark.nodeVersion)}`,
        );
    }
    for (const agent of world.agents) parts.push(agent.epoch, agent.last, agent.state, numberOf(agent.order), agent.version ?? '');
    if (world.jobs.length > 0) {
      for (const agent of world.agents) parts.push(agent.boot ?? '', numberOf(agent.report));
      for (const site of world.sites) parts.push(numberOf(site));
      parts.push(world.withdrawn ? 1 : 0);
    }
    parts.push(
      world.instances.join(':'),
      world.pods.join(':'),
      world.cordonedByHuman.join(':'),
      world.halted ? 1 : 0,
      world.time,
      world.lateEvictions,
    );
    // Where the ledger exists its epoch shows it.
    parts.push((world.ledger.object?.status?.epoch ?? 0) > 0 ? '' : world.given, world.reborn, world.late.join(':'));
    parts.push(Object.values(world.budget).join(':'));
    return parts.join(',');
  }

  function mentions(world: World, text: string): boolean {
    const contains = (value: object | undefined): boolean => texts[numberOf(value) - 1]?.includes(text) ?? false;
    return (
      contains(world.ledger.object) ||
      world.machines.some((slot) => contains(slot.object)) ||
      world.nodes.some((slot) => contains(slot.object)) ||
      world.agents.some((agent) => `"${agent.last}"`.includes(text) || contains(agent.order) || contains(agent.report)) ||
      world.jobs.some((slot) => contains(slot.object)) ||
      world.sites.some(contains) ||
      world.late.some((id) => `"${id}"` === text) ||
      world.leaders.some(
        (leader) =>
          leader.flights.some(
            (flight) =>
              (typeof flight.what === 'object' && contains(flight.what)) ||
              contains(flight.machine?.object) ||
              contains(flight.node?.object) ||
              contains(flight.ledger?.object),
          ) ||
          (leader.frozen.machines ?? []).some((slot) => contains(slot.object)) ||
          (leader.frozen.nodes ?? []).some((slot) => contains(slot.object)) ||
          contains(leader.frozen.ledger?.object) ||
          (leader.frozen.jobs ?? []).some((slot) => contains(slot.object)) ||
          leader.jobPasses.some(({ job, ledger, machine, node, status }) =>
            [job, ledger?.object, machine?.object, node?.object, status].some(contains),
          ) ||
          (leader.beginning?.machines ?? []).some((slot) => contains(slot.object)) ||
          leader.cycled.some((id) => `"${id}"` === text),
      )
    );
  }

  return { key, mentions };
}
