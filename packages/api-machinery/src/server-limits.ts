/**
 * How long a server that KubeNode opens waits for a client that sends nothing. Node's own limits are a minute or more, with which a few such
 * clients keep all others out.
 */

/** From the connection to the end of the TLS handshake, and to the end of a request's head. */
const HEAD_MS = 5000;
/** To the end of a request. */
const REQUEST_MS = 10_000;
/** How often the server checks for clients that are late. */
const CHECK_MS = 1000;

/** For `createServer` of node:http and node:https; the former has no handshake. */
export const serverTimes = ({ headMs = HEAD_MS, requestMs = REQUEST_MS }: { headMs?: number; requestMs?: number } = {}) => ({
  handshakeTimeout: headMs,
  headersTimeout: headMs,
  requestTimeout: requestMs,
  connectionsCheckingInterval: CHECK_MS,
});
