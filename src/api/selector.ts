/** Equality selectors. An empty or absent selector matches nothing: "everything" must be expressed in another way. */
export function matchesLabels(selector: Record<string, string> | undefined, labels: Record<string, string> | undefined): boolean {
  const wanted = Object.entries(selector ?? {});
  return wanted.length > 0 && wanted.every(([key, value]) => labels?.[key] === value);
}

/** `a=1,b=2`, as the API takes it. */
export function selectorText(selector: Record<string, string>): string {
  return Object.entries(selector)
    .map(([key, value]) => `${key}=${value}`)
    .join(',');
}
