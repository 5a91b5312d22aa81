import { userInfo } from 'node:os';
import { isAbsolute, join } from 'node:path';

type Environment = Readonly<Record<string, string | undefined>>;

/** The user's folder, never the working one: an empty or relative `$HOME` would let a checkout bring what is kept there. */
export function homeFolder(env: Environment): string {
  const { HOME } = env;
  if (HOME !== undefined && isAbsolute(HOME)) return HOME;
  try {
    const { homedir } = userInfo();
    return isAbsolute(homedir) ? homedir : '/';
  } catch {
    // A user without a name, as in some containers.
    return '/';
  }
}

/** `$XDG_CACHE_HOME` or `$XDG_STATE_HOME`; its specification has empty and relative ones ignored. */
export function xdgFolder(env: Environment, name: 'XDG_CACHE_HOME' | 'XDG_STATE_HOME', otherwise: string): string {
  const folder = env[name];
  return folder !== undefined && isAbsolute(folder) ? folder : join(homeFolder(env), otherwise);
}
