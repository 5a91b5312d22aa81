import { errorsOf, surroundings, type ErrorTable } from '../api/errors.ts';

/** What can be wrong on the way to an API server. */
export const kubeErrorCodes = {
  AnswerTooLarge: surroundings('the server sent more than was asked for at most'),
  BadDelay: surroundings('a time after which a key is to run that cannot be'),
  BadRequeue: surroundings('a result of a reconcile that cannot be'),
  BadResync: surroundings('a time between two resyncs that cannot be'),
  ConnectionInvalid: surroundings('an address or certificate of a server that cannot be used'),
  CredentialsExpired: surroundings('credentials that are not valid any more'),
  CredentialsFailed: surroundings('credentials that could not be obtained'),
  Disordered: surroundings('events of a watch in an order that cannot be'),
  EmptySelector: surroundings('a selector that selects nothing'),
  IndexTaken: surroundings('two indexes of one name'),
  KubeconfigAbsent: surroundings('no kubeconfig where one is needed'),
  KubeconfigInvalid: surroundings('a kubeconfig that cannot be used'),
  LeaseInvalid: surroundings('a Lease, or its times, that cannot be'),
  LeaseLost: surroundings('another process has the Lease'),
  LeaseOver: surroundings('the term is over'),
  LineTooLong: surroundings('a line of an answer that is too long'),
  LinesEmpty: surroundings('an answer without any line'),
  NameMissing: surroundings('a request for an object without its name'),
  NamespaceMissing: surroundings('a request for a namespaced object without its namespace'),
  NoContext: surroundings('no context of this name in the kubeconfig'),
  NothingWatched: surroundings('a controller that watches no store'),
  RequestTimeout: surroundings('no whole answer in time'),
  ServerTimeUnknown: surroundings('the time of the server is not known'),
  ShortWatch: surroundings('a watch that the server ended at once'),
  Stalled: surroundings('something that does not go on'),
  StoreTaken: surroundings('two stores of one kind with different options'),
  StoreTooLarge: surroundings('more content than a store may keep'),
  TlsNotVerified: surroundings('a kubeconfig that leaves the certificate of its server unchecked'),
  Truncated: surroundings('an answer that ended before its end'),
  UnknownIndex: surroundings('an index that the store does not have'),
  Unreachable: surroundings('no answer'),
} as const satisfies ErrorTable;

export const kubeError = errorsOf(kubeErrorCodes);

/** Codes of an `ApiError`, of those that the server may give: its reasons. */
export const answerCodes = {
  AlreadyExists: surroundings('there is an object of this name'),
  BadRequest: surroundings('a request that the server does not understand'),
  Conflict: surroundings('the object was changed meanwhile'),
  Invalid: surroundings('an object that its schema or its rules refuse'),
  NotFound: surroundings('there is no such object'),
} as const satisfies ErrorTable;
