/** URIs and mail addresses as Go's net/url and net/mail read them, which is how the real server checks these formats. */

const HEX = /^[0-9a-f]{2}$/i;

/** Every % begins an escape; in a host only bytes beyond ASCII may be escaped. */
function isEscaped(text: string, isHost: boolean): boolean {
  for (let at = text.indexOf('%'); at >= 0; at = text.indexOf('%', at + 1)) {
    const code = text.slice(at + 1, at + 3);
    if (!HEX.test(code)) return false;
    if (isHost && Number.parseInt(code, 16) < 0x80 && code !== '25') return false;
  }
  return true;
}

const HOST = /^[A-Za-z0-9\-_.~!$&'()*+,;=:[\]<>"%\u0080-\u{10ffff}]*$/u;
const USER = /^[A-Za-z0-9\-._:~!$&'()*+,;=%@]*$/;
const PORT = /^(?::\d*)?$/;

function isHost(host: string): boolean {
  if (!HOST.test(host) || !isEscaped(host, true)) return false;
  if (host.startsWith('[')) {
    const end = host.lastIndexOf(']');
    return end >= 0 && PORT.test(host.slice(end + 1));
  }
  const colon = host.lastIndexOf(':');
  return colon < 0 || PORT.test(host.slice(colon));
}

function isAuthority(authority: string): boolean {
  const at = authority.lastIndexOf('@');
  const user = at < 0 ? '' : authority.slice(0, at);
  return USER.test(user) && isEscaped(user, false) && isHost(authority.slice(at + 1));
}

/** An absolute URI, or an absolute path. */
export function isRequestUri(value: string): boolean {
  // oxlint-disable-next-line no-control-regex -- they are what the pattern matches
  if (value === '' || /[\u0000-\u001f\u007f]/.test(value) || value.startsWith(':')) return false;
  if (value === '*') return true;
  const scheme = /^[A-Za-z][A-Za-z0-9+\-.]*(?=:)/.exec(value)?.[0];
  const [rest = ''] = value.slice(scheme === undefined ? 0 : scheme.length + 1).split('?', 1);
  if (!rest.startsWith('/')) return scheme !== undefined;
  if (scheme === undefined || !rest.startsWith('//')) return isEscaped(rest, false);
  const slash = rest.indexOf('/', 2);
  const end = slash < 0 ? rest.length : slash;
  return isAuthority(rest.slice(2, end)) && isEscaped(rest.slice(end), false);
}

const ATEXT = String.raw`A-Za-z0-9!#$%&'*+\-/=?^_\x60{|}~\u0080-\u{10ffff}`;
const ATOM = `[${ATEXT}]+`;
const DOTTED = String.raw`${ATOM}(?:\.${ATOM})*`;
const QUOTED = String.raw`"(?:[^"\\\u0000-\u0008\u000a-\u001f\u007f]|\\[^\u0000-\u0008\u000a-\u001f\u007f])+"`;
const DOMAIN = String.raw`(?:${DOTTED}|\[[^\[\]\\\u0000-\u0020\u007f]+\])`;
const SPEC = `(?:${QUOTED}|${DOTTED})@[ \\t]*${DOMAIN}`;
const WORD = `(?:${QUOTED}|[${ATEXT}.]+)`;
const COMMENTS = String.raw`(?:[ \t]*\([^()\\]*\))*[ \t]*`;
const MAIL = new RegExp(`^[ \\t]*(?:${SPEC}|(?:${WORD}(?:[ \\t]+${WORD})*[ \\t]*)?<[ \\t]*${SPEC}>)${COMMENTS}$`, 'u');

/** Longer ones are refused, so that no text costs more to match than it is worth. */
const MAX_MAIL = 65_536;

/** One address, alone or after a name; groups of addresses are not read. */
export function isEmail(value: string): boolean {
  return value.length <= MAX_MAIL && MAIL.test(value);
}
