import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';

it('every server that the product opens has these limits', () => {
  const root = join(import.meta.dirname, '../..');
  const files = ['src', 'packages']
    .flatMap((folder) => readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).map((file) => join(root, folder, file)))
    .filter((file) => file.endsWith('.ts') && !/\.test\.ts$|testing(\/|\.ts$)/.test(file));
  const servers = files.filter((file) => /import \{[^}]*\bcreateServer\b[^}]*\} from 'node:https?'/.test(readFileSync(file, 'utf8')));
  expect(servers.length).toBeGreaterThan(3);
  expect(servers.filter((file) => !/\.\.\.serverTimes\(/.test(readFileSync(file, 'utf8')))).toEqual([]);
  expect(servers.filter((file) => !/\.maxConnections = /.test(readFileSync(file, 'utf8')))).toEqual([]);
});
