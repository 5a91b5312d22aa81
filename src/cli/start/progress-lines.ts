import type { Output, Word } from '../output.ts';

/** Prints each change once, above one line that shows where things stand on a terminal. */
export class ProgressLines {
  readonly #output: Output;
  /** What was last printed, by what it is about. */
  readonly #printed = new Map<string, string>();
  #isDrawn = false;
  #isMuted = false;

  constructor(output: Output) {
    this.#output = output;
  }

  print(word: Word, message: string): void {
    this.#output.report(word, message);
  }

  /** Calls `print` where `value` is not what `key` had last. */
  once(key: string, value: string, print: () => void): void {
    if (this.#printed.get(key) === value) return;
    this.#printed.set(key, value);
    if (this.#isMuted) return;
    this.clear();
    print();
  }

  /** Records what `report` would print, and prints nothing. */
  muted(report: () => void): void {
    this.#isMuted = true;
    report();
    this.#isMuted = false;
  }

  /** Shows where things stand. */
  draw(text: string): void {
    this.clear();
    process.stderr.write(text.slice(0, Math.max(20, (process.stderr.columns || 80) - 1)));
    this.#isDrawn = true;
  }

  clear(): void {
    if (this.#isDrawn) process.stderr.write('\r\u001B[2K');
    this.#isDrawn = false;
  }
}
