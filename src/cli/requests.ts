import type { Clock } from '../api/ports.ts';
import type { ApiRequest, ApiResponse, Transport } from '../api/transport.ts';
import { isWatch } from '../kube/connect.ts';
import type { Metrics } from '../kube/metrics.ts';

const SECONDS = [0.01, 0.05, 0.2, 1, 5, 30];

/** Counts what goes through: `to` names the servers. A watch counts when it is opened, and has no time. */
export function countRequests(
  transport: Transport,
  to: 'own' | 'cells',
  { metrics, clock }: { metrics: Metrics; clock: Clock },
): Transport {
  const total = metrics.counter(
    'kubenode_api_requests_total',
    'Requests to API servers, by the code of the answer; code "none": no answer.',
  );
  const seconds = metrics.histogram('kubenode_api_request_seconds', 'Time until an API server began to answer.', SECONDS);
  return async (request: ApiRequest): Promise<ApiResponse> => {
    const method = isWatch(request) ? 'WATCH' : request.method;
    const begun = clock.monotonic();
    try {
      const response = await transport(request);
      total.add({ to, method, code: String(response.status) });
      if (method !== 'WATCH') seconds.observe({ to, method }, (clock.monotonic() - begun) / 1000);
      return response;
    } catch (error) {
      if (request.signal?.aborted !== true) total.add({ to, method, code: 'none' });
      throw error;
    }
  };
}
