import { errorsOf, isCoded, messageOf, surroundings, type CodedError, type CodeOf, type ErrorTable } from '../api/errors.ts';
import { PROVIDER_ERRORS } from '../api/provider.ts';

export type ProviderErrorCode = CodeOf<typeof PROVIDER_ERRORS>;

/** What an InfraProvider throws. Callers wait and repeat, except after `InvalidConfig`. */
export const providerError = errorsOf(PROVIDER_ERRORS);

/** What keeps the process that hosts local nodes from working. */
export const localErrorCodes = {
  HostRunning: surroundings('another process runs these nodes'),
  ProcessesLeft: surroundings('processes of a node do not end'),
} as const satisfies ErrorTable;

export const localError = errorsOf(localErrorCodes);

const BY_ERRNO: Record<string, ProviderErrorCode> = {
  EACCES: 'Unauthorized',
  EPERM: 'Unauthorized',
  EROFS: 'Unauthorized',
  ENOSPC: 'InsufficientCapacity',
  EDQUOT: 'QuotaExceeded',
  EMFILE: 'RateLimited',
  ENFILE: 'RateLimited',
};

/** Any failure as a provider's: coded ones as they are, errors of the system by their errno, all else `Unavailable`. */
export function asProviderError(error: unknown, doing: string): CodedError<ProviderErrorCode> {
  if (isCoded(error, PROVIDER_ERRORS)) return error;
  return providerError(BY_ERRNO[errnoOf(error) ?? ''] ?? 'Unavailable', `${doing}: ${messageOf(error)}`, { cause: error });
}

export function errnoOf(error: unknown): string | undefined {
  if (!(error instanceof Error) || !('code' in error)) return undefined;
  return typeof error.code === 'string' ? error.code : undefined;
}
