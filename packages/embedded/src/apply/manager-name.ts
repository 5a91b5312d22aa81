const maxBytes = 128;

/** The manager of an update: the request's `fieldManager`, or else the program that its User-Agent names, `kubectl` of `kubectl/v1.34.4`. */
export function managerOf(fieldManager: string | undefined, userAgent: string | undefined): string {
  if (fieldManager !== undefined && fieldManager !== '') return fieldManager;
  let name = '';
  let bytes = 0;
  for (const char of (userAgent ?? '').split('/')[0] ?? '') {
    if (/[^\p{L}\p{M}\p{N}\p{P}\p{S} ]/u.test(char)) continue;
    bytes += Buffer.byteLength(char);
    if (bytes > maxBytes) break;
    name += char;
  }
  return name;
}
