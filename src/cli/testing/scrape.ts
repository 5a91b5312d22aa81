import { request } from 'node:https';

export interface Scraped {
  status: number;
  body: string;
}

/** As Prometheus with `insecureSkipVerify`, at a port of this machine or a socket that leads to one. */
export async function scrape(
  at: { port: number } | { socketPath: string },
  token?: string,
  path = '/metrics',
  method = 'GET',
): Promise<Scraped> {
  return await new Promise((resolve, reject) => {
    const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
    const call = request(
      { host: '127.0.0.1', ...at, path, method, headers, rejectUnauthorized: false, agent: false, timeout: 10_000 },
      (response) => {
        let body = '';
        response.setEncoding('utf8');
        response.on('data', (chunk: string) => (body += chunk));
        response.on('end', () => resolve({ status: response.statusCode ?? 0, body }));
        response.on('error', reject);
      },
    );
    call.on('timeout', () => call.destroy(new Error(`${path}: no answer within 10 s`)));
    call.on('error', reject);
    call.end();
  });
}
