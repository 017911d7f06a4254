// The judgement of the bundle in one line, as `tabane status` gives it, and what it carries altogether.

import type { Bundle } from "./bundle";
import { h, say, set } from "./dom";
import { rate } from "./format";

export class Verdict {
  private readonly word = h("strong", { class: "word" });
  private readonly name = h("h1");
  private readonly summary = h("p", { class: "summary", id: "summary" });
  private readonly setUp = h("p", { class: "set-up" });
  private readonly sent = h("dd");
  private readonly received = h("dd");
  private readonly live = h("p", { class: "unseen", role: "status", "aria-live": "polite" });
  private readonly policy = h("select", { id: "policy" });
  private readonly change = h("form", { class: "policy" });
  private readonly button = h("button", { type: "submit" }, "Switch");
  readonly element: HTMLElement;

  constructor(policies: string[], actions: boolean, private readonly setPolicy: (policy: string) => void) {
    for (const policy of policies) this.policy.append(h("option", { value: policy }, policy));
    this.change.append(h("label", { for: "policy" }, "Policy"), this.policy, this.button);
    this.change.addEventListener("submit", (event) => {
      event.preventDefault();
      this.setPolicy(this.policy.value);
    });
    this.policy.addEventListener("change", () => this.offer());
    this.element = h(
      "section",
      { class: "card verdict", "aria-label": "Judgement" },
      h("div", { class: "judgement" }, h("div", { class: "headline" }, this.name, this.word), this.summary, this.setUp),
      h(
        "dl",
        { class: "totals" },
        h("div", {}, h("dt", {}, "sending"), this.sent),
        h("div", {}, h("dt", {}, "receiving"), this.received),
      ),
      ...(actions ? [this.change] : []),
      this.live,
    );
  }

  /** The policy in force, while the choice is not another one that is about to be made. */
  private inForce = "";

  private offer(): void {
    this.button.disabled = this.policy.value === this.inForce;
  }

  update(bundle: Bundle): void {
    const { status, shown } = bundle;
    say(this.name, bundle.name);
    const level = bundle.gone !== null ? "gone" : !status || status.health.state === "no-peer" ? "bad"
      : status.health.state === "healthy" ? "good" : status.health.redundancy_lost ? "bad" : "warn";
    set(this.element, { "data-level": level });
    const word = bundle.gone !== null ? "gone" : (shown?.word ?? "");
    const summary = bundle.gone !== null ? `${bundle.name} ${bundle.gone}; waiting for it to come back`
      : (status?.health.summary ?? "");
    say(this.word, word);
    say(this.summary, summary);
    say(this.live, word && `${bundle.name} ${word}: ${summary}`);
    if (!status) return;
    const sealed = status.security === "none" ? "not sealed" : status.security;
    const byHand = status.changed_by_hand.length > 0 ? ` · changed by hand: ${status.changed_by_hand.join("; ")}` : "";
    say(this.setUp, `policy ${status.policy} · ${sealed} · mtu ${status.mtu} · pid ${status.pid}${byHand}`);
    const total = (of: "sent_bps" | "received_bps"): number | null => {
      const known = (shown?.paths ?? []).map((path) => path[of]).filter((bits) => bits !== null);
      return known.length === 0 ? null : known.reduce((sum, bits) => sum + bits, 0);
    };
    say(this.sent, rate(bundle.gone === null ? total("sent_bps") : null));
    say(this.received, rate(bundle.gone === null ? total("received_bps") : null));
    if (status.policy !== this.inForce) {
      this.inForce = status.policy;
      this.policy.value = status.policy;
    }
    this.offer();
  }
}
