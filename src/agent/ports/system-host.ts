import { agentError } from '../errors.ts';
import { platform } from './host.ts';
import type { Host } from './host.ts';
import { fs, readFile } from './node-fs.ts';
import type { Systemctl } from './systemctl.ts';

const UNINSTALL = '/opt/kubenode/agent/current/uninstall';
const UNINSTALL_UNIT = 'kubenode-agent-uninstall';
const BOOT_ID = '/proc/sys/kernel/random/boot_id';

/**
 * A machine that systemd runs. Errors: `BootUnknown`, `NoPlatform`, `HostUnfit`.
 *
 * A reboot that systemd has begun cannot be taken back: `keepUp` leaves it alone, and the boot ID shows how the operation ended.
 */
export async function systemHost(systemctl: Systemctl, systemdRun: Systemctl): Promise<Host> {
  if (process.platform !== 'linux' || !fs.existsSync('/run/systemd/system')) {
    throw agentError('HostUnfit', '--host system is for machines that systemd runs; /run/systemd/system is not there');
  }
  if (process.getuid?.() !== 0) throw agentError('HostUnfit', '--host system needs root');
  const bootID = (await readFile(BOOT_ID, 'utf8').catch(() => '')).trim();
  if (!/^[0-9a-f-]{36}$/.test(bootID)) throw agentError('BootUnknown', `${BOOT_ID} has no boot ID`);
  return {
    bootID,
    ...platform(),
    async reboot(operation) {
      // Returns when it is queued. One that is under way already is reported as such, and is what was asked for.
      const { code, stderr } = await systemctl(['reboot', '--no-block', '--no-wall', `--message=KubeNode operation ${operation}`]);
      if (code !== 0 && !/already|in progress/i.test(stderr)) {
        throw agentError('RebootFailed', `systemctl reboot ended with ${code}: ${stderr.trim().slice(0, 300)}`);
      }
    },
    keepUp: () => Promise.resolve(),
    async takeAgentAway() {
      // A unit of its own: the agent's is stopped by it, with all that is in it.
      const { code, stderr } = await systemdRun(['--no-block', '--collect', `--unit=${UNINSTALL_UNIT}`, UNINSTALL, '--forget']);
      if (code !== 0) throw agentError('UnitFailed', `systemd-run ${UNINSTALL_UNIT} ended with ${code}: ${stderr.trim().slice(0, 300)}`);
    },
  };
}
