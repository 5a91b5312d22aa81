/** How much a client accepts from a server. Beyond it a request fails with a coded error, even if the server goes on to send. */
export interface AnswerLimits {
  /** From the request to the last byte of its answer. Watches are exempt. */
  answerMs: number;
  /** Limit of a page of a list. */
  answerBytes: number;
  /** Limit of any other answer, and of one event of a watch. */
  objectBytes: number;
  /** Memory that a page of a list may take, by `jsonMemory`; Infinity: it is not counted. */
  answerMemory: number;
  /** The same for any other answer, and for one event. */
  objectMemory: number;
  /** Limit of all answers that are under way at the same time. */
  underWayBytes: number;
  /** Limit of all pages of `listAll`. */
  listBytes: number;
  /** Pages of `listAll`. */
  pages: number;
}

export const MIB = 1024 ** 2;

/** A server itself gives a request up after 60 s. An object is at most 1.5 MiB in etcd. */
export const OWN_SERVER_LIMITS: AnswerLimits = {
  answerMs: 120_000,
  answerBytes: 256 * MIB,
  objectBytes: 256 * MIB,
  answerMemory: Infinity,
  objectMemory: Infinity,
  underWayBytes: Infinity,
  listBytes: 2048 * MIB,
  pages: 100_000,
};
/** The server of a cell, in the hub, which has many: it is not trusted with the memory of the hub, nor with its time (docs/security.md). */
export const CELL_LIMITS: AnswerLimits = {
  answerMs: 30_000,
  answerBytes: 64 * MIB,
  objectBytes: 4 * MIB,
  answerMemory: 128 * MIB,
  objectMemory: 32 * MIB,
  underWayBytes: 64 * MIB,
  listBytes: 64 * MIB,
  pages: 1000,
};
/** An agent reads its Machine and what that names. */
export const AGENT_LIMITS: AnswerLimits = {
  answerMs: 60_000,
  answerBytes: 16 * MIB,
  objectBytes: 16 * MIB,
  answerMemory: 128 * MIB,
  objectMemory: 128 * MIB,
  underWayBytes: 32 * MIB,
  listBytes: 16 * MIB,
  pages: 100,
};
