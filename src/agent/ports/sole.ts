import { join } from 'node:path';
import { agentError } from '../errors.ts';
import { fs } from './node-fs.ts';
import { startOf } from './processes.ts';

/**
 * Makes this the only agent of the root until the process ends: two would undo each other's work. The file names its process by ID and start, so one
 * that a killed agent left stops no other. Errors: `AgentRunning`.
 */
export async function beSole(root: string): Promise<void> {
  const folder = join(root === '' ? '/' : root, 'run/kubenode');
  const path = join(folder, 'agent.pid');
  fs.mkdirSync(folder, { recursive: true });
  const mine = `${process.pid} ${(await startOf(process.pid)) ?? ''}`;
  const draft = join(folder, `.agent.pid.${process.pid}`);
  for (;;) {
    fs.writeFileSync(draft, mine);
    try {
      // Whole or not at all, and only where there is none.
      fs.linkSync(draft, path);
      return;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    } finally {
      fs.unlinkSync(draft);
    }
    let text: string;
    try {
      text = fs.readFileSync(path, 'utf8');
    } catch {
      continue;
    }
    const [pid = '', start = ''] = text.split(' ');
    if (start !== '' && (await startOf(Number(pid))) === start) {
      throw agentError('AgentRunning', `another agent runs here, process ${pid}`, { next: `systemctl status ${pid}` });
    }
    // Only the file that was read goes: another may have replaced it.
    const aside = join(folder, `.agent.pid.${process.pid}.old`);
    fs.renameSync(path, aside);
    const moved = fs.readFileSync(aside, 'utf8');
    if (moved !== text) fs.linkSync(aside, path);
    fs.unlinkSync(aside);
  }
}
