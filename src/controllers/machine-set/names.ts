import type { Random } from '../../api/ports.ts';

/** As Kubernetes' own generated names: without vowels and similar characters, so that no word comes out. */
const ALPHABET = 'bcdfghjklmnpqrstvwxz2456789';
const SUFFIX = 5;
/** The name is a Node's and a host's as well: one DNS label. */
const LONGEST = 63;

/** `<set>-<5 random characters>`, not one of `taken`. */
export function machineName(set: string, random: Random, taken: (name: string) => boolean): string {
  const base = set.slice(0, LONGEST - SUFFIX - 1);
  for (;;) {
    let suffix = '';
    while (suffix.length < SUFFIX) suffix += ALPHABET[Math.floor(random() * ALPHABET.length)] ?? '';
    const name = `${base}-${suffix}`;
    if (!taken(name)) return name;
  }
}
