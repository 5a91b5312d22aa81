import { cliError } from './errors.ts';

/** Throws `Usage` for values of `--node-domains` that are none: an empty domain, or a wildcard, would take in every name there is. */
export function requireDomains(domains: readonly string[] = []): void {
  const odd = domains.find((each) => each.length > 253 || !/^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/.test(each));
  if (odd !== undefined)
    throw cliError('Usage', `\`--node-domains\` must be domains like nodes.example, without "*" and a dot before them, got "${odd}"`);
}
