/** Reason of a failure that the machine may still disprove by coming back (PROTOCOLS B6). */
export const AGENT_SILENT = 'AgentSilent';
