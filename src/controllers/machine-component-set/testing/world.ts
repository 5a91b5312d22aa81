import { Leases } from '../../../api/builtin.ts';
import { API_VERSION } from '../../../api/kind.ts';
import { Machines, type ComponentEntry, type Machine } from '../../../api/machine.ts';
import { MachineComponents } from '../../../api/machine-component.ts';
import { machineComponentName } from '../../../api/machine-component/values.ts';
import { MachineComponentSets, type MachineComponentSet, type MachineComponentSetSpec } from '../../../api/machine-component-set.ts';
import { agentLeaseName } from '../../../api/names.ts';
import type { Clock } from '../../../api/ports.ts';
import { keyOf } from '../../../api/resource.ts';
import type { Stored } from '../../../api/wire.ts';
import { rfc3339 } from '../../../kube/clock.ts';
import type { RecordedEvent } from '../../../kube/recorder.ts';
import { trackLiveness } from '../../../kube/liveness.ts';
import { reconcileMachine } from '../machine/reconcile.ts';
import { createOverlay } from '../overlay.ts';
import { reconcileSet } from '../reconcile.ts';
import { modelAgent, type ModelAgent } from './agent.ts';
import { Crash, modelApi, type Fault, type ModelApi } from './api.ts';

const NAMESPACE = 'web';
/** A component that no agent knows. */
export const OTHER = 'exporter';
const VERSIONS = ['1.0.0', '2.0.0', '3.0.0'];
const noLog = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined };

/** `undefined` removes a field. */
export type SpecChange = { [Field in keyof MachineComponentSetSpec]?: MachineComponentSetSpec[Field] | undefined };

export interface WorldOptions {
  machines: number;
  /** Machines are dealt out to these. */
  domains?: string[];
  component?: string;
  fails?: (machine: string, entry: ComponentEntry) => boolean;
  waits?: (machine: string, entry: ComponentEntry) => boolean;
  /** What the next process takes for its clock; by default the clock of the server. */
  clockOf?: (server: Clock) => Clock;
}

/** A cell with a set controller, whose reads may lag and which may die at any write, and agents that do what they are asked for. */
export interface World {
  readonly api: ModelApi;
  readonly clock: Clock;
  readonly agents: Map<string, ModelAgent>;
  readonly events: RecordedEvent[];
  /** Creates or changes a set. */
  set(spec: SpecChange, name?: string): void;
  status(name?: string): NonNullable<MachineComponentSet['status']>;
  condition(type: string, name?: string): string;
  join(labels?: Record<string, string>): string;
  /** A machine whose Node was never Ready. */
  joinNew(labels?: Record<string, string>): string;
  /** Its Node becomes Ready. */
  register(name: string): void;
  leave(name: string): void;
  machine(name: string): Stored<Machine>;
  machines(): Stored<Machine>[];
  entry(name: string): ComponentEntry | undefined;
  /** Its entry of another component. */
  component(name: string, component: string): ComponentEntry | undefined;
  editMachine(name: string, change: (machine: Stored<Machine>) => void): void;
  /** Names of machines whose entry asks for this version. */
  given(version: string): string[];
  advance(ms: number): void;
  /** Puts another agent, with an empty journal, on this node. */
  reinstall(name: string, fails: (entry: ComponentEntry) => boolean): void;
  agentStep(name: string): void;
  process: Process;
  /** The process dies and another begins, with a fresh list. */
  restart(): void;
  /** Every agent and controller acts once, with nothing lagging; a little time passes. */
  round(ms?: number): Promise<void>;
  rounds(count: number, ms?: number): Promise<void>;
  /** Rounds until there was no write in ten in a row; throws after `limit`. Long enough for soaks of up to a minute each. */
  rest(limit?: number): Promise<void>;
}

export interface Process {
  deliver(count: number): void;
  relist(): void;
  runSet(name?: string): Promise<void>;
  runMachine(name: string): Promise<void>;
  /** What happens to the next writes, in turn. */
  faults: Fault[];
  /** What others do right after its next writes, in turn. */
  meanwhile: (() => void)[];
  /** Its own view of a Machine. */
  sees(name: string): Stored<Machine> | undefined;
}

