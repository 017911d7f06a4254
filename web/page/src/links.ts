// The table of paths: a row for each link to each peer, with the button that drains or resumes it.

import type { Bundle } from "./bundle";
import { swatch } from "./colours";
import { h, say, set } from "./dom";
import { duration, percent, rate } from "./format";
import type { Path, Peer, ShownPath } from "./types";

const COLUMNS = ["Link", "State", "Sending", "Receiving", "Share", "Round trip", "Lost", "Limited by"] as const;
/** Loss from this share on is worth a look, in percent; `tabane status` marks the same. */
const LOSS = 1;

export class Links {
  private readonly body = h("div", { class: "peers" });
  private readonly peers = new Map<string, Table>();
  readonly element = h(
    "section",
    { class: "card", "aria-labelledby": "links-title" },
    h("h2", { id: "links-title" }, "Links"),
    this.body,
  );

  constructor(private readonly drain: ((nic: string, drained: boolean) => void) | null) {}

  update(bundle: Bundle): void {
    const peers = bundle.status?.peers ?? [];
    for (const [node, table] of this.peers) {
      if (!peers.some((peer) => peer.node === node)) {
        table.element.remove();
        this.peers.delete(node);
      }
    }
    for (const peer of peers) {
      let table = this.peers.get(peer.node);
      if (!table) {
        table = new Table(this.drain);
        this.peers.set(peer.node, table);
        this.body.append(table.element);
      }
      table.update(bundle, peer);
    }
    set(this.element, { "data-empty": peers.length === 0 });
  }
}

/** The paths to one peer. */
class Table {
  private readonly title = h("caption");
  private readonly rows = h("tbody", { role: "rowgroup" });
  private readonly known = new Map<number, Row>();
  readonly element: HTMLElement;

  constructor(private readonly drain: ((nic: string, drained: boolean) => void) | null) {
    const head = COLUMNS.map((name, place) =>
      h("th", { scope: "col", role: "columnheader", class: place > 1 && place < 7 ? "figure" : undefined }, name),
    );
    if (drain) head.push(h("th", { scope: "col", role: "columnheader" }, h("span", { class: "unseen" }, "Action")));
    const row = h("tr", { role: "row" }, ...head);
    this.element = h("table", { role: "table" }, this.title, h("thead", { role: "rowgroup" }, row), this.rows);
  }

  update(bundle: Bundle, peer: Peer): void {
    say(this.title, `to ${peer.name} (${peer.node})`);
    for (const [link, row] of this.known) {
      if (!peer.paths.some((path) => path.link === link)) {
        row.element.remove();
        this.known.delete(link);
      }
    }
    for (const path of peer.paths) {
      let row = this.known.get(path.link);
      if (!row) {
        row = new Row(path, this.drain);
        this.known.set(path.link, row);
        this.rows.append(row.element);
      }
      row.update(path, bundle.path(peer.node, path.link), bundle.gone !== null);
    }
  }
}

class Row {
  private readonly state = h("span", { class: "state" });
  private readonly figures = COLUMNS.slice(2, 7).map((name) => cell(name, "figure"));
  private readonly limit = cell("Limited by", "limit");
  private readonly button = h("button", { type: "button" });
  private drained = false;
  readonly element: HTMLElement;

  constructor(path: Path, drain: ((nic: string, drained: boolean) => void) | null) {
    const name = h("th", { scope: "row", role: "rowheader", class: "nic" }, swatch(path.link), path.nic);
    const state = cell("State");
    state.append(this.state);
    this.element = h("tr", { role: "row" }, name, state, ...this.figures, this.limit);
    if (drain) {
      const action = cell("Action", "action");
      action.append(this.button);
      this.element.append(action);
      this.button.addEventListener("click", () => drain(path.nic, !this.drained));
    }
  }

  update(path: Path, words: ShownPath | undefined, gone: boolean): void {
    const state = words?.state ?? "down";
    say(this.state, gone ? "unknown" : state);
    set(this.state, { "data-state": gone ? "unknown" : state });
    set(this.element, { "data-nic": path.nic });
    const [sent, received, share, rtt, lost] = this.figures;
    say(sent!, gone ? "–" : rate(words?.sent_bps));
    say(received!, gone ? "–" : rate(words?.received_bps));
    say(share!, gone ? "–" : percent(words?.share_percent));
    say(rtt!, gone ? "–" : duration(path.rtt_us));
    say(lost!, gone ? "–" : percent(path.loss_percent, 1));
    set(lost!, { "data-much": path.loss_percent >= LOSS });
    say(this.limit, gone || !words || words.limited_by === "-" ? "–" : words.limited_by);
    this.drained = path.tx === "drained";
    const verb = this.drained ? "Resume" : "Drain";
    say(this.button, verb);
    set(this.button, { "aria-label": `${verb} ${path.nic}` });
    this.button.disabled = gone;
  }
}

function cell(name: string, kind = ""): HTMLElement {
  return h("td", { role: "cell", class: kind || undefined, "data-name": name });
}
