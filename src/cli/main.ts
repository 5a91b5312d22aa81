import { runProgram, type Commands } from './program.ts';

const COMMANDS: Commands = {
  start: async () => (await import('./commands/start.ts')).startCommand,
  serve: async () => (await import('./commands/serve.ts')).serveCommand,
  controller: async () => (await import('./commands/controller.ts')).controllerCommand,
  agent: async () => (await import('./commands/agent.ts')).agentCommand,
  install: async () => (await import('./commands/install.ts')).installCommand,
  status: async () => (await import('./commands/status.ts')).statusCommand,
  import: async () => (await import('./commands/import.ts')).importCommand,
  'give-back': async () => (await import('./commands/give-back.ts')).giveBackCommand,
  release: async () => (await import('./commands/release.ts')).releaseCommand,
  plan: async () => (await import('./commands/plan.ts')).planCommand,
  snapshot: async () => (await import('./commands/plan.ts')).snapshotCommand,
  rollout: async () => (await import('./commands/rollout.ts')).rolloutCommand,
  check: async () => (await import('./commands/check.ts')).checkCommand,
  why: async () => (await import('./commands/why.ts')).whyCommand,
  rules: async () => (await import('./commands/rules.ts')).rulesCommand,
  component: async () => (await import('./commands/component.ts')).componentCommand,
  tour: async () => (await import('./commands/tour.ts')).tourCommand,
};

export async function main(argv: string[]): Promise<void> {
  await runProgram(argv, COMMANDS);
}