export function createWorld(options: WorldOptions): World {
  const component = options.component ?? 'kubelet';
  const start = Date.UTC(2026, 10, 20);
  let elapsed = 0;
  const clock: Clock = { now: () => start + elapsed, monotonic: () => elapsed, setTimer: () => () => undefined };
  const api = modelApi(() => clock.now());
  const agents = new Map<string, ModelAgent>();
  const events: RecordedEvent[] = [];
  const domains = options.domains ?? [];
  let made = 0;
  let terms = 0;

  for (const componentName of [component, OTHER]) {
    for (const version of VERSIONS) {
      api.create(MachineComponents, {
        apiVersion: API_VERSION,
        kind: 'MachineComponent',
        metadata: { name: machineComponentName(componentName, version) },
        spec: { componentName, version, platforms: [{ os: 'linux', arch: 'any', artifacts: [] }] },
      });
    }
  }

  function renew(namespace: string, name: string): void {
    const renewTime = new Date(clock.now()).toISOString();
    if (api.find(Leases, { namespace, name }) === undefined) {
      api.create(Leases, {
        apiVersion: 'coordination.k8s.io/v1',
        kind: 'Lease',
        metadata: { namespace, name },
        spec: { renewTime, leaseDurationSeconds: 180 },
      });
    } else {
      api.edit(Leases, { namespace, name }, (lease) => {
        lease.spec = { ...lease.spec, renewTime };
      });
    }
  }

  function beginProcess(): Process {
    const epoch = ++terms;
    const begun = new Set<string>();
    const reader = api.reader();
    const own = options.clockOf?.(clock) ?? clock;
    const stores = {
      sets: reader.store(MachineComponentSets),
      components: reader.store(MachineComponents),
      machines: reader.store(Machines),
      liveness: trackLiveness(reader.store(Leases), own),
    };
    const overlays = { machines: createOverlay(stores.machines), sets: createOverlay(stores.sets) };
    const recorder = { event: (_about: object, event: RecordedEvent) => void events.push(event) };
    // As the runtime does: the key of a write, and for the set loop every set, waits until the stores have passed it.
    const awaited = new Map<string, { version: number } | { mark: number }>();
    let lists = 0;
    const isHeld = (key: string): boolean => {
      const awaits = awaited.get(key);
      if (awaits === undefined) return false;
      const passed = lists > ('mark' in awaits ? awaits.mark : lists) || ('version' in awaits && reader.hasSeen(awaits.version));
      if (passed) awaited.delete(key);
      return !passed;
    };

    async function run(key: string, reconcile: (run: Parameters<typeof reconcileSet>[2]) => Promise<unknown>): Promise<void> {
      if (isHeld(key)) return;
      const client = api.client(
        () => process.faults.shift() ?? 'none',
        (_resource, object) => {
          process.meanwhile.shift()?.();
          if (object === 'unknown') awaited.set(key, { mark: lists });
          else if (!('mark' in (awaited.get(key) ?? {}))) awaited.set(key, { version: Number(object.metadata.resourceVersion) });
        },
      );
      try {
        await reconcile({ client, log: noLog, signal: new AbortController().signal });
      } catch (error) {
        if (error instanceof Crash) world.restart();
        else if (!(error instanceof Error) || error.name === 'TypeError' || error.name === 'RangeError') throw error;
      }
    }

    const process: Process = {
      deliver: (count) => reader.deliver(count),
      relist() {
        reader.relist();
        lists++;
      },
      runSet: (name = component) =>
        run('sets', (context) =>
          reconcileSet({ stores, machines: overlays.machines, sets: overlays.sets, clock: own, recorder, epoch, begun }, name, context),
        ),
      runMachine: (name) =>
        run(name, (context) =>
          reconcileMachine(
            { sets: stores.sets, machines: overlays.machines, liveness: stores.liveness, clock: own, recorder },
            keyOf({ namespace: NAMESPACE, name }),
            context,
          ),
        ),
      faults: [],
      meanwhile: [],
      sees: (name) => stores.machines.get({ namespace: NAMESPACE, name }),
    };
    return process;
  }

  const world: World = {
    api,
    clock,
    agents,
    events,
    set(spec, name = component) {
      const key = { name };
      if (api.find(MachineComponentSets, key) === undefined) {
        api.create(MachineComponentSets, {
          apiVersion: API_VERSION,
          kind: 'MachineComponentSet',
          metadata: { name },
          spec: { componentName: component, version: '1.0.0', soakSeconds: 30 },
        });
      }
      api.edit(MachineComponentSets, key, (set) => {
        for (const [field, value] of Object.entries(spec)) {
          if (value === undefined) Reflect.deleteProperty(set.spec, field);
          else Reflect.set(set.spec, field, value);
        }
      });
    },
    status: (name = component) => api.find(MachineComponentSets, { name })?.status ?? {},
    condition(type, name = component) {
      const found = world.status(name).conditions?.find((each) => each.type === type);
      return found === undefined ? '' : `${found.status}/${found.reason}`;
    },
    join(labels = {}) {
      const name = `m${made++}`;
      const domain = domains[made % Math.max(1, domains.length)];
      api.create(Machines, {
        apiVersion: API_VERSION,
        kind: 'Machine',
        metadata: { namespace: NAMESPACE, name, labels },
        spec: domain === undefined ? {} : { failureDomain: domain },
        status: { phase: 'Running', firstReadyAt: rfc3339(clock.now()) },
      });
      const { fails = () => false, waits = () => false } = options;
      agents.set(
        name,
        modelAgent(
          component,
          (entry) => fails(name, entry),
          (entry) => waits(name, entry),
        ),
      );
      return name;
    },
    joinNew(labels = {}) {
      const name = world.join(labels);
      world.editMachine(name, (machine) => {
        machine.status = { phase: 'Installing' };
      });
      return name;
    },
    register(name) {
      world.editMachine(name, (machine) => {
        machine.status ??= {};
        machine.status.nodeRef ??= { name, uid: `node-${name}` };
        machine.status.phase = 'Running';
        machine.status.firstReadyAt ??= rfc3339(clock.now());
      });
    },
    leave(name) {
      api.remove(Machines, { namespace: NAMESPACE, name });
      agents.delete(name);
    },
    machine(name) {
      const found = api.find(Machines, { namespace: NAMESPACE, name });
      if (found === undefined) throw new Error(`no machine ${name}`);
      return found;
    },
    machines: () => api.list(Machines),
    entry: (name) => world.component(name, component),
    component: (name, of) => world.machine(name).spec.components?.find((each) => each.name === of),
    editMachine: (name, change) => api.edit(Machines, { namespace: NAMESPACE, name }, change),
    given: (version) =>
      world
        .machines()
        .filter((machine) => machine.spec.components?.some((each) => each.name === component && each.version === version))
        .map((machine) => machine.metadata.name),
    advance(ms) {
      // A node that is alive renews each minute, also between the steps of a test.
      for (let left = ms; ; left -= 60_000) {
        elapsed += Math.min(left, 60_000);
        for (const [name, agent] of agents) {
          if (!agent.online) continue;
          renew(NAMESPACE, agentLeaseName(name));
          renew('kube-node-lease', name);
        }
        if (left <= 60_000) return;
      }
    },
    reinstall(name, fails) {
      agents.set(
        name,
        modelAgent(component, fails, () => false),
      );
    },
    agentStep(name) {
      const agent = agents.get(name);
      if (agent?.online === true) world.editMachine(name, (machine) => agent.step(machine));
    },
    process: {
      deliver() {},
      relist() {},
      runSet: async () => {},
      runMachine: async () => {},
      faults: [],
      meanwhile: [],
      sees: () => undefined,
    },
    restart() {
      world.process = beginProcess();
    },
    async round(ms = 10_000) {
      world.advance(ms);
      for (const name of agents.keys()) world.agentStep(name);
      for (const name of agents.keys()) {
        world.process.relist();
        await world.process.runMachine(name);
      }
      for (const set of api.list(MachineComponentSets)) {
        world.process.relist();
        await world.process.runSet(set.metadata.name);
      }
    },
    async rounds(count, ms) {
      for (let left = count; left > 0; left--) await world.round(ms);
    },
    async rest(limit = 400) {
      let still = 0;
      for (let round = 0; round < limit; round++) {
        const before = api.writes;
        await world.round();
        still = api.writes === before ? still + 1 : 0;
        if (still === 10) return;
      }
      throw new Error(`still writing after ${limit} rounds: ${JSON.stringify(world.status())}`);
    },
  };
  for (let index = 0; index < options.machines; index++) world.join();
  world.restart();
  world.advance(0);
  return world;
}
