export const twoDigits = (byte: number): string => byte.toString(16).padStart(2, '0');

/** Of the text in UTF-8, in hexadecimal digits; half a surrogate pair becomes U+FFFD, as everywhere. */
export function hexOf(text: string): string {
  return encodeURIComponent(text.toWellFormed()).replace(/%([0-9A-F]{2})|[^%]/g, (one, digits: string | undefined) =>
    digits === undefined ? twoDigits(one.charCodeAt(0)) : digits.toLowerCase(),
  );
}
