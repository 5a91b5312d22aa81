/** What tests of the whole agent share: a node with one component, what is wanted of it, and what it became. */
import type { ComponentEntry, Operation } from '../../api/machine.ts';
import { begin, live, type Life } from './life.ts';
import { entry, order, release, ROOT, World } from './world.ts';

type Options = Parameters<typeof release>[2];

export interface Node {
  world: World;
  life: Life;
}

/** A node on which app 1.0.0 runs, and its agent. */
export async function node(options: Options = {}): Promise<Node> {
  const world = new World();
  release(world, '1.0.0', options);
  world.change({ components: [entry('app', '1.0.0', 1)] });
  const life = begin(world);
  await live(world, life, () => app(world)?.state === 'Healthy');
  await rest(world, life);
  world.effects = [];
  world.events = [];
  world.requests.machine = 0;
  return { world, life };
}

/** The same, when version 1.1.0 was announced and waits for its order. */
export async function announced(options: Options = {}): Promise<Node> {
  const { world, life } = await node();
  release(world, '1.1.0', options);
  want(world, life, [entry('app', '1.1.0', 2)]);
  await waiting(world, life);
  return { world, life };
}

/** The same, when it was ordered and not yet begun. */
export async function ordered(options: Options = {}): Promise<Node> {
  const { world, life } = await announced(options);
  give(world, life, order(world, 'op'));
  return { world, life };
}

export function unit(world: World, name = 'app') {
  const found = world.units.get(name);
  if (found === undefined) throw new Error(`the unit ${name} is not there`);
  return found;
}

export const app = (world: World) => world.component('app');
export const outcome = (world: World) => world.status.operation?.outcome;

export function want(world: World, life: Life, components: ComponentEntry[]): void {
  world.change({ components });
  life.notify();
}

export function give(world: World, life: Life, operation: Operation): void {
  world.change({ operation });
  life.notify();
}

/** Until the agent has nothing to do but wait for others. */
export async function rest(world: World, life: Life, ms = 5_000): Promise<void> {
  const until = world.ms + ms;
  await live(world, life, () => world.ms >= until);
}

export async function waiting(world: World, life: Life): Promise<void> {
  await live(world, life, () => app(world)?.state === 'Waiting' && app(world)?.needs !== undefined);
}

export function put(world: World, path: string, text: string | undefined): void {
  const full = `${ROOT}${path}`;
  if (text === undefined) world.disk.change(full, [[full.slice(full.lastIndexOf('/') + 1), undefined]]);
  else
    world.disk.change(full, [
      [
        full.slice(full.lastIndexOf('/') + 1),
        world.disk.add({ kind: 'file', data: Buffer.from(text), durable: undefined, lost: false, mode: 0o640 }),
      ],
    ]);
}

export function find(world: World, path: string): { data: Buffer; mode: number } {
  const inode = world.disk.inodes.get(world.disk.find(`${ROOT}${path}`, true) ?? 0);
  if (inode?.kind !== 'file') throw new Error(`${path} is no file`);
  return inode;
}
