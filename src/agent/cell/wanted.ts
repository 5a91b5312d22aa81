import { type CodedError, objectError } from '../../api/errors.ts';
import { API_VERSION, GROUP, VERSION } from '../../api/kind.ts';
import type { ComponentEntry, ComponentStatus, DeletionPolicy, Machine, Operation } from '../../api/machine.ts';
import { DELETION_POLICIES, ENTRY_ACTIONS, MACHINE, contentOf } from '../../api/machine/values.ts';
import type { MachineComponent } from '../../api/machine-component.ts';
import { MACHINE_COMPONENT, PLAIN_NAME } from '../../api/machine-component/values.ts';
import type { Clock } from '../../api/ports.ts';
import type { Resource } from '../../api/resource.ts';
import type { Condition, KubeObject, Stored } from '../../api/wire.ts';

/*
 * What the agent reads of the API, checked by hand: the validator of src/api would cost every node 13 MB. Only fields that the agent
 * acts on are checked; an object with a wrong one is refused whole.
 */

const COMPONENT_NAME = new RegExp(PLAIN_NAME);

export const Machines: Resource<Machine> = {
  group: GROUP,
  version: VERSION,
  ...MACHINE,
  parse(value) {
    const machine = objectOf(value, 'Machine');
    const at = new FieldReader(machine, 'Machine');
    const spec = at.object('spec');
    for (const entry of spec.list('components')) {
      // A component's name is a folder's too.
      entry.text('name', COMPONENT_NAME);
      for (const field of ['version', 'setUID']) entry.text(field);
      entry.oneOf('action', ENTRY_ACTIONS);
      entry.whole('revision', 1);
      if (entry.has('values')) entry.object('values');
    }
    if (spec.has('deletionPolicy')) spec.oneOf('deletionPolicy', DELETION_POLICIES);
    if (spec.has('labels')) spec.object('labels').texts();
    if (spec.has('operation')) {
      const operation = spec.object('operation');
      for (const field of ['id', 'kind', 'notAfter']) operation.text(field);
      operation.whole('epoch', 0);
      for (const each of operation.list('components')) {
        each.text('name');
        each.whole('revision', 0);
      }
    }
    return machine as unknown as Machine;
  },
};

export const MachineComponents: Resource<MachineComponent> = {
  group: GROUP,
  version: VERSION,
  ...MACHINE_COMPONENT,
  parse(value) {
    const component = objectOf(value, 'MachineComponent');
    new FieldReader(component, 'MachineComponent').object('spec');
    return component as unknown as MachineComponent;
  },
};

/** What the Machine asks of its node, and what the node last reported to it. */
export interface WantedState {
  uid: string;
  resourceVersion: string;
  generation: number;
  /** `hold`, `paused` or being deleted: the agent begins nothing new. */
  held: boolean;
  deleting: boolean;
  deletionPolicy: DeletionPolicy;
  labels: Record<string, string>;
  components: ComponentEntry[];
  operation: Operation | undefined;
  /** Contents last verified here, by component. */
  verified: Record<string, string[]>;
  reported: {
    components: ComponentStatus[];
    operation: { id: string; state: string; outcome?: string; message?: string; bootID?: string } | undefined;
    ready: Condition | undefined;
    leaving: boolean;
  };
}

export function wantedOf(machine: Stored<Machine>): WantedState {
  const { spec, status = {}, metadata } = machine;
  const verified = new Map<string, string[]>();
  for (const { name, version, values } of status.verified ?? []) {
    verified.set(name, [...(verified.get(name) ?? []), contentOf({ action: 'Install', version, values })]);
  }
  return {
    uid: metadata.uid,
    resourceVersion: metadata.resourceVersion,
    generation: metadata.generation ?? 0,
    held: spec.hold === true || spec.paused === true,
    deleting: metadata.deletionTimestamp !== undefined,
    deletionPolicy: spec.deletionPolicy ?? 'Delete',
    labels: spec.labels ?? {},
    components: spec.components ?? [],
    operation: spec.operation,
    verified: Object.fromEntries(verified),
    reported: {
      components: status.components ?? [],
      operation: status.operation,
      ready: (status.conditions ?? []).find((each) => each.type === 'AgentReady'),
      leaving: status.agent?.leaving === true,
    },
  };
}

/** How late a watch, or an answer, may be. */
const LATE_MS = 60_000;

/**
 * Whether a state of the object is newer than the last one. Watches and answers come over several connections and overtake each other; versions show which is
 * newer, but only for a while, and not for a caller that reads `again`: a server that was restored from a backup counts versions from a lower number.
 */
export function createNewest(clock: Pick<Clock, 'monotonic'>): (version: string, again?: boolean) => boolean {
  let lastVersion = '';
  let untilMs = 0;
  return (version, again = false) => {
    const comparable = /^\d+$/.test(version) && /^\d+$/.test(lastVersion);
    if (!again && comparable && clock.monotonic() < untilMs && BigInt(version) < BigInt(lastVersion)) return false;
    lastVersion = version;
    untilMs = clock.monotonic() + LATE_MS;
    return true;
  };
}

function objectOf(value: unknown, kind: string): KubeObject & Record<string, unknown> {
  if (value !== null && typeof value === 'object') {
    const object = value as Partial<KubeObject>;
    if (object.kind === kind && object.apiVersion === API_VERSION && typeof object.metadata?.name === 'string') {
      return value as KubeObject & Record<string, unknown>;
    }
  }
  throw objectError('InvalidObject', `not a ${kind} of ${API_VERSION}`);
}

/** A value with its field path. */
class FieldReader {
  readonly #fields: Record<string, unknown>;
  readonly #path: string;

  constructor(value: unknown, path: string) {
    if (value === null || typeof value !== 'object' || Array.isArray(value))
      throw objectError('InvalidObject', `\`${path}\` must be an object`);
    this.#fields = value as Record<string, unknown>;
    this.#path = path;
  }

  has(field: string): boolean {
    return this.#fields[field] !== undefined;
  }

  object(field: string): FieldReader {
    return new FieldReader(this.#fields[field], `${this.#path}.${field}`);
  }

  list(field: string): FieldReader[] {
    const value = this.#fields[field] ?? [];
    if (!Array.isArray(value)) throw this.#wrong(field, 'must be a list');
    return value.map((each: unknown, index) => new FieldReader(each, `${this.#path}.${field}[${index}]`));
  }

  text(field: string, pattern = /./s): void {
    const value = this.#fields[field];
    if (typeof value !== 'string' || !pattern.test(value)) throw this.#wrong(field, `must be text that matches ${pattern.source}`);
  }

  texts(): void {
    for (const [field, value] of Object.entries(this.#fields)) if (typeof value !== 'string') throw this.#wrong(field, 'must be text');
  }

  whole(field: string, minimum: number): void {
    const value = this.#fields[field];
    if (typeof value !== 'number' || !Number.isInteger(value) || value < minimum) {
      throw this.#wrong(field, `must be a whole number, at least ${minimum}`);
    }
  }

  oneOf(field: string, allowed: readonly string[]): void {
    const value = this.#fields[field];
    if (typeof value !== 'string' || !allowed.includes(value)) throw this.#wrong(field, `must be one of ${allowed.join(', ')}`);
  }

  #wrong(field: string, what: string): CodedError {
    return objectError('InvalidObject', `\`${this.#path}.${field}\` ${what}`);
  }
}
