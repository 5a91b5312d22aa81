/**
 * The repair rules, one file each: how an unhealthy node is recognized, what is tried, and what proves that it helped. All of them are in
 * Shadow: they report what they would do, and do nothing. Enforcing one is a commit of one line, `mode: 'Enforce'`, after a review of what it reported.
 *
 * Each rule has recorded histories under `histories/<rule>/`, which `kubenode rules test` and `npm test` replay. `docs/rules.md` describes what
 * to do when a rule asks a human.
 *
 * Priorities: of two rules that match one machine the higher acts. A rule that knows the cause goes before one that only sees an effect:
 * 300 the kernel, 200 the file system, 100 one service, 0 an unknown cause.
 */
import './kernel-deadlock.ts';
import './hung-kernel-task.ts';
import './readonly-filesystem.ts';
import './disk-watermark.ts';
import './runtime-unhealthy.ts';
import './runtime-restarting.ts';
import './kubelet-unhealthy.ts';
import './not-ready.ts';
