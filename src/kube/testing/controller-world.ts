import { afterEach } from 'vitest';
import type { ConfigMap, Node } from '../../api/builtin.ts';
import { keyOf } from '../../api/resource.ts';
import { createCache } from '../cache.ts';
import type { Cache } from '../cache.ts';
import { createController } from '../controller.ts';
import type { Controller, ControllerOptions } from '../controller.ts';
import { createClient } from '../http-client.ts';
import { fakeApiServer } from './api-server.ts';
import type { FakeApiServer } from './api-server.ts';
import { fakeClock, seededRandom } from './clock.ts';
import type { FakeClock } from './clock.ts';
import { recordingLog } from './log.ts';

const worlds: World[] = [];
afterEach(() => worlds.splice(0).forEach((world) => world.controller.abort(new Error('the test is over'))));

type Options = Pick<ControllerOptions, 'watches' | 'reconcile'> & Partial<ControllerOptions>;

export interface World {
  server: FakeApiServer;
  clock: FakeClock;
  cache: Cache;
  log: ReturnType<typeof recordingLog>;
  controller: AbortController;
  create: (options: Options) => Controller;
  run: (options: Options) => Promise<void>;
}

/** A server, a cache of it and a controller, which ends with the test. */
export function world(): World {
  const server = fakeApiServer();
  const clock = fakeClock();
  const log = recordingLog();
  const controller = new AbortController();
  const ports = { client: createClient(server.transport), clock, random: seededRandom(3), log, signal: controller.signal };
  const create = (options: Options): Controller => createController({ name: 'test', ...ports, ...options });
  const made: World = {
    server,
    clock,
    log,
    controller,
    cache: createCache(ports),
    create,
    run: async (options) => await create(options).run(),
  };
  worlds.push(made);
  return made;
}

/** For `watch`: a ConfigMap is of the Node that its data names. */
export const self = (object: Node | ConfigMap): string[] => [keyOf(object.metadata)];
export const owner = (object: ConfigMap): string[] => (object.data?.['owner'] === undefined ? [] : [object.data['owner']]);
