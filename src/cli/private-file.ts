import { mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';

/**
 * Writes a file that only we may read; whole or not there. It is made in a new folder that only we can enter: in a shared folder such as /tmp,
 * a name that can be guessed may already be a link of another user.
 */
export async function writePrivateFile(file: string, text: string): Promise<void> {
  const beside = await mkdtemp(join(dirname(file), '.kubenode-'));
  try {
    const whole = join(beside, 'file');
    await writeFile(whole, text, { mode: 0o600, flag: 'wx' });
    await rename(whole, file);
  } finally {
    await rm(beside, { recursive: true, force: true });
  }
}
