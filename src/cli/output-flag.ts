import { Option } from 'commander';

/** `-o FORMAT`, as kubectl has it; without it a command prints for people. `what` names what the command prints. */
export function outputFlag(formats: readonly string[], what: string): Option {
  return new Option('-o, --output <format>', what).choices(formats);
}
