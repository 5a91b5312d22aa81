import { gitErrorCodes } from './errors.ts';
import { describe, expect, it } from 'vitest';
import { isCoded } from '../../api/errors.ts';
import fixture from './signed.fixture.json' with { type: 'json' };
import { parseAllowedSigners } from './signers.ts';

const [ed25519 = '', rsa = ''] = fixture.allowedSigners.map((line) => line.split(' ').slice(1).join(' '));

function problemsOf(text: string): string {
  try {
    parseAllowedSigners(text);
  } catch (error) {
    if (isCoded(error, gitErrorCodes, 'AllowedSigners')) return error.message;
    throw error;
  }
  throw new Error('was accepted');
}

describe('allowed signers', () => {
  it('are a name and a key a line, with comments and blank lines between', () => {
    const signers = parseAllowedSigners(`# the team\n\n  ada@example.com ${ed25519} Ada's laptop\nbob@example.com,bob@home ${rsa}\r\n`);
    expect(signers.map(({ line, principals, key }) => ({ line, principals, type: key.type }))).toEqual([
      { line: 3, principals: 'ada@example.com', type: 'ssh-ed25519' },
      { line: 4, principals: 'bob@example.com,bob@home', type: 'ssh-rsa' },
    ]);
  });

  it('take options in any case, with commas and blanks inside their quotes', () => {
    const [signer] = parseAllowedSigners(
      `"ada@example.com" Namespaces="git,file",valid-after="20260102Z",VALID-BEFORE="202701021504Z" ${ed25519}`,
    );
    expect(signer).toMatchObject({
      principals: 'ada@example.com',
      namespaces: ['git', 'file'],
      validAfter: Date.UTC(2026, 0, 2),
      validBefore: Date.UTC(2027, 0, 2, 15, 4),
    });
  });

  it('read times to the second', () => {
    expect(parseAllowedSigners(`a valid-before="20270102150405Z" ${ed25519}`)[0]?.validBefore).toBe(Date.UTC(2027, 0, 2, 15, 4, 5));
  });

  it('name every line that cannot be used', () => {
    expect(problemsOf(`ada\nbob ${ed25519}\ncarol ssh-dss AAAA`)).toMatch(/line 1: has a name and no key; line 3: .*ssh-dss/);
  });

  it.each([
    ['a time without Z, which each machine would read in its own', `a valid-before="20270102" ${ed25519}`, 'write 20270102Z for UTC'],
    ['a time that is none', `a valid-after="20270231Z" ${ed25519}`, '"20270231Z", which is no time'],
    ['an hour that is none', `a valid-after="202701012500Z" ${ed25519}`, 'which is no time'],
    [
      'an end before its beginning',
      `a valid-after="20270101Z",valid-before="20260101Z" ${ed25519}`,
      'ends (valid-before) before it begins',
    ],
    ['certificate authorities', `a cert-authority ${ed25519}`, 'cert-authority'],
    ['certificate authorities in capitals', `a namespaces="git",CERT-AUTHORITY ${ed25519}`, 'cert-authority'],
    ['options that are not known', `a no-touch-required ${ed25519}`, '"no-touch-required"; allowed are namespaces='],
    ['options without quotes', `a namespaces=git ${ed25519}`, 'namespaces=git'],
    ['an option twice', `a namespaces="git",namespaces="file" ${ed25519}`, 'has namespaces twice'],
    ['a quote that is not closed', `a namespaces="git ${ed25519}`, 'a quote that is not closed'],
    ['a line without a name', ed25519, 'has no name before the key'],
    ['a key cut short', `a ${ed25519.slice(0, -8)}`, 'the key ends too early'],
    ['a key that is not base64', `a ssh-ed25519 !!!!`, 'not plain base64'],
    ['a key of another type than its line names', `a ssh-rsa ${ed25519.split(' ')[1] ?? ''}`, 'names ssh-rsa, but the key is ssh-ed25519'],
    ['certificates', `a ssh-ed25519-cert-v01@openssh.com AAAA`, 'ssh-ed25519-cert-v01'],
    ['nothing at all', '# nobody\n', 'there is no key in it'],
  ])('refuse %s', (_, text, message) => {
    expect(problemsOf(text)).toContain(message);
  });

  it('never answer with anything but AllowedSigners, whatever the text', () => {
    for (let at = 0; at < ed25519.length; at += 1) {
      const text = `a namespaces="git" ${ed25519.slice(0, at)}\u00e9"${ed25519.slice(at)}`;
      expect(problemsOf(text)).toContain('line 1');
    }
  });
});
