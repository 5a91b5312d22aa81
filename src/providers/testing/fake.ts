import type { InfraProvider, Instance, InstanceRequest, NodeBootstrap } from '../../api/provider.ts';
import { providerError } from '../errors.ts';

/** What a fake cloud remembers, for every caller. */
export interface FakeInfra {
  readonly instances: Map<string, FakeInstance>;
  readonly buried: Set<string>;
  /** Every call, as `operation providerID`. */
  readonly calls: string[];
  /** Asked before each write of each call, counted from 1 within the call; throwing ends the call there. */
  fault: (operation: 'ensure' | 'delete' | 'reboot' | 'stop' | 'retire', write: number) => void;
  /** Set: every call throws it. */
  down: Error | undefined;
  /** Set: the next page of a list cannot be read. */
  hidden: boolean;
  /** Boots what is pending, cuts power that is to be cut and finishes deletions. */
  progress(): void;
}

export interface FakeInstance extends Instance {
  request: InstanceRequest;
  /** undefined while only the idempotency key is taken. */
  bootstrap: NodeBootstrap | undefined;
  reboots: number;
  /** Operation IDs for which its power is not changed any more. */
  spent: Set<string>;
  stopping: boolean;
}

export function fakeInfra(): FakeInfra {
  const infra: FakeInfra = {
    instances: new Map(),
    buried: new Set(),
    calls: [],
    fault: () => undefined,
    down: undefined,
    hidden: false,
    progress() {
      for (const [id, instance] of infra.instances) {
        if (instance.state === 'Deleting') infra.instances.delete(id);
        else if (instance.stopping) instance.state = 'Stopped';
        else if (instance.state === 'Pending' && instance.bootstrap !== undefined) instance.state = 'Running';
      }
    },
  };
  return infra;
}

const SCHEME = 'fake://';
const SIZES = ['small', 'large'];

function seen({ providerID, state, addresses }: FakeInstance): Instance {
  return { providerID, state, addresses: [...addresses] };
}

function providerIDOf({ machineUID }: InstanceRequest): string {
  return `${SCHEME}${machineUID}`;
}

/** A provider over a cloud in memory. Any number of them may share one, as processes do. */
export function fakeProvider(infra: FakeInfra = fakeInfra()): InfraProvider {
  function begin(operation: string, id: string, signal: AbortSignal): void {
    signal.throwIfAborted();
    infra.calls.push(`${operation} ${id}`);
    if (infra.down !== undefined) throw providerError('Unavailable', `${operation}: the fake cloud is down`, { cause: infra.down });
  }

  function known(id: string): FakeInstance | undefined {
    if (!id.startsWith(SCHEME)) throw providerError('InvalidConfig', `an ID of the fake provider begins with "${SCHEME}"; got "${id}"`);
    const found = infra.instances.get(id);
    return found?.bootstrap === undefined ? undefined : found;
  }

  function powered(id: string, doing: string): FakeInstance {
    const instance = known(id);
    if (instance !== undefined && instance.state !== 'Deleting') return instance;
    throw providerError('InvalidConfig', `there is no instance ${id} to ${doing}`);
  }

  return {
    name: 'fake',
    validate(config) {
      const { size, ...rest } = config;
      const unknown = Object.keys(rest).map((path) => ({ path, message: 'unknown field' }));
      const isSize = size === undefined || SIZES.some((each) => each === size);
      return isSize ? unknown : [{ path: 'size', message: `must be one of ${SIZES.join(', ')}` }, ...unknown];
    },
    providerIDOf,
    async ensure(request, bootstrap, signal) {
      const providerID = providerIDOf(request);
      await Promise.resolve();
      begin('ensure', providerID, signal);
      if (infra.buried.has(providerID)) throw providerError('InvalidConfig', `${providerID} was deleted: none is made for it again`);
      let instance = infra.instances.get(providerID);
      if (instance === undefined) {
        infra.fault('ensure', 1);
        const addresses = [{ type: 'InternalIP', address: `10.0.0.${infra.instances.size + 1}` }];
        instance = {
          providerID,
          state: 'Pending',
          addresses,
          request,
          bootstrap: undefined,
          reboots: 0,
          spent: new Set(),
          stopping: false,
        };
        infra.instances.set(providerID, instance);
      }
      if (instance.state !== 'Deleting') {
        infra.fault('ensure', 2);
        instance.bootstrap = structuredClone(bootstrap);
      }
      infra.fault('ensure', 3);
      return seen(instance);
    },
    async get(providerID, signal) {
      await Promise.resolve();
      begin('get', providerID, signal);
      const instance = known(providerID);
      return instance === undefined ? undefined : seen(instance);
    },
    async list(signal) {
      await Promise.resolve();
      begin('list', '', signal);
      if (infra.hidden) throw providerError('RateLimited', 'the second page of the list cannot be read');
      return [...infra.instances.values()].filter((instance) => instance.bootstrap !== undefined).map(seen);
    },
    async delete(providerID, signal) {
      await Promise.resolve();
      begin('delete', providerID, signal);
      const instance = known(providerID);
      infra.fault('delete', 1);
      infra.buried.add(providerID);
      infra.fault('delete', 2);
      if (instance === undefined) {
        infra.instances.delete(providerID);
        return 'gone';
      }
      instance.state = 'Deleting';
      infra.fault('delete', 3);
      return 'deleting';
    },
    async reboot(providerID, operationID, signal) {
      await Promise.resolve();
      begin('reboot', providerID, signal);
      const instance = powered(providerID, 'reboot');
      infra.fault('reboot', 1);
      if (!instance.spent.has(operationID)) {
        instance.spent.add(operationID);
        instance.reboots++;
        instance.stopping = false;
        instance.state = 'Pending';
      }
      infra.fault('reboot', 2);
    },
    async stop(providerID, operationID, signal) {
      await Promise.resolve();
      begin('stop', providerID, signal);
      const instance = powered(providerID, 'stop');
      infra.fault('stop', 1);
      if (!instance.spent.has(operationID)) instance.stopping = true;
      infra.fault('stop', 2);
    },
    async retire(providerID, operationID, signal) {
      await Promise.resolve();
      begin('retire', providerID, signal);
      infra.fault('retire', 1);
      known(providerID)?.spent.add(operationID);
      infra.fault('retire', 2);
    },
  };
}
