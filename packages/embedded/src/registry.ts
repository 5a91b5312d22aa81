import { apiVersion, type Served } from './kinds/served.ts';

/** Which resources are served now: the built-in ones and the ones of established CRDs. */
export class Registry {
  readonly #builtin: readonly Served[];
  readonly #custom = new Map<string, readonly Served[]>();
  #byPath = new Map<string, Served>();
  #byStorage = new Map<string, Served>();
  #byKind = new Map<string, Served>();
  #revision = 0;

  constructor(builtin: readonly Served[]) {
    this.#builtin = builtin;
    this.#index();
  }

  /** Grows with every change; caches of discovery and OpenAPI are keyed by it. */
  get revision(): number {
    return this.#revision;
  }

  /** Every version of every resource; built-in ones first. */
  all(): Served[] {
    return [...this.#builtin, ...[...this.#custom.values()].flat()];
  }

  /** One entry a resource: the version its objects are stored in, or another served one when that is not served. */
  stored(): Served[] {
    return [...this.#byStorage.values()];
  }

  find(group: string, version: string, plural: string): Served | undefined {
    return this.#byPath.get(`${group}/${version}/${plural}`);
  }

  byStorage(storageKey: string): Served | undefined {
    return this.#byStorage.get(storageKey);
  }

  byKind(version: string, kind: string): Served | undefined {
    return this.#byKind.get(`${version}/${kind}`);
  }

  /** Sets or, with an empty list, removes the versions that a CRD serves. */
  setCustom(crd: string, versions: readonly Served[]): void {
    if (versions.length === 0) this.#custom.delete(crd);
    else this.#custom.set(crd, versions);
    this.#index();
  }

  #index(): void {
    this.#revision++;
    this.#byPath = new Map();
    this.#byStorage = new Map();
    this.#byKind = new Map();
    for (const served of this.all()) {
      this.#byPath.set(`${served.group}/${served.version}/${served.plural}`, served);
      this.#byKind.set(`${apiVersion(served)}/${served.kind}`, served);
      const known = this.#byStorage.get(served.storageKey);
      if (known === undefined || apiVersion(served) === served.storageVersion) this.#byStorage.set(served.storageKey, served);
    }
  }
}
