#!/usr/bin/env node
// The entry of the `kubenode` command. Plain JavaScript for any Node, so that an old one gets a clear word and not a syntax error.
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

// Node would open its inspector, and with it everything that this process may do, to every process that can send it this signal.
process.on('SIGUSR1', () => {});

const NEEDED = [24, 12];
const [major, minor] = process.versions.node.split('.').map(Number);
if (major < NEEDED[0] || (major === NEEDED[0] && minor < NEEDED[1])) {
  const pinned = fileURLToPath(new URL('../node_modules/node/bin/node', import.meta.url));
  process.stderr.write(`✗ kubenode runs on Node ${NEEDED.join('.')} or newer, and this is Node ${process.versions.node}\n`);
  process.stderr.write(
    existsSync(pinned)
      ? `next: ${pinned} ${process.argv.slice(1).join(' ')}\n`
      : 'In a checkout, npm installs that Node as the development dependency "node". It is not there: install scripts were switched off.\nnext: npm install --ignore-scripts=false, or install Node 24\n',
  );
  process.exit(1);
}

const source = new URL('../src/cli/main.ts', import.meta.url);
const built = new URL('../dist/cli/main.js', import.meta.url);
const { main } = await import(existsSync(fileURLToPath(source)) ? source.href : built.href);
await main(process.argv);
