import { sha256Hex } from '../../api/digest.ts';
import type { Machine } from '../../api/machine.ts';
import { LABELS } from '../../api/names.ts';
import type { Stored } from '../../api/wire.ts';

export function domainOf(machine: Machine): string {
  return machine.spec.failureDomain ?? machine.spec.labels?.[LABELS.zone] ?? machine.metadata.labels?.[LABELS.zone] ?? '';
}

/**
 * The order in which machines of a set go (docs/protocols.md#b1): one of each failure domain in turn, inside a domain by a hash of
 * (set UID, machine UID). It is the same at every reconcile, and another one for every set, so that it is not always the same victims.
 */
export function inOrder<T extends { machine: Stored<Machine> }>(setUID: string, members: readonly T[]): T[] {
  const domains = new Map<string, { member: T; hash: number }[]>();
  for (const member of members) {
    const domain = domainOf(member.machine);
    const group = domains.get(domain) ?? [];
    group.push({ member, hash: hashOf(`${setUID}/${member.machine.metadata.uid}`) });
    domains.set(domain, group);
  }
  const ranked = [...domains].flatMap(([domain, group]) => {
    const turn = hashOf(`${setUID}/${domain}`);
    return group
      .toSorted((a, b) => a.hash - b.hash || (a.member.machine.metadata.uid < b.member.machine.metadata.uid ? -1 : 1))
      .map(({ member }, rank) => ({ member, rank, turn }));
  });
  return ranked.toSorted((a, b) => a.rank - b.rank || a.turn - b.turn).map(({ member }) => member);
}

/** Sets of 10,000 machines are put in order at every reconciliation. */
const hashes = new Map<string, number>();
const MOST_HASHES = 200_000;

/** 48 bits of SHA-256. */
function hashOf(text: string): number {
  let hash = hashes.get(text);
  if (hash === undefined) {
    hash = Number.parseInt(sha256Hex(text).slice(0, 12), 16);
    if (hashes.size >= MOST_HASHES) hashes.clear();
    hashes.set(text, hash);
  }
  return hash;
}
