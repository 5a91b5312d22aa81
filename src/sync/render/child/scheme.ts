/** How files of a commit are named in stacks, where blanks and brackets would end them: `fleet:///fleet/main.ts`. */
export const SCHEME = 'fleet:///';

/** `fleet/a b.ts` → `fleet:///fleet/a%20b.ts` */
export function urlOf(path: string): string {
  return SCHEME + path.split('/').map(encodeURIComponent).join('/');
}

/** `fleet:///fleet/a%20b.ts` → `fleet/a b.ts` */
export function pathOf(url: string): string {
  const path = url.slice(SCHEME.length);
  try {
    return decodeURIComponent(path);
  } catch {
    return path;
  }
}
