/** What a component may set of its unit in systemd. Without the schemas of src/api: this runs on every node. */

export const SERVICE_TYPES = ['simple', 'exec', 'notify'] as const;
export const KILL_MODES = ['control-group', 'mixed', 'process'] as const;
export const RESTARTS = ['no', 'on-failure', 'on-abnormal', 'always'] as const;

/** No specifier, no template, nothing that a line of a unit file would take for more than one word. */
export const UNIT_NAME = '^[A-Za-z0-9:_.@-]{1,200}\\.(service|socket|target|mount|slice|path|timer|device)$';
export const SLICE_NAME = '^[A-Za-z0-9:_.-]{1,200}\\.slice$';
export const LIMIT = '^(infinity|[0-9]{1,18})$';
export const TASKS = '^(infinity|[0-9]{1,9}|[1-9][0-9]?%|100%)$';

/** Limit of each list of units. */
export const MAX_UNITS = 16;

/** Every field has systemd's own meaning, in systemd.service(5), .exec(5), .kill(5), .resource-control(5) and .unit(5). */
export interface SystemdSettings {
  type?: (typeof SERVICE_TYPES)[number];
  killMode?: (typeof KILL_MODES)[number];
  delegate?: boolean;
  restart?: (typeof RESTARTS)[number];
  restartSeconds?: number;
  startTimeoutSeconds?: number;
  oomScoreAdjust?: number;
  limitNOFILE?: string;
  limitNPROC?: string;
  limitCORE?: string;
  limitMEMLOCK?: string;
  tasksMax?: string;
  after?: string[];
  requires?: string[];
  wants?: string[];
  slice?: string;
}

/** Whole numbers and their bounds. */
export const NUMBERS = {
  restartSeconds: { minimum: 0, maximum: 3600 },
  startTimeoutSeconds: { minimum: 1, maximum: 3600 },
  oomScoreAdjust: { minimum: -1000, maximum: 1000 },
} as const;

/** The agent's own. A unit that requires it would stop with it. */
export const AGENT_UNIT = 'kubenode-agent.service';
