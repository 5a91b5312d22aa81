import { CodedError } from '../../../api/errors.ts';
import type { RenderErrorCode } from '../errors.ts';

/** A refusal by the sandbox. `location` when the stack does not lead there. */
export class SandboxError extends CodedError<RenderErrorCode> {
  readonly location: string | undefined;

  constructor(code: RenderErrorCode, message: string, options: { next?: string; location?: string } = {}) {
    super(code, message, options.next === undefined ? {} : { next: options.next });
    this.name = 'SandboxError';
    this.location = options.location;
  }
}
