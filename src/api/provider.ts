import { surroundings, type ErrorTable } from './errors.ts';
/** Makes and removes machines. One conformance suite checks every provider against this. */

/** What a new node needs to find its cell. `token` is a secret. */
export interface NodeBootstrap {
  server: string;
  /** PEM. */
  certificateAuthority: string;
  token: string;
  machine: { namespace: string; name: string; uid: string };
  providerID: string;
  /** Where relative artifact URLs are resolved; ends with a slash. */
  mirror?: string;
  /** Public keys, a line each. One of them must have signed each component that the node runs. Pinned at its first start. */
  componentKeys?: string;
}

export interface InstanceRequest {
  /** Idempotency key: at most one instance for a Machine UID, ever. */
  machineUID: string;
  namespace: string;
  name: string;
  config: Record<string, unknown>;
  failureDomain?: string;
}

export interface Instance {
  providerID: string;
  /** Stopped: its power is proven to be off, so that nothing runs on it. */
  state: 'Pending' | 'Running' | 'Stopped' | 'Deleting';
  addresses: { type: string; address: string }[];
}

/** Errors are CodedErrors with one of PROVIDER_ERRORS as code. */
export interface InfraProvider {
  readonly name: string;
  /** Validation errors of `provider.config`, with paths relative to it. */
  validate(config: Record<string, unknown>): { path: string; message: string }[];
  /** The id that `ensure` of this request gives; known before anything is made, so that a bootstrap can name it. */
  providerIDOf(request: InstanceRequest): string;
  /** Makes the instance unless there is one; returns before it has booted. Safe to repeat after any crash. */
  ensure(request: InstanceRequest, bootstrap: NodeBootstrap, signal: AbortSignal): Promise<Instance>;
  /** undefined only when the provider proves that there is none. */
  get(providerID: string, signal: AbortSignal): Promise<Instance | undefined>;
  /** Every instance of `owner`, or an error: never a part. */
  list(signal: AbortSignal): Promise<Instance[]>;
  /** 'gone' is proof of absence; 'deleting' asks to be called again. */
  delete(providerID: string, signal: AbortSignal): Promise<'gone' | 'deleting'>;
  /**
   * Power cycle, where the provider can: also of an instance that hangs; one that is stopped is turned on. At most once for an operation ID,
   * ever: it can be repeated after any crash, by the leader of that time. Resolves when it will happen for certain, not when the instance has booted.
   */
  reboot?(providerID: string, operationID: string, signal: AbortSignal): Promise<void>;
  /**
   * Cuts the power, where the provider can, until `reboot`; can be repeated until the operation is retired. It is off once `get` reports Stopped, which
   * is the proof that no process runs there any more.
   */
  stop?(providerID: string, operationID: string, signal: AbortSignal): Promise<void>;
  /**
   * A provider that can do one of the two above can do this: what `reboot` and `stop` are asked for this operation ID from when it resolves on has no
   * effect. An operation is over only after this. Safe to repeat, and of an instance that is gone.
   */
  retire?(providerID: string, operationID: string, signal: AbortSignal): Promise<void>;
}

export const PROVIDER_ERRORS = {
  InvalidConfig: surroundings('a provider.config that cannot be used, or an instance that is not one of this provider'),
  Unauthorized: surroundings('the provider refuses the credentials'),
  QuotaExceeded: surroundings('the account has no more'),
  InsufficientCapacity: surroundings('the provider has no more'),
  RateLimited: surroundings('too many requests'),
  Unavailable: surroundings('no answer, or none that can be used'),
} as const satisfies ErrorTable;
