/**
 * Properties try the same random input in every run, so that a run which fails shows something about the change and not about luck.
 * `npm run test:long -- random` tries fresh input.
 */
import { configureGlobal } from 'fast-check';

if (process.env['KUBENODE_RANDOM'] !== 'fresh') configureGlobal({ seed: 20_261_122 });
