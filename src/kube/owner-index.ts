import type { JsonObject, ManagedFieldsEntry } from '../api/wire.ts';
import { isRecord } from './failure.ts';

interface Part {
  manager: string | undefined;
  fields: JsonObject;
}

interface Level {
  parts: readonly Part[];
  below?: Map<string, Level>;
}

/**
 * Which manager has a field, or something in it: the first of these records that names it. `members`: its path as records have it. Each record is read once, however
 * many fields are asked for, since a server may send very many of both; and no deeper than what is asked for.
 */
export function ownerIndex(records: readonly ManagedFieldsEntry[]): (members: readonly string[]) => Pick<Part, 'manager'> | undefined {
  const root: Level = { parts: records.map(({ manager, fieldsV1 }) => ({ manager, fields: fieldsV1 })) };
  return (members) => {
    let level: Level | undefined = root;
    for (const member of members) {
      level = below(level).get(member);
      if (level === undefined) return undefined;
    }
    return level.parts[0];
  };
}

function below(level: Level): Map<string, Level> {
  if (level.below !== undefined) return level.below;
  const found = new Map<string, { parts: Part[] }>();
  for (const { manager, fields } of level.parts) {
    for (const [member, its] of Object.entries(fields)) {
      const known = found.get(member) ?? { parts: [] };
      known.parts.push({ manager, fields: isRecord(its) ? its : {} });
      found.set(member, known);
    }
  }
  level.below = found;
  return found;
}
