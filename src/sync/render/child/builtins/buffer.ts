/** Stands for `node:buffer` in the fleet's realm, where there is none; packages test whether there is one. */
export const Buffer = undefined;
