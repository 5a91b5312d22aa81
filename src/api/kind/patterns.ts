/** Patterns that many fields share, each with what it asks for, for people. */
export const PATTERNS = {
  percent: { pattern: '^([0-9]|[1-9][0-9]|100)%$', asks: 'must be a number, such as 3, or a percentage from "0%" to "100%"' },
  name: {
    pattern: '^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$',
    asks: 'must be lower-case letters, digits, "-" and ".", with a letter or a digit at both ends',
  },
  sha256: { pattern: '^[a-f0-9]{64}$', asks: 'must be 64 hexadecimal digits in lower case' },
} as const;

export const asksOf = (pattern: unknown): string | undefined => Object.values(PATTERNS).find((each) => each.pattern === pattern)?.asks;
