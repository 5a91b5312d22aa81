/** What packages expect of every realm and a bare one lacks. Imported first. */
import { hexOf } from './hex.ts';

/** Equal to the one of the web for all that it does. */
class TextEncoder {
  readonly encoding = 'utf-8';

  encode(text = ''): Uint8Array {
    return Uint8Array.from(hexOf(text).match(/../g) ?? [], (digits) => Number.parseInt(digits, 16));
  }
}
Object.defineProperty(globalThis, 'TextEncoder', { value: TextEncoder, writable: true, configurable: true });
