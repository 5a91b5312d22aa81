import { CodedError, isCoded, messageOf } from '../api/errors.ts';
import { PROVIDER_ERRORS } from '../api/provider.ts';

export type ProviderErrorCode = (typeof PROVIDER_ERRORS)[number];

/** What an InfraProvider throws. Callers wait and repeat, save after `InvalidConfig`. */
export function providerError(code: ProviderErrorCode, message: string, options: { cause?: unknown; next?: string } = {}): CodedError {
  return new CodedError(code, message, options);
}

const BY_ERRNO: Record<string, ProviderErrorCode> = {
  EACCES: 'Unauthorized',
  EPERM: 'Unauthorized',
  EROFS: 'Unauthorized',
  ENOSPC: 'InsufficientCapacity',
  EDQUOT: 'QuotaExceeded',
  EMFILE: 'RateLimited',
  ENFILE: 'RateLimited',
};

/** Any failure as a provider's: coded ones as they are, what the system said by its errno, all else `Unavailable`. */
export function asProviderError(error: unknown, doing: string): CodedError {
  if (isCoded(error, ...PROVIDER_ERRORS)) return error;
  return providerError(BY_ERRNO[errnoOf(error) ?? ''] ?? 'Unavailable', `${doing}: ${messageOf(error)}`, { cause: error });
}

export function errnoOf(error: unknown): string | undefined {
  if (!(error instanceof Error) || !('code' in error)) return undefined;
  return typeof error.code === 'string' ? error.code : undefined;
}
