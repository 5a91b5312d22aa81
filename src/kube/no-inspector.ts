/**
 * Node opens its inspector, and with it everything that the process may do, to any process that can send it SIGUSR1. Import this first in each program that may
 * be started without `--disable-sigusr1`; from then on the signal does nothing.
 */
process.on('SIGUSR1', () => undefined);
