/**
 * Whether a request for a certificate is approved: pure. Nothing else checks what a signer of Kubernetes puts into a client certificate. So everything in the
 * request must equal what is expected; nothing is allowed besides (docs/protocols.md#g1, #g4).
 */
import { AGENT_USAGES, IDENTITY_SECONDS, requesterOf, SIGNERS, vouchedText, type MachineKey, type Requester } from '../../api/admission.ts';
import { AGENTS, agentUser } from '../../api/identity.ts';
import type { Bootstrap } from '../../api/machine.ts';
import { rfc3339 } from '../../kube/clock.ts';
import { deny, isSet, type Asked, type RequesterFacts, type SigningVerdict } from './asked.ts';
import { decideKubelet } from './kubelet.ts';
import { kindOfKey, type SigningRequest } from './signing-request.ts';
import { isVouched } from './voucher.ts';

const LEAVE: SigningVerdict = { do: 'Leave' };

/** What a request claims that no other approver may be left to approve. */
function claimsAgent(request: Asked['request']): boolean {
  return 'subject' in request && request.subject.some(({ value }) => value.toLowerCase().startsWith('kubenode:'));
}

export function decide(asked: Asked, known: RequesterFacts): SigningVerdict {
  if (asked.signerName === SIGNERS.client) return decideAgent(asked, known);
  if (asked.signerName === SIGNERS.kubeletClient || asked.signerName === SIGNERS.kubeletServing) return decideKubelet(asked, known);
  return LEAVE;
}

function decideAgent(asked: Asked, { machine, nowMs }: RequesterFacts): SigningVerdict {
  const requester = requesterOf(asked.username);
  const claimed = claimsAgent(asked.request);
  if (requester === undefined)
    return claimed ? deny('ForeignRequester', `${asked.username} is no agent and asks for the identity of one`) : LEAVE;
  // A ServiceAccount of something else may have such a name.
  const ours = claimed || requester.kind === 'Certificate';
  const who = `${requester.namespace}/${requester.name}`;
  if (machine === undefined) return ours ? deny('NoMachine', `there is no Machine ${who}`) : LEAVE;
  const bootstrap = machine.status?.bootstrap;
  if (requester.kind === 'Bootstrap' && (bootstrap === undefined || bootstrap.accountUID !== asked.userUID))
    return ours ? deny('TokenOutdated', `this token is of no admission of Machine ${who} that is open; it was replaced`) : LEAVE;
  if (machine.metadata.deletionTimestamp !== undefined) return deny('MachineDeleting', `Machine ${who} is being deleted`);
  if ('unreadable' in asked.request) return deny('RequestUnreadable', `the request cannot be read: ${asked.request.unreadable}`);
  const wrong = errorIn(asked, asked.request, requester);
  if (wrong !== undefined) return deny('RequestInvalid', wrong);
  if (bootstrap === undefined) return deny('NotAdmitted', `Machine ${who} was never admitted`);
  return requester.kind === 'Bootstrap'
    ? admission(asked, asked.request, bootstrap, nowMs)
    : renewal(asked, asked.request, bootstrap, requester, nowMs);
}

/** The first thing in which a request is not exactly what an agent's has to be. */
function errorIn(asked: Asked, request: SigningRequest, requester: MachineKey): string | undefined {
  const expected = [
    { type: 'O', value: AGENTS },
    { type: 'CN', value: agentUser(requester.namespace, requester.name) },
  ];
  const { subject, names, others, key } = request;
  for (const { type, value } of expected) {
    const found = subject.filter((each) => each.type === type).map((each) => each.value);
    if (found.length !== 1 || found[0] !== value) return `${type} must be ${value} and no other, not ${found.join(', ') || 'nothing'}`;
  }
  const strange = subject.find(({ type }) => type !== 'O' && type !== 'CN');
  if (strange !== undefined) return `the subject has an attribute ${strange.type} besides CN and O`;
  if (names.length > 0) return `it asks for the alternative names ${names.map(({ value }) => value).join(', ')}; there must be none`;
  if (others.length > 0) return `it asks for extensions or attributes ${others.join(', ')}; there must be none`;
  if (!isSet(asked.usages, AGENT_USAGES)) return `usages must be exactly ${AGENT_USAGES.join(', ')}, not ${asked.usages.join(', ')}`;
  if (kindOfKey(key) !== 'ECDSA P-256') return `its key must be ECDSA P-256, not ${kindOfKey(key)}`;
  const { least, most } = IDENTITY_SECONDS;
  const seconds = asked.expirationSeconds;
  if (seconds === undefined || seconds < least || seconds > most)
    return `spec.expirationSeconds must be ${least} to ${most}, not ${seconds ?? 'absent'}`;
  if (requesterOf(asked.username)?.kind === 'Certificate' && !asked.groups.includes(AGENTS))
    return `${asked.username} is not in group ${AGENTS}`;
  return undefined;
}

/** One request in an epoch. It is recorded first: what was recorded before a crash is approved after it. */
function admission(asked: Asked, { keySHA256 }: SigningRequest, bootstrap: Bootstrap, nowMs: number): SigningVerdict {
  const { epoch, accountUID, tokenUntil, csrUID } = bootstrap;
  const admitted = { do: 'Approve', reason: 'Admitted', message: `admitted in epoch ${epoch}` } as const;
  if (csrUID === asked.uid) return admitted;
  if (csrUID !== undefined)
    return deny('TokenUsed', `the token of epoch ${epoch} has admitted another request (UID ${csrUID}); it admits one`);
  return {
    ...admitted,
    record: { epoch, accountUID, tokenUntil, csrUID: asked.uid, keySHA256, by: 'Certificate', until: endOf(asked, nowMs) },
  };
}

/**
 * By the identity itself. A certificate shows neither its epoch nor to which of two Machines of one name it belongs. The key shows both: it is the recorded one,
 * or the recorded one vouches for it.
 */
function renewal(asked: Asked, request: SigningRequest, bootstrap: Bootstrap, requester: Requester, nowMs: number): SigningVerdict {
  const { epoch, keySHA256, formerKeySHA256, by } = bootstrap;
  if (keySHA256 === undefined) return deny('NotAdmitted', `epoch ${epoch} is open: the node has to be admitted again`);
  if (requester.kind === 'Token' && by !== 'Token')
    return deny('NotByToken', 'this machine was admitted with a certificate; its ServiceAccount is no identity');
  const record: Bootstrap = { ...bootstrap, until: endOf(asked, nowMs) };
  // With a certificate in use the token that stood for it is over.
  if (requester.kind === 'Certificate') record.by = 'Certificate';
  const renewed = { do: 'Approve', reason: 'Renewed', message: `renewed in epoch ${epoch}` } as const;
  if (request.keySHA256 === keySHA256) return { ...renewed, record };
  const accepted = [keySHA256, ...(formerKeySHA256 === undefined ? [] : [formerKeySHA256])];
  const voucher = isVouched(asked.voucher, vouchedText(request.der), accepted);
  if (voucher === undefined)
    return deny('KeyUnknown', `the key is neither the one that was admitted in epoch ${epoch} nor vouched for by it`);
  // An agent that vouches with its former key never got the certificate of the newer one: it goes on with what it has.
  return { ...renewed, record: { ...record, keySHA256: request.keySHA256, formerKeySHA256: voucher } };
}

const endOf = (asked: Asked, nowMs: number): string => rfc3339(nowMs + (asked.expirationSeconds ?? 0) * 1000);
