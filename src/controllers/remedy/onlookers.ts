/** Who is to look again when the counts of a group move. */
export interface Onlookers {
  /** All groups that this key looks at now. */
  set(key: string, groups: readonly string[]): void;
  of(groups: ReadonlySet<string>): Set<string>;
}

export function createOnlookers(): Onlookers {
  const byGroup = new Map<string, Set<string>>();
  const byKey = new Map<string, readonly string[]>();
  return {
    set(key, groups) {
      for (const group of byKey.get(key) ?? []) byGroup.get(group)?.delete(key);
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
