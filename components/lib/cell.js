// A very small client of the cell's API for the stand-ins that report to it. The node's bootstrap file says where the cell is; whom they speak
// as, a file on the node says.
import { readFileSync, statSync } from 'node:fs';
import { Agent, request } from 'node:https';

// Looks for a newer identity before each request.
function identityOf(path, ca) {
  let seen;
  let found;
  return () => {
    const { mtimeMs, ino } = statSync(path);
    const now = `${mtimeMs} ${ino}`;
    if (now === seen) return found;
    const { key, certificate, token } = JSON.parse(readFileSync(path, 'utf8'));
    found?.agent.destroy();
    const own = token === undefined ? { key, cert: certificate } : {};
    found = { agent: new Agent({ keepAlive: true, ca, ...own }), headers: token === undefined ? {} : { authorization: `Bearer ${token}` } };
    seen = now;
    return found;
  };
}

export function cell(bootstrapPath, identityPath) {
  const bootstrap = JSON.parse(readFileSync(bootstrapPath, 'utf8'));
  const base = new URL(bootstrap.server);
  const identity = identityOf(identityPath, bootstrap.certificateAuthority);

  return function call(method, path, body, contentType = 'application/json') {
    return new Promise((resolve, reject) => {
      const { agent, headers } = identity();
      const text = body === undefined ? undefined : JSON.stringify(body);
      const options = {
        agent,
        method,
        host: base.hostname,
        port: base.port,
        path: base.pathname.replace(/\/$/, '') + path,
        timeout: 10_000,
        headers: {
          ...headers,
          accept: 'application/json',
          ...(text === undefined ? {} : { 'content-type': contentType, 'content-length': Buffer.byteLength(text) }),
        },
      };
      const outgoing = request(options, (response) => {
        let answer = '';
        response.setEncoding('utf8');
        response.on('data', (chunk) => (answer += chunk));
        response.on('error', reject);
        response.on('end', () => resolve({ status: response.statusCode, body: answer === '' ? undefined : JSON.parse(answer) }));
      });
      outgoing.on('timeout', () => outgoing.destroy(new Error('no answer within 10 s')));
      outgoing.on('error', reject);
      outgoing.end(text);
    });
  };
}

// Runs `work` now and then every `ms`, never twice at once; what it throws is logged and tried again next time.
export function every(ms, log, work) {
  const turn = async () => {
    let failed = false;
    try {
      await work();
    } catch (error) {
      failed = true;
      log(`cell: ${error.message}`);
    }
    setTimeout(turn, failed ? Math.min(ms, 1000 + Math.random() * 1000) : ms);
  };
  void turn();
}
