import { messageOf } from '../../api/errors.ts';
import type { Output } from '../output.ts';

/** Runs steps of the tour one after the other, and reports how each ended. */
export class StepReport {
  readonly #output: Output;
  readonly #json: boolean;
  readonly #began = performance.now();
  #failed = false;

  constructor(output: Output, json: boolean) {
    this.#output = output;
    this.#json = json;
  }

  /** Whether a step has failed. */
  get failed(): boolean {
    return this.#failed;
  }

  /** Runs a step; undefined: it failed. */
  async run<T>({ name, run }: { name: string; run: () => Promise<T> }, detail: (value: T) => string): Promise<T | undefined> {
    const started = performance.now();
    const since = (): number => Math.round(performance.now() - started);
    if (!this.#json) this.#output.report('doing', name);
    try {
      const value = await run();
      this.#report(name, true, since(), detail(value));
      return value;
    } catch (error) {
      this.#failed = true;
      this.#report(name, false, since(), messageOf(error));
      return undefined;
    }
  }

  #report(step: string, ok: boolean, ms: number, detail: string): void {
    if (this.#json) this.#output.print(JSON.stringify({ step, ok, ms, detail }));
    else this.#output.report(ok ? 'done' : 'failed', `${(ms / 1000).toFixed(1)} s  ${detail}`);
  }

  /** `kept`: the folder that is left; undefined: it was removed. */
  end(kept: string | undefined): void {
    if (this.#failed && kept === undefined) return this.#output.report('failed', 'interrupted; everything is stopped and removed');
    if (this.#json) return this.#failed ? this.#output.report('failed', `what is left is in ${kept}`) : undefined;
    const seconds = ((performance.now() - this.#began) / 1000).toFixed(1);
    if (this.#failed) this.#output.report('failed', `not every step came true; what is left is in ${kept}`);
    else this.#output.report('done', `every step came true, in ${seconds} s`);
  }
}
