/** What is wrong with the values of `--node-domains`; undefined: nothing. An empty domain, or a wildcard, would take in every name there is. */
export function oddDomain(domains: readonly string[] | undefined): string | undefined {
  const odd = domains?.find((each) => each.length > 253 || !/^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/.test(each));
  return odd === undefined
    ? undefined
    : `\`--node-domains\` must be domains like nodes.example, without "*" and a dot before them, got "${odd}"`;
}
