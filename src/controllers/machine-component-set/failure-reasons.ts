/** Reason of a failure that the machine may still disprove by coming back (docs/protocols.md#b6). */
export const AGENT_STALE = 'AgentStale';
