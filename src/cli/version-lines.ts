export interface VersionLine {
  /** `local-runtime` */
  component: string;
  version: string;
  /** From 1. */
  line: number;
  text: string;
}

/** The lines of a `fleet/versions.ts` that bump a component: `export const runtime = localRuntime('1.0.0');`. */
export function versionLines(text: string): VersionLine[] {
  return text.split('\n').flatMap((line, index) => {
    const match = /^export const \w+ = ([a-z]\w*)\('(\d+\.\d+\.\d+)'\)/.exec(line);
    if (match?.[1] === undefined || match[2] === undefined) return [];
    return [
      { component: match[1].replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`), version: match[2], line: index + 1, text: line },
    ];
  });
}
