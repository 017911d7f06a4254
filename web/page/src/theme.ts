// Light, dark, or as the system says; chosen by three radio buttons and kept in this browser.

import { h, set } from "./dom";

const KEY = "tabane-theme";
const THEMES = ["auto", "light", "dark"] as const;

/** The choice; `changed` is called when colours are others. */
export function themeSwitch(changed: () => void): HTMLElement {
  const kept = localStorage.getItem(KEY) ?? "auto";
  const choose = (theme: string): void => {
    set(document.documentElement, { "data-theme": theme === "auto" ? undefined : theme });
    localStorage.setItem(KEY, theme);
    changed();
  };
  const group = h("fieldset", { class: "segments" }, h("legend", { class: "unseen" }, "Colours"));
  for (const theme of THEMES) {
    const input = h("input", { type: "radio", name: "theme", value: theme, checked: theme === kept });
    input.addEventListener("change", () => choose(theme));
    group.append(h("label", {}, input, h("span", {}, theme)));
  }
  choose(kept);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);
  return group;
}
