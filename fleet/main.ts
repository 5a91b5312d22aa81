/**
 * The reference fleet: three clusters, one pool of web nodes in each, three components on every node, and repair rules in Shadow. This file is what
 * `spec.entry` of the Fleet object names; it only names which files belong to the fleet, and their order does not matter.
 *
 * The stages that a change passes through (test, then pre, then prod) are not here but in the Fleet object in the hub: the rules by
 * which commits are judged must not come with a commit.
 */
import './clusters.ts';
import './nodes.ts';
import '../rules/defender.ts';
import '../rules/remedies.ts';
