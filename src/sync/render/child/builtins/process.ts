/** Stands for `node:process` in the fleet's realm: what packages ask of it. */
const stub = Object.freeze({
  env: Object.freeze({}),
  argv: Object.freeze([]),
  // cdk8s starts it to load files, and is then refused.
  execPath: '/node',
  platform: 'linux',
  arch: 'x64',
  version: 'v24.0.0',
  versions: Object.freeze({ node: '24.0.0' }),
  cwd: () => '/',
  emitWarning: () => {},
});
export const { env, argv, execPath, platform, arch, version, versions, cwd, emitWarning } = stub;
export default stub;
