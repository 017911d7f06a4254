// The mesh as this node sees it: itself, the peers, and a curve for each path. A curve is as thick as what it carries.

import type { Bundle } from "./bundle";
import { colourName, dashes } from "./colours";
import { h, s, set } from "./dom";
import { rate } from "./format";
import type { Path, ShownPath } from "./types";

const NODE = { width: 88, height: 40 };
/** Space between the curves to one peer, where there is so much. */
const GAP = 34;
const MARGIN = 14;
/** Up to so many curves are named; the table names all. */
const NAMED = 16;

export class Topology {
  private readonly drawing = s("svg", { role: "img", "aria-labelledby": "mesh-title" });
  private readonly title = s("title", { id: "mesh-title" });
  private readonly layer = s("g");
  private drawn = "";
  readonly element = h(
    "section",
    { class: "card mesh", "aria-label": "Topology" },
    h("h2", {}, "Topology"),
    h("div", { class: "drawing" }),
  );

  constructor() {
    this.drawing.append(this.title, this.layer);
    this.element.lastElementChild!.append(this.drawing);
  }

  update(bundle: Bundle): void {
    const { status } = bundle;
    if (!status) return;
    const width = Math.max(280, Math.floor(this.element.lastElementChild!.clientWidth));
    const heights = status.peers.map((peer) => Math.max(NODE.height + MARGIN, peer.paths.length * GAP + MARGIN));
    const height = Math.max(96, heights.reduce((sum, one) => sum + one, MARGIN));
    const parts: SVGElement[] = [];
    const words: string[] = [];
    let top = MARGIN / 2;
    status.peers.forEach((peer, place) => {
      const middle = top + heights[place]! / 2;
      const named = status.peers.length * peer.paths.length <= NAMED;
      peer.paths.forEach((path, number) => {
        const shown = bundle.path(peer.node, path.link);
        const state = bundle.gone !== null ? "unknown" : (shown?.state ?? "down");
        words.push(`${path.nic} to ${peer.name}: ${state}`);
        const at = middle + (number - (peer.paths.length - 1) / 2) * GAP;
        parts.push(...curve(path, shown, state, named, width, height / 2, middle, at));
      });
      parts.push(node(width - NODE.width, middle, peer.name, "peer"));
      top += heights[place]!;
    });
    parts.push(node(0, height / 2, "this node", "own"));
    set(this.drawing, { viewBox: `0 0 ${width} ${height}`, width, height });
    // What is drawn anew at each status would flicker in developer tools and screen readers alike.
    const text = parts.map((part) => part.outerHTML).join("");
    if (text === this.drawn) return;
    this.drawn = text;
    this.layer.replaceChildren(...parts);
    this.title.textContent = status.peers.length === 0 ? "No peer" : `Paths: ${words.join(", ")}`;
  }
}

function node(left: number, middle: number, name: string, kind: string): SVGElement {
  const { width, height } = NODE;
  const box = s("rect", { x: left + 1, y: middle - height / 2, width: width - 2, height, rx: 8 });
  const short = name.length > 11 ? `${name.slice(0, 10)}…` : name;
  const text = s("text", { x: left + width / 2, y: middle, "text-anchor": "middle", "dominant-baseline": "central" }, short);
  return s("g", { class: `node ${kind}` }, box, text);
}

function curve(
  path: Path,
  shown: ShownPath | undefined,
  state: string,
  named: boolean,
  width: number,
  from: number,
  to: number,
  at: number,
): SVGElement[] {
  const [left, right] = [NODE.width, width - NODE.width];
  // From this node into the path's own height, and from there into the peer's box.
  const [wide, short] = [Math.min(72, (right - left) / 3), Math.min(36, (right - left) / 6)];
  const spread = Math.max(-14, Math.min(14, at - to)) * 0.8;
  const d = `M${left} ${from + spread} C${left + wide / 2} ${from + spread} ${left + wide / 2} ${at} ${left + wide} ${at} `
    + `H${right - short} C${right - short / 2} ${at} ${right - short / 2} ${to + spread} ${right} ${to + spread}`;
  const middle = (left + wide + right - short) / 2;
  const carried = (shown?.sent_bps ?? 0) + (shown?.received_bps ?? 0);
  const full = path.rate_bps ?? 0;
  const part = full > 0 ? Math.min(1, carried / full) : carried > 0 ? 0.4 : 0;
  const works = state === "up" || state === "drained" || state === "suspect";
  const line = s("path", {
    d,
    class: `path link ${colourName(path.link).slice(2)}`,
    "data-state": state,
    "stroke-width": works ? (2 + Math.round(part * 12) / 2).toFixed(1) : "2",
    "stroke-dasharray": works ? dashes(path.link).join(" ") || undefined : "2 6",
  });
  const parts: SVGElement[] = [line];
  if (named) {
    const words = state === "up" ? rate(carried) : state;
    const text = s("text", { x: middle, y: at - 9, "text-anchor": "middle", class: "label" });
    text.append(s("tspan", { class: "nic" }, path.nic), ` ${words}`);
    parts.push(text);
  }
  if (!works && state !== "unknown") {
    const [x, y, arm] = [middle, at, 5];
    const d = `M${x - arm} ${y - arm}L${x + arm} ${y + arm}M${x + arm} ${y - arm}L${x - arm} ${y + arm}`;
    parts.push(s("path", { class: "cross", d }));
  }
  return parts;
}

