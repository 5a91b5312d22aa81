/*
 * Compiled code, and what is kept in order to compile well, cost 10 MB on every node (measured), for a program that has little to do.
 * Imported for its effect, by a program and never by a library.
 */
const v8 = process.getBuiltinModule('node:v8');
for (const flag of ['--no-opt', '--no-maglev', '--no-sparkplug', '--optimize-for-size', '--max-lazy']) v8.setFlagsFromString(flag);
