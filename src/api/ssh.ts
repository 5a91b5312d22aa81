/** `spec.provider` of a Machine that was there before KubeNode: `{ name: ssh, config }`. */
import { Type, type Static } from 'typebox';

export const SSH_PROVIDER = 'ssh';

const HOST = '^[A-Za-z0-9][A-Za-z0-9._:%-]*$';
const USER = '^[A-Za-z_][A-Za-z0-9_.-]*$';

/** How the machine is reached. No key by which one gets in: that stays with the person who imports. */
export const sshConfig = Type.Object(
  {
    address: Type.String({ pattern: HOST, maxLength: 253, description: 'name or address by which its sshd is reached' }),
    port: Type.Optional(Type.Integer({ minimum: 1, maximum: 65_535, description: 'default 22' })),
    user: Type.Optional(Type.String({ pattern: USER, maxLength: 64, description: 'root, or who becomes it by sudo without a password' })),
    hostKeys: Type.Optional(
      Type.Array(Type.String({ maxLength: 8192, description: '`ssh-ed25519 AAAA…`' }), {
        maxItems: 8,
        description: 'keys of its sshd, pinned',
      }),
    ),
  },
  { additionalProperties: false },
);
export type SshConfig = Static<typeof sshConfig>;

/** What is wrong with it, with paths relative to it; undefined where it is valid. */
export function sshConfigErrors(config: Record<string, unknown>): { path: string; message: string }[] {
  const errors: { path: string; message: string }[] = [];
  const { address, port, user, hostKeys, ...others } = config;
  if (typeof address !== 'string' || address.length > 253 || !new RegExp(HOST).test(address))
    errors.push({ path: 'address', message: 'must be a name or an address' });
  if (port !== undefined && !(Number.isInteger(port) && Number(port) >= 1 && Number(port) <= 65_535))
    errors.push({ path: 'port', message: 'must be 1 to 65535' });
  if (user !== undefined && (typeof user !== 'string' || user.length > 64 || !new RegExp(USER).test(user)))
    errors.push({ path: 'user', message: 'must be the name of a user' });
  const areTexts =
    Array.isArray(hostKeys) && hostKeys.length <= 8 && hostKeys.every((each) => typeof each === 'string' && each.length <= 8192);
  if (hostKeys !== undefined && !areTexts) errors.push({ path: 'hostKeys', message: 'must be at most 8 public keys' });
  for (const path of Object.keys(others)) errors.push({ path, message: 'unknown field: address, port, user and hostKeys are known' });
  return errors;
}

/** Only for a target without validation errors. */
export function readSshConfig(config: Record<string, unknown> | undefined): SshConfig | undefined {
  return config === undefined || sshConfigErrors(config).length > 0 ? undefined : (config as SshConfig);
}
