import { describe, expect, it } from 'vitest';
import { readClientLog } from './client-log.ts';

describe('the log of the OpenSSH client', () => {
  it.each([
    [
      'Received disconnect from 10.0.0.1 port 22:11: Host key verification failed.\r\nDisconnected from 10.0.0.1 port 22\r\n',
      'ConnectionLost',
    ],
    ['Received disconnect from 10.0.0.1 port 22:11: bye\nHost key verification failed.\r\n', 'ConnectionLost'],
    ['Received disconnect from 10.0.0.1 port 22:11: root@h: Permission denied (publickey,password).\r\n', 'ConnectionLost'],
    ['Connection closed by 10.0.0.1 port 22\r\nREMOTE HOST IDENTIFICATION HAS CHANGED\r\n', 'ConnectionLost'],
    [
      'Unable to negotiate with 10.0.0.1 port 22: no matching cipher found. Their offer: Host key verification failed\r\n',
      'ConnectionLost',
    ],
    ['root@h: Permission denied (publickey,Host key verification failed).\r\n', 'AuthRefused'],
    ['Received disconnect from 10.0.0.1 port 22:2: Too many authentication failures\r\n', 'AuthRefused'],
    ['root@h: Permission denied (publickey).\r\n', 'AuthRefused'],
    ['root@h: Permission denied (publickey,password).\r\n', 'PasswordAsked'],
    ['root@h: Permission denied (publickey,keyboard-interactive).\r\n', 'PasswordAsked'],
    ['Permissions 0644 for "k": UNPROTECTED PRIVATE KEY FILE!\r\nroot@h: Permission denied (publickey,password).\r\n', 'PasswordAsked'],
    ['Unable to negotiate with 10.0.0.1 port 22: no matching host key type found. Their offer: ssh-rsa\r\n', 'HostKeyChanged'],
    ['No ED25519 host key is known for kubenode-target and you have requested strict checking.\r\n', 'HostKeyChanged'],
    ['Host key verification failed.\r\n', 'HostKeyChanged'],
    ['kex_exchange_identification: Connection closed by remote host\r\nConnection closed by 10.0.0.1 port 22\r\n', 'HostUnreachable'],
  ])('%j', (log, reason) => {
    expect(readClientLog(log)).toBe(reason);
  });
});
