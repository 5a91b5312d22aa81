/** Stands for `node:buffer` in the fleet's realm, where there is none; packages look whether there is. */
export const Buffer = undefined;
