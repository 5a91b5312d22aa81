/** The exit code that a shell reports for a program that a closed pipe ended: 128 + SIGPIPE, as of `kubectl … | head`. Node ignores the signal and reports EPIPE. */
const BY_SIGPIPE = 141;

/**
 * Ends the process, with no word more, when the reader of its output has gone. What runs until a signal stops it gets that signal, and ends as it
 * would by SIGTERM. Other errors of writing are thrown. Returns the exit code of a process that its work would end with `code`.
 */
export function endWithPipes(): (code: number) => number {
  let broken = false;
  const onError = (error: NodeJS.ErrnoException): void => {
    if (error.code !== 'EPIPE') throw error;
    if (broken) return;
    broken = true;
    if (process.listenerCount('SIGTERM') > 0) process.kill(process.pid, 'SIGTERM');
    else process.exit(BY_SIGPIPE);
  };
  for (const stream of [process.stdout, process.stderr]) stream.on('error', onError);
  return (code) => (broken ? BY_SIGPIPE : code);
}
