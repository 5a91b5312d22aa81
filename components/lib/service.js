// What every stand-in shares: `main.js run ROOT` serves, `main.js probe ROOT` asks it, exit code 0 when it is healthy.
// Sockets are named relative to ROOT, since a socket's path may have some 100 bytes only.
import { readFileSync, rmSync } from 'node:fs';
import { createServer, request } from 'node:http';
import { fileURLToPath } from 'node:url';

const release = JSON.parse(readFileSync(fileURLToPath(new URL('release.json', import.meta.url)), 'utf8'));

export const log = (message) => process.stdout.write(`${new Date().toISOString()} ${release.name} ${release.version}: ${message}\n`);

export function service(start) {
  const [command, root] = process.argv.slice(2);
  if ((command !== 'run' && command !== 'probe') || root === undefined) {
    process.stderr.write('usage: main.js run|probe ROOT\n');
    process.exit(64);
  }
  process.chdir(root === '' ? '/' : root);
  const socketPath = `run/${release.name}.sock`;
  if (command === 'probe') return probe(socketPath);

  const state = { release, config: readConfig(), problem: release.unhealthy ? 'this release is broken on purpose' : undefined };
  rmSync(socketPath, { force: true });
  const server = createServer((_, response) => {
    response.writeHead(state.problem === undefined ? 200 : 503, { 'content-type': 'application/json' });
    response.end(
      JSON.stringify({ name: release.name, version: release.version, pid: process.pid, problem: state.problem, config: state.config }),
    );
  });
  server.listen(socketPath, () => log(`serving, pid ${process.pid}`));
  process.on('SIGTERM', () => {
    log('stopping');
    process.exit(0);
  });
  process.on('SIGHUP', () => {
    state.config = readConfig();
    log('configuration read again');
  });
  return start(state);
}

function readConfig() {
  return JSON.parse(readFileSync(`etc/${release.name}/config.json`, 'utf8'));
}

function probe(socketPath) {
  const call = request({ socketPath, path: '/healthz', timeout: 2000 }, (response) => {
    let body = '';
    response.on('data', (chunk) => (body += chunk));
    response.on('end', () => {
      const answer = JSON.parse(body);
      process.stdout.write(`${body}\n`);
      process.exit(response.statusCode === 200 && answer.version === release.version ? 0 : 1);
    });
  });
  call.on('timeout', () => call.destroy(new Error('no answer within 2 s')));
  call.on('error', (error) => {
    process.stderr.write(`${release.name} does not answer: ${error.message}\n`);
    process.exit(1);
  });
  call.end();
}
