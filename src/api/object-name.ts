/** Forms of names that come from outside. Such a name becomes a part of a path only through `pathOf`, which refuses what is no segment. */

const PART = '[a-z0-9]([-a-z0-9]*[a-z0-9])?';
const LABEL = new RegExp(`^${PART}$`);
const SUBDOMAIN = new RegExp(String.raw`^${PART}(\.${PART})*$`);

/** RFC 1123: what a namespace and a pool may be called. */
export const isLabel = (name: string): boolean => name.length <= 63 && LABEL.test(name);

/** RFC 1123: what a Node, a Machine and most objects may be called. */
export const isSubdomain = (name: string): boolean => name.length <= 253 && SUBDOMAIN.test(name);

/** What any object may be called: a server, or something before it, reads everything else as another path. */
export const isPathSegment = (name: string): boolean => name !== '' && name !== '.' && name !== '..' && !/[/%]/.test(name);
