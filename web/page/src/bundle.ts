// What the page knows of a bundle: its last status, the figures of the last two minutes, and its events.

import type { Entry, Message, Shown, ShownPath, Status } from "./types";

/** Seconds that charts show, as soon as so much is known, and before that. */
export const WINDOW = 120;
const WINDOW_LEAST = 30;
/** Events that are kept, as many as a bundle keeps. */
const EVENTS = 256;

/** The figures of one moment. Where a link leads to several peers, rates are added up and of the rest the largest counts. */
export interface Sample {
  /** Seconds since 1970. */
  at: number;
  links: Map<number, LinkSample>;
  /** Cells that wait for those before them. */
  waiting: number;
}

export interface LinkSample {
  sent: number | null;
  received: number | null;
  rtt: number | null;
  loss: number | null;
  share: number | null;
  state: ShownPath["state"];
}

/** The order of states from good to bad. */
const STATES: ShownPath["state"][] = ["up", "drained", "suspect", "in only", "out only", "down"];

export function worse(one: ShownPath["state"], other: ShownPath["state"]): ShownPath["state"] {
  return STATES.indexOf(one) >= STATES.indexOf(other) ? one : other;
}

export class Bundle {
  status: Status | null = null;
  shown: Shown | null = null;
  /** Why there is no status now. */
  gone: string | null = null;
  samples: Sample[] = [];
  events: Entry[] = [];

  constructor(readonly name: string) {}

  take(message: Message): void {
    if (message.kind === "events") {
      if (message.anew) this.events = [];
      this.events = this.events.concat(message.events).slice(-EVENTS);
    } else if (message.kind === "gone") {
      this.gone = message.reason;
    } else if (message.kind === "status") {
      this.gone = null;
      this.status = message.status;
      this.shown = message.shown;
      this.samples.push(sample(message.status, message.shown));
      const oldest = Date.now() / 1000 - WINDOW - 2;
      while (this.samples.length > 0 && this.samples[0]!.at < oldest) this.samples.shift();
    }
  }

  /** The seconds since 1970 at which charts begin and end. */
  span(): [number, number] {
    const now = Date.now() / 1000;
    const known = now - (this.samples[0]?.at ?? now);
    return [now - Math.min(WINDOW, Math.max(WINDOW_LEAST, known)), now];
  }

  /** The words and rates of a path. */
  path(peer: string, link: number): ShownPath | undefined {
    return this.shown?.paths.find((path) => path.peer === peer && path.link === link);
  }

  /** The name of a link that an event names, which numbers the peer's own links when it receives. */
  nic(entry: Entry): { nic: string; link: number } | null {
    if (entry.link === undefined) return null;
    const paths = this.status?.peers.find((peer) => peer.node === entry.peer)?.paths ?? [];
    const ours = entry.direction !== "receiving";
    const path = paths.find((path) => (ours ? path.link : path.peer_link) === entry.link);
    if (path) return { nic: path.nic, link: path.link };
    const link = ours ? this.status?.links.find((link) => link.link === entry.link) : undefined;
    const nic = link?.nic ?? entry.nic;
    return nic ? { nic, link: entry.link } : null;
  }
}

function sample(status: Status, shown: Shown): Sample {
  const links = new Map<number, LinkSample>();
  for (const peer of status.peers) {
    for (const path of peer.paths) {
      const words = shown.paths.find((one) => one.peer === peer.node && one.link === path.link);
      const before = links.get(path.link);
      const state = words?.state ?? "down";
      links.set(path.link, {
        sent: sum(before?.sent, words?.sent_bps),
        received: sum(before?.received, words?.received_bps),
        rtt: larger(before?.rtt, path.rtt_us),
        loss: larger(before?.loss, path.loss_percent),
        share: null,
        state: before ? worse(before.state, state) : state,
      });
    }
  }
  const all = [...links.values()].reduce((total, link) => total + (link.sent ?? 0), 0);
  for (const link of links.values()) {
    link.share = link.sent === null || all === 0 ? null : (link.sent * 100) / all;
  }
  const waiting = status.peers.reduce((total, peer) => total + peer.reorder_cells, 0);
  return { at: Date.now() / 1000, links, waiting };
}

function sum(one: number | null | undefined, other: number | null | undefined): number | null {
  return one == null ? (other ?? null) : one + (other ?? 0);
}

function larger(one: number | null | undefined, other: number | null | undefined): number | null {
  return one == null ? (other ?? null) : Math.max(one, other ?? 0);
}
