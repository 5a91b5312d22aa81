/*
 * Node's file functions, as promises. Neither `node:fs/promises` nor an import statement of `node:fs`: both load web streams, and reading all
 * exports of a module, which an import does, wakes up what is lazy in it. It saves every node 2 MB (measured).
 */
export const fs = process.getBuiltinModule('node:fs');
const { promisify } = process.getBuiltinModule('node:util');

export const open = promisify(fs.open);
export const close = promisify(fs.close);
export const read = promisify(fs.read);
export const write = promisify(fs.write);
export const fsync = promisify(fs.fsync);
export const chmod = promisify(fs.chmod);
export const fstat = promisify(fs.fstat);
export const fchmod = promisify(fs.fchmod);
export const lstat = promisify(fs.lstat);
export const mkdir = promisify(fs.mkdir);
export const opendir = promisify(fs.opendir);
export const readFile = promisify(fs.readFile);
export const writeFile = promisify(fs.writeFile);
export const readdir = promisify(fs.readdir);
export const readlink = promisify(fs.readlink);
export const realpath = promisify(fs.realpath);
export const rename = promisify(fs.rename);
export const rmdir = promisify(fs.rmdir);
export const symlink = promisify(fs.symlink);
export const unlink = promisify(fs.unlink);
export const ftruncate = promisify(fs.ftruncate);
export const statfs = promisify(fs.statfs);
