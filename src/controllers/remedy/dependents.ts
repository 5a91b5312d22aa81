/** Which keys are reconciled when the counts of a group change. */
export interface Dependents {
  /** All groups that this key reads now. */
  set(key: string, groups: readonly string[]): void;
  of(groups: ReadonlySet<string>): Set<string>;
}

export function createDependents(): Dependents {
  const byGroup = new Map<string, Set<string>>();
  const byKey = new Map<string, readonly string[]>();
  return {
    set(key, groups) {
      for (const group of byKey.get(key) ?? []) {
        const keys = byGroup.get(group);
        keys?.delete(key);
        // Versions come and go for years: a group that no key reads leaves nothing behind.
        if (keys?.size === 0) byGroup.delete(group);
      }
      if (groups.length === 0) byKey.delete(key);
      else byKey.set(key, groups);
      for (const group of groups) {
        const keys = byGroup.get(group);
        if (keys === undefined) byGroup.set(group, new Set([key]));
        else keys.add(key);
      }
    },
    of: (groups) => new Set([...groups].flatMap((group) => [...(byGroup.get(group) ?? [])])),
  };
}
