/** Stands for `node:path` in the fleet's realm, as far as packages use it: nothing that they make of paths leads anywhere. */
export const sep = '/';

export function join(...parts: string[]): string {
  const path = parts.filter((part) => part !== '').join('/');
  const steps: string[] = [];
  for (const step of path.split('/')) {
    if (step === '' || step === '.') continue;
    if (step === '..' && steps.length > 0 && steps.at(-1) !== '..') steps.pop();
    else if (step !== '..' || !path.startsWith('/')) steps.push(step);
  }
  return `${path.startsWith('/') ? '/' : ''}${steps.join('/')}` || '.';
}

export function resolve(...parts: string[]): string {
  const last = parts.findLastIndex((part) => part.startsWith('/'));
  return join('/', ...parts.slice(Math.max(0, last)));
}

export function basename(path: string, ending = ''): string {
  const name = path.replace(/\/+$/, '').split('/').at(-1) ?? '';
  return ending !== '' && name !== ending && name.endsWith(ending) ? name.slice(0, -ending.length) : name;
}

export function dirname(path: string): string {
  const steps = path.replace(/\/+$/, '').split('/').slice(0, -1);
  return steps.join('/') || (path.startsWith('/') ? '/' : '.');
}

export function extname(path: string): string {
  const name = basename(path);
  const dot = name.lastIndexOf('.');
  return dot <= 0 || name === '..' ? '' : name.slice(dot);
}

export const posix = { sep, join, resolve, basename, dirname, extname };
