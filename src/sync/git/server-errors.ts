import * as git from 'isomorphic-git';
import { CodedError, messageOf, reworded } from '../../api/errors.ts';
import { gitError, printable } from './errors.ts';
import type { HttpSpec } from './source.ts';

/** Of which server an error is. */
export interface Server {
  host: string;
  url: string;
  branch: string;
  auth: HttpSpec['auth'];
}

/** What isomorphic-git throws, as an error of ours. */
export function serverError(error: unknown, server: Server): Error {
  const { host, auth } = server;
  if (error instanceof CodedError) return redacted(error, auth);
  if (error instanceof git.Errors.HttpError) {
    const what = auth === undefined ? 'wants credentials, and the source has none' : 'refuses the credentials of the source';
    return gitError('GitAuth', `${host}: ${what}`, {
      next: 'check the Secret that the source names, and that the account may read the repository',
    });
  }
  if (error instanceof git.Errors.NotFoundError) return branchMissing(server);
  if (error instanceof Error && 'syscall' in error) return error;
  return redacted(gitError('GitProtocol', `${host}: does not answer as Git servers do: ${printable(messageOf(error))}`), auth);
}

export function branchMissing({ host, url, branch }: Server): Error {
  return gitError('GitBranchMissing', `${host}: has no commit on the branch ${branch}`, { next: `git ls-remote --heads ${url}` });
}

/** An error may repeat words of the server, which was sent the password. */
function redacted(error: CodedError, auth: HttpSpec['auth']): CodedError {
  if (auth === undefined) return error;
  const { username, password } = auth;
  const secrets = [password, Buffer.from(`${username}:${password}`).toString('base64')].filter((secret) => secret !== '');
  const message = secrets.reduce((text, secret) => text.replaceAll(secret, '***'), error.message);
  return message === error.message ? error : reworded(error, message);
}
