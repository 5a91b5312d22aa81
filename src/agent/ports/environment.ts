import { delimiter, dirname } from 'node:path';

/** What units, hooks and probes see: of the agent's own environment only PATH, with this Node first. */
export function environmentOf(root: string, own: Record<string, string> = {}): Record<string, string> {
  const path = [dirname(process.execPath), process.env['PATH'] ?? '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'];
  return { PATH: path.join(delimiter), ...own, KUBENODE_ROOT: root };
}
