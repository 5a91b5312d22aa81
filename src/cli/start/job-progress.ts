import type { RemedyOperationJob } from '../../api/remedy-operation-job.ts';
import type { ProgressLines } from './progress-lines.ts';

/** Prints what has changed in a repair. */
export function reportJob(lines: ProgressLines, cell: string, job: RemedyOperationJob): void {
  const { rule, action, node } = job.spec;
  const { phase, verdict, answer, explanation } = job.status ?? {};
  const text = `${cell}: rule ${rule} on node ${node}`;
  const because = explanation === undefined ? '' : `: ${explanation}`;
  const print = (): void => {
    switch (phase) {
      case undefined:
        return;
      case 'Pending':
        if (verdict?.allowed === false) lines.print('waiting', `${text}: ${action} waits for Defender: ${answer ?? 'refused'}`);
        return;
      case 'Granted':
      case 'Running':
        return lines.print('doing', `${text}: ${action} is ${phase}`);
      case 'Verifying':
        return lines.print('doing', `${text}: ${action} is over; waiting for the proof that the node is healthy`);
      case 'Succeeded':
        return lines.print('done', `${text}: ${action} succeeded${because}`);
      case 'Failed':
      case 'NeedsHuman':
        return lines.print('failed', `${text}: ${action} is ${phase}${because}`);
      case 'Cancelled':
        return lines.print('warning', `${text}: ${action} was cancelled${because}`);
      case 'Shadow':
        return lines.print('warning', `${text}: it would begin with ${action} now, and does nothing: its mode is Shadow`);
      default:
        return phase satisfies never;
    }
  };
  lines.once(`${cell}/${job.metadata.name}`, `${phase} ${phase === 'Pending' ? (verdict?.limit ?? '') : ''}`, print);
}
