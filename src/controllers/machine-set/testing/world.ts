import { API_VERSION } from '../../../api/kind.ts';
import { Machines, type Machine } from '../../../api/machine.ts';
import { MachineComponentSets } from '../../../api/machine-component-set.ts';
import { MachineSets, type MachineSet } from '../../../api/machine-set.ts';
import { FINALIZERS } from '../../../api/names.ts';
import type { Clock, Random } from '../../../api/ports.ts';
import type { Condition, Stored } from '../../../api/wire.ts';
import type { RecordedEvent } from '../../../kube/recorder.ts';
import { seededRandom } from '../../../kube/testing/clock.ts';
import { Crash, modelApi, type Fault, type ModelApi } from '../../machine-component-set/testing/api.ts';
import type { Unsettled } from '../mark.ts';
import { reconcileMachineSet } from '../reconcile.ts';
import { applyMachine } from './applier.ts';

const KEY = { namespace: 'web', name: 'web-a' };
const noLog = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined };

/** A cell with a machine set controller, and a machine controller, with its outcomes alone. */
export interface SetWorld {
  readonly api: ModelApi;
  readonly events: RecordedEvent[];
  /** Creates or changes the set. */
  set(spec: { [Field in keyof MachineSet['spec']]?: MachineSet['spec'][Field] | undefined }): void;
  status(): NonNullable<MachineSet['status']>;
  condition(type: string): string;
  machines(): Stored<Machine>[];
  alive(): Stored<Machine>[];
  edit(name: string, change: (machine: Stored<Machine>) => void): void;
  /** What the machine controller would report. */
  ready(name: string, isReady: boolean): void;
  /** Every machine that is being deleted is gone. */
  finishDeletions(): void;
  /** What bears a mark of this term is deleted, as the machine controller does once it is drained. */
  retire(): void;
  /** Of the term that the set's process runs in. */
  epoch: number;
  advance(ms: number): void;
  /** Runs unless the process waits for its own writes; dying and refusals are the world's to bear. */
  run(): Promise<void>;
  deliver(count: number): void;
  relist(): void;
  restart(): void;
  faults: Fault[];
  /** All is seen and the set runs, until it writes nothing. */
  settle(): Promise<void>;
}

export function createSetWorld(options: { seed?: number } = {}): SetWorld {
  let elapsed = 0;
  const clock: Clock = { now: () => Date.UTC(2026, 10, 20) + elapsed, monotonic: () => elapsed, setTimer: () => () => undefined };
  const random: Random = seededRandom(options.seed ?? 1);
  const api = modelApi(() => clock.now(), applyMachine);
  const events: RecordedEvent[] = [];
  const recorder = { event: (_about: object, event: RecordedEvent) => void events.push(event) };

  function begin(epoch: number) {
    const reader = api.reader();
    const unsettled: Unsettled = new Map();
    return {
      reader,
      sets: reader.store(MachineSets),
      machines: reader.store(Machines),
      componentSets: reader.store(MachineComponentSets),
      needsVersion: 0,
      needsList: false,
      epoch,
      unsettled,
    };
  }
  let process = begin(1);

  const world: SetWorld = {
    api,
    events,
    set(spec) {
      if (api.find(MachineSets, KEY) === undefined) {
        api.create(MachineSets, {
          apiVersion: API_VERSION,
          kind: 'MachineSet',
          metadata: { ...KEY },
          spec: { provider: { name: 'fake' } },
        });
      }
      api.edit(MachineSets, KEY, (set) => {
        for (const [field, value] of Object.entries(spec)) {
          if (value === undefined) Reflect.deleteProperty(set.spec, field);
          else Reflect.set(set.spec, field, value);
        }
      });
    },
    status: () => api.find(MachineSets, KEY)?.status ?? {},
    condition(type) {
      const found = world.status().conditions?.find((each) => each.type === type);
      return found === undefined ? '' : `${found.status}/${found.reason}`;
    },
    machines: () => api.list(Machines),
    alive: () => world.machines().filter((machine) => machine.metadata.deletionTimestamp === undefined),
    edit: (name, change) => api.edit(Machines, { namespace: KEY.namespace, name }, change),
    ready(name, isReady) {
      const condition: Condition = {
        type: 'Ready',
        status: isReady ? 'True' : 'False',
        reason: 'Reported',
        message: '',
        lastTransitionTime: new Date(clock.now()).toISOString(),
      };
      world.edit(name, (machine) => {
        machine.metadata.finalizers = [FINALIZERS.machine];
        machine.status = { ...machine.status, nodeRef: { name, uid: `node-${name}` }, conditions: [condition] };
        if (isReady) machine.status.firstReadyAt ??= condition.lastTransitionTime;
      });
    },
    finishDeletions() {
      for (const machine of world.machines()) {
        if (machine.metadata.deletionTimestamp !== undefined)
          world.edit(machine.metadata.name, ({ metadata }) => void delete metadata.finalizers);
      }
    },
    retire() {
      for (const { metadata, spec } of world.alive())
        if (spec.retire?.epoch === world.epoch) api.remove(Machines, { namespace: KEY.namespace, name: metadata.name });
    },
    epoch: 1,
    advance(ms) {
      elapsed += ms;
    },
    async run() {
      if (process.needsList || !process.reader.hasSeen(process.needsVersion)) return;
      const mine = process;
      const client = api.client(
        () => world.faults.shift() ?? 'none',
        (_resource, object) => {
          if (object === 'unknown') mine.needsList = true;
          else mine.needsVersion = Math.max(mine.needsVersion, Number(object.metadata.resourceVersion));
        },
      );
      const { epoch, unsettled } = mine;
      const providers = new Map([['fake', { validate: () => [] }]]);
      const { sets, machines, componentSets } = mine;
      const deps = { sets, machines, componentSets, clock, random, recorder, providers, epoch, unsettled };
      try {
        await reconcileMachineSet(deps, `${KEY.namespace}/${KEY.name}`, { client, log: noLog, signal: new AbortController().signal });
      } catch (error) {
        if (error instanceof Crash) world.restart();
        else if (!(error instanceof Error) || error.name === 'TypeError' || error.name === 'RangeError') throw error;
      }
    },
    deliver: (count) => process.reader.deliver(count),
    relist() {
      process.reader.relist();
      process.needsList = false;
    },
    restart() {
      world.epoch++;
      process = begin(world.epoch);
    },
    faults: [],
    async settle() {
      for (let rounds = 0; rounds < 200; rounds++) {
        const before = api.writes;
        world.relist();
        await world.run();
        const marked = world.alive().some(({ spec }) => spec.retire?.epoch === world.epoch);
        if (api.writes === before && !marked) return;
        world.retire();
      }
      throw new Error('the set writes for ever');
    },
  };
  return world;
}
