// The colour of a link: one in charts, table, topology and time line.

import { h, style } from "./dom";

/** Colours of the style sheet; a ninth link has that of the first, and its line is dashed. */
const COLOURS = 8;

/** The name of a link's colour in the style sheet. */
export function colourName(link: number): string {
  return `--link-${link % COLOURS}`;
}

/** A link's colour. */
export function colour(link: number): string {
  return style(colourName(link));
}

/** How a link's line is dashed. */
export function dashes(link: number): number[] {
  return link < COLOURS ? [] : [6, 4];
}

/** A mark in a link's colour. */
export function swatch(link: number): HTMLElement {
  return h("span", { class: `swatch link-${link % COLOURS}${link < COLOURS ? "" : " dashed"}`, "aria-hidden": "true" });
}
