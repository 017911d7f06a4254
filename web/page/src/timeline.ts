// The time line: when each link worked in the last two minutes, and what happened.

import type { Bundle, LinkSample } from "./bundle";
import { colourName, swatch } from "./colours";
import { h, s, say, set } from "./dom";
import { clock } from "./format";
import type { Entry } from "./types";

/** Events that are listed, the latest ones. */
const LISTED = 60;
const LANE = 22;

export class TimeLine {
  private readonly drawing = s("svg", { role: "img", "aria-labelledby": "lanes-title", class: "lanes" });
  private readonly title = s("title", { id: "lanes-title" });
  private readonly layer = s("g");
  private readonly list = h("ol", { class: "events" });
  private readonly none = h("p", { class: "none" }, "Nothing has happened yet.");
  private listed = "";
  readonly element = h(
    "section",
    { class: "card time-line", "aria-labelledby": "events-title" },
    h("h2", { id: "events-title" }, "Events"),
    h("div", { class: "drawing" }, this.drawing),
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "List of events" }, this.none, this.list),
  );

  constructor() {
    this.drawing.append(this.title, this.layer);
  }

  update(bundle: Bundle): void {
    this.draw(bundle);
    const last = bundle.events.at(-1);
    const listed = `${bundle.name} ${bundle.status?.pid} ${bundle.events.length} ${last?.number} ${last?.time}`;
    if (listed === this.listed) return;
    this.listed = listed;
    this.none.hidden = bundle.events.length > 0;
    this.list.replaceChildren(...bundle.events.slice(-LISTED).reverse().map((entry) => item(bundle, entry)));
  }

  /** A lane for each link: a bar while it worked, a hatched one while it did not. */
  private draw(bundle: Bundle): void {
    const links = bundle.status?.links ?? [];
    const width = Math.max(280, this.drawing.parentElement!.clientWidth);
    const height = Math.max(LANE, links.length * LANE);
    const [begin, end] = bundle.span();
    const name = 74;
    const x = (at: number): number => name + (Math.max(0, at - begin) * (width - name)) / (end - begin);
    set(this.drawing, { viewBox: `0 0 ${width} ${height}`, width, height });
    const parts: SVGElement[] = [];
    links.forEach(({ link, nic }, place) => {
      const middle = place * LANE + LANE / 2;
      parts.push(s("text", { x: 0, y: middle, "dominant-baseline": "central" }, nic.length > 10 ? `${nic.slice(0, 9)}…` : nic));
      for (const span of spans(bundle, link)) {
        const [from, to] = [x(span.from), x(span.to)];
        const works = span.state === "up";
        parts.push(s("rect", {
          x: from.toFixed(1),
          y: middle - (works ? 3 : 5),
          width: Math.max(1.5, to - from).toFixed(1),
          height: works ? 6 : 10,
          rx: 2,
          class: works ? `lane ${colourName(link).slice(2)}` : "lane fault",
          "data-state": span.state,
        }));
      }
    });
    this.layer.replaceChildren(...parts);
    const states = links.map(({ link, nic }) => `${nic} ${bundle.samples.at(-1)?.links.get(link)?.state ?? "unknown"}`);
    say(this.title, `When links worked in the last two minutes. Now: ${states.join(", ")}`);
  }
}

/** The times in which a link had one state. */
function spans(bundle: Bundle, link: number): { from: number; to: number; state: LinkSample["state"] }[] {
  const found: { from: number; to: number; state: LinkSample["state"] }[] = [];
  for (const sample of bundle.samples) {
    const state = sample.links.get(link)?.state;
    const last = found.at(-1);
    // Samples come each quarter of a second; where none came, nothing is known.
    const goesOn = last && sample.at - last.to < 1.5;
    if (goesOn) last.to = sample.at;
    if (state && (!goesOn || last.state !== state)) found.push({ from: sample.at, to: sample.at, state });
  }
  return found;
}

const BAD = ["link-down", "link-suspect", "peer-left", "peer-refused", "peer-expired", "nic-gone", "stranger"];
const GOOD = ["link-up", "link-trusted", "link-resumed", "peer-joined", "nic-back"];

function item(bundle: Bundle, entry: Entry): HTMLElement {
  const named = bundle.nic(entry);
  const peer = bundle.status?.peers.find((peer) => peer.node === entry.peer);
  const kind = BAD.includes(entry.what) ? "bad" : GOOD.includes(entry.what) ? "good" : "plain";
  const what = h("span", { class: "what" }, entry.what);
  const link = h("span", { class: "nic" });
  if (named) link.append(swatch(named.link), named.nic);
  const detail = h("span", { class: "detail" }, peer && !entry.what.startsWith("peer-") ? `${peer.name}: ${entry.detail}` : entry.detail);
  return h("li", { "data-kind": kind }, h("time", { datetime: entry.time }, clock(entry.time)), what, link, detail);
}
