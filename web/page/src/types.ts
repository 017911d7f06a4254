// What the server says: docs/status.schema.json, and what web/src/shown.rs and web/src/live.rs add.

export type PathState = "up" | "suspect" | "drained" | "down";

export interface Health {
  state: "healthy" | "degraded" | "no-peer";
  redundancy_lost: boolean;
  since: string | null;
  summary: string;
}

export interface Path {
  link: number;
  peer_link: number | null;
  nic: string;
  endpoint: string;
  tx: PathState;
  rx: PathState;
  rtt_us: number | null;
  rate_bps: number | null;
  queued_bytes: number;
  loss_percent: number;
}

export interface Peer {
  node: string;
  name: string;
  reorder_cells: number;
  reorder_timeout_us: number | null;
  paths: Path[];
}

export interface Link {
  link: number;
  nic: string;
  kind: string;
  carrier: boolean;
}

export interface Entry {
  number: number;
  time: string;
  what: string;
  peer?: string;
  link?: number;
  nic?: string;
  direction?: "sending" | "receiving";
  signal?: string;
  detail: string;
}

export interface Status {
  health: Health;
  name: string;
  pid: number;
  node: string;
  policy: string;
  security: string;
  mtu: number;
  links: Link[];
  peers: Peer[];
  changed_by_hand: string[];
}

/** The words and rates of a path. */
export interface ShownPath {
  peer: string;
  link: number;
  state: "up" | "suspect" | "drained" | "in only" | "out only" | "down";
  sent_bps: number | null;
  received_bps: number | null;
  share_percent: number | null;
  limited_by: string;
}

export interface Shown {
  word: string;
  paths: ShownPath[];
}

export interface Overview {
  version: string;
  actions: boolean;
  policies: string[];
  bundles: { name: string; health: Health | null; error: string | null }[];
}

export type Message =
  | { kind: "bundles"; names: string[] }
  | { kind: "status"; bundle: string; status: Status; shown: Shown }
  | { kind: "gone"; bundle: string; reason: string }
  | { kind: "events"; bundle: string; anew: boolean; events: Entry[] };
