import { userInfo } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { homeFolder, xdgFolder } from './home.ts';

const own = userInfo().homedir;

test.each([
  ['an absolute one', { HOME: '/home/user' }, '/home/user'],
  ['a relative one', { HOME: 'here' }, own],
  ['an empty one', { HOME: '' }, own],
  ['none', {}, own],
])('the user’s folder is never the working one: with %s in the environment', (_what, env, expected) => {
  expect(homeFolder(env)).toBe(expected);
});

test.each([
  ['/cache', '/cache'],
  ['cache', '/home/user/.cache'],
  ['', '/home/user/.cache'],
  [undefined, '/home/user/.cache'],
])('a folder %j of the environment is taken where it is absolute, and else the one below the user’s', (folder, expected) => {
  const env = { HOME: '/home/user', XDG_CACHE_HOME: folder, XDG_STATE_HOME: '/state' };
  expect(xdgFolder(env, 'XDG_CACHE_HOME', '.cache')).toBe(expected);
  expect(xdgFolder(env, 'XDG_STATE_HOME', '.state')).toBe('/state');
  expect(xdgFolder({ XDG_CACHE_HOME: folder }, 'XDG_CACHE_HOME', '.cache')).toBe(folder === '/cache' ? folder : join(own, '.cache'));
});
