import type { Connection } from './connect.ts';

/** Why a server was not reached, by the code of Node's error: Node's messages about certificates name Node's own options. */
function wordsOf(code: string, message: string, { ca, tlsServerName }: Connection, host: string): string | undefined {
  switch (code) {
    case 'ECONNREFUSED':
      return 'nothing listens there';
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return `the name ${host} is not found`;
    case 'EHOSTUNREACH':
    case 'ENETUNREACH':
      return 'there is no way there';
    case 'ETIMEDOUT':
    case 'UND_ERR_CONNECT_TIMEOUT':
      return 'no connection was made in time';
    case 'UNABLE_TO_VERIFY_LEAF_SIGNATURE':
    case 'UNABLE_TO_GET_ISSUER_CERT':
    case 'UNABLE_TO_GET_ISSUER_CERT_LOCALLY':
    case 'DEPTH_ZERO_SELF_SIGNED_CERT':
    case 'SELF_SIGNED_CERT_IN_CHAIN':
    case 'CERT_SIGNATURE_FAILURE':
      return ca === undefined
        ? 'its certificate is not of an authority that this machine trusts, and the kubeconfig names none'
        : 'its certificate is not of the authority that the kubeconfig names';
    case 'CERT_HAS_EXPIRED':
      return "the server's certificate has expired";
    case 'CERT_NOT_YET_VALID':
      return "the server's certificate is not valid yet: is the clock of this machine right?";
    case 'ERR_TLS_CERT_ALTNAME_INVALID':
      return `its certificate is not for ${tlsServerName ?? host}`;
    default:
      // The code shows it over undici, the message over node:https.
      if (/wrong.version.number|packet.length.too.long/i.test(`${code} ${message}`)) return 'what listens there does not speak TLS';
      return /alert.(bad.certificate|certificate|unknown.ca)/i.test(`${code} ${message}`) ? 'it refused the client certificate' : undefined;
  }
}

/** An error with the address in it, and in words where it is one that people meet; else as it came. */
export function unreached(error: unknown, connection: Connection, endpoint: URL): unknown {
  if (!(error instanceof Error) || !('code' in error) || typeof error.code !== 'string') return error;
  const words = wordsOf(error.code, error.message, connection, endpoint.hostname);
  return words === undefined ? error : new Error(`${endpoint.origin}: ${words} (${error.code})`, { cause: error });
}
