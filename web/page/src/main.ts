// The page: it follows what its server tells, keeps the last two minutes of it, and draws it.

import "uplot/dist/uPlot.min.css";
import "./page.css";
import { follow, keepToken, overview, Refused, setDrained, setPolicy, takeToken } from "./api";
import { Bundle } from "./bundle";
import { Charts } from "./charts";
import { at, h, say, set } from "./dom";
import { Links } from "./links";
import { themeSwitch } from "./theme";
import { TimeLine } from "./timeline";
import { Topology } from "./topology";
import type { Message, Overview } from "./types";
import { Verdict } from "./verdict";

/** Milliseconds before the page asks again for a server that is gone. */
const AGAIN = 1000;
/** Milliseconds of silence after which what is shown is called old. */
const SILENT = 3000;
/** Milliseconds for which an answer stands on the page. */
const SAID = 6000;

class Page {
  private readonly bundles = new Map<string, Bundle>();
  private names: string[] = [];
  private chosen: string | null = null;
  private readonly verdict: Verdict;
  private readonly links: Links;
  private readonly topology = new Topology();
  private readonly charts = new Charts();
  private readonly timeLine = new TimeLine();
  private readonly view: HTMLElement;
  private readonly none = h(
    "section",
    { class: "card empty" },
    h("h1", {}, "No bundle is up on this machine"),
    h("p", {}, "It appears here as soon as one is."),
  );
  private due = false;
  private heard = Date.now();

  constructor(can: Overview) {
    const drain = can.actions ? (nic: string, drained: boolean) => void this.drain(nic, drained) : null;
    this.verdict = new Verdict(can.policies, can.actions, (policy) => void this.switch(policy));
    this.links = new Links(drain);
    const upper = h("div", { class: "columns" }, this.links.element, this.topology.element);
    this.view = h("div", { class: "view" }, this.verdict.element, upper, this.charts.element, this.timeLine.element);
    at("main").replaceChildren(this.none, this.view);
    addEventListener("resize", () => this.draw());
    document.addEventListener("visibilitychange", () => this.draw());
    this.show();
  }

  /** Colours are others. */
  recolour(): void {
    this.charts.reset();
    this.draw();
  }

  take(message: Message): void {
    this.heard = Date.now();
    if (message.kind === "bundles") {
      this.names = message.names;
    } else {
      const bundle = this.bundles.get(message.bundle) ?? new Bundle(message.bundle);
      this.bundles.set(message.bundle, bundle);
      bundle.take(message);
    }
    this.draw();
  }

  /** Whether the server has told nothing for a while although a bundle is chosen. */
  isSilent(): boolean {
    return this.chosen !== null && Date.now() - this.heard > SILENT;
  }

  /** Draws what is known, once before the screen shows its next picture; a page that nobody sees is not drawn. */
  private draw(): void {
    if (this.due || document.hidden) return;
    this.due = true;
    requestAnimationFrame(() => {
      this.due = false;
      this.show();
    });
  }

  private show(): void {
    const names = [...new Set([...this.names, ...this.bundles.keys()])].sort();
    if (this.chosen === null || !names.includes(this.chosen)) this.chosen = names[0] ?? null;
    this.choices(names);
    const bundle = this.chosen === null ? undefined : this.bundles.get(this.chosen);
    this.none.hidden = this.chosen !== null;
    this.view.hidden = bundle === undefined;
    if (!bundle) return;
    document.title = `${bundle.name} ${bundle.gone === null ? (bundle.shown?.word ?? "") : "gone"} – Tabane`;
    for (const part of [this.verdict, this.links, this.topology, this.charts, this.timeLine]) part.update(bundle);
  }

  /** A button for each bundle, where there is more than one. */
  private choices(names: string[]): void {
    const nav = at("bundles");
    const wanted = names.length > 1 ? names : [];
    if (nav.childElementCount !== wanted.length || wanted.some((name, place) => nav.children[place]?.textContent !== name)) {
      nav.replaceChildren(...wanted.map((name) => {
        const button = h("button", { type: "button" }, name);
        button.addEventListener("click", () => {
          this.chosen = name;
          this.draw();
        });
        return button;
      }));
    }
    for (const button of nav.children) set(button, { "aria-pressed": button.textContent === this.chosen ? "true" : "false" });
  }

  private async drain(nic: string, drained: boolean): Promise<void> {
    const done = drained ? `${nic} is drained: data takes the other links` : `${nic} is used again`;
    await told(done, setDrained(this.chosen ?? "", nic, drained));
  }

  private async switch(policy: string): Promise<void> {
    await told(`policy ${policy}`, setPolicy(this.chosen ?? "", policy));
  }
}

let hide = 0;

/** Says what became of an action. */
async function told(done: string, action: Promise<void>): Promise<void> {
  const box = at("said");
  const [sentence, level] = await action.then(
    () => [done, "good"] as const,
    (error: unknown) => [error instanceof Error ? error.message : String(error), "bad"] as const,
  );
  say(box, sentence);
  set(box, { "data-level": level, "data-shown": true });
  clearTimeout(hide);
  hide = setTimeout(() => set(box, { "data-shown": false }), SAID);
}

function connection(state: "live" | "lost" | "silent", text: string): void {
  say(at("connection"), text);
  set(at("connection"), { "data-state": state });
}

/** Asks for the token, and gives it. */
function askToken(): Promise<void> {
  const input = h("input", { id: "token", type: "password", autocomplete: "off", required: true, spellcheck: "false" });
  const form = h(
    "form",
    { class: "card empty" },
    h("h1", {}, "This page needs its token"),
    h("p", {}, h("code", {}, "tabane web"), " has printed it at its start, behind ", h("code", {}, "#token="), "."),
    h("div", { class: "field" }, h("label", { for: "token" }, "Token"), input, h("button", { type: "submit" }, "Open")),
  );
  at("main").replaceChildren(form);
  input.focus();
  return new Promise((resolve) => {
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      keepToken(input.value.trim());
      resolve();
    });
  });
}

async function run(): Promise<never> {
  takeToken();
  let page: Page | null = null;
  at("theme").replaceWith(themeSwitch(() => page?.recolour()));
  setInterval(() => {
    if (page?.isSilent() && at("connection").dataset["state"] === "live") connection("silent", "no news");
  }, SILENT / 3);
  for (;;) {
    try {
      const can = await overview();
      page ??= new Page(can);
      await follow(
        () => connection("live", "live"),
        (message) => {
          if (at("connection").dataset["state"] !== "live") connection("live", "live");
          page?.take(message);
        },
      );
    } catch (error) {
      if (error instanceof Refused && error.code === 401) {
        page = null;
        connection("lost", "no token");
        await askToken();
        continue;
      }
      if (error instanceof Refused && page === null) at("main").replaceChildren(h("p", { class: "card empty" }, error.message));
    }
    connection("lost", "the server is gone; trying again");
    await new Promise((again) => setTimeout(again, AGAIN));
  }
}

void run();
