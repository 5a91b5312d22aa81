/**
 * The versions that run. A version bump is one line here, and its revert puts the nodes back. A version must be one that
 * `artifacts.lock.json` knows, with the digest of what nodes will fetch.
 */
import { localDetector, localKubelet, localRuntime } from './components.ts';

export const kubelet = localKubelet('1.0.0');
export const runtime = localRuntime('1.0.0');
export const detector = localDetector('1.0.0');
