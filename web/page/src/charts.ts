// Charts of the last two minutes, by uPlot: a line for each link in its colour, and one cursor for all of them.

import uPlot from "uplot";
import type { Bundle, LinkSample, Sample } from "./bundle";
import { colour, dashes, swatch } from "./colours";
import { h, say, style } from "./dom";
import { clockOf, duration, percent, rate, scaled } from "./format";

const HEIGHT = 140;
/** Part of the axis at each end in which a time would be cut off, or stand over a figure. */
const EDGE = 0.12;
interface Kind {
  title: string;
  what: string;
  /** Less than this does not fill a chart, so that noise looks like noise. */
  least: number;
  most?: number;
  /** Steps of the axis, where not any will do. */
  steps?: number[];
  value: (link: LinkSample) => number | null;
  text: Words;
  /** The same at the axis, where the title has the unit. */
  short?: (value: number) => string;
}

type Words = (value: number | null | undefined) => string;

const bits = (value: number): string => scaled(value).replace(" ", "");

const KINDS: Kind[] = [
  { title: "Sending", what: "bit/s", least: 1e5, value: (link) => link.sent, text: rate, short: bits },
  { title: "Receiving", what: "bit/s", least: 1e5, value: (link) => link.received, text: rate, short: bits },
  { title: "Round trip", what: "", least: 200, value: (link) => link.rtt, text: duration },
  { title: "Lost", what: "of the cells sent", least: 2, value: (link) => link.loss, text: (value) => percent(value, 1) },
  { title: "Share", what: "of the bytes sent", least: 100, most: 100, value: (link) => link.share, text: (value) => percent(value) },
];

const DEPTH: Kind = {
  title: "Reorder depth",
  what: "cells that wait for others",
  least: 8,
  steps: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000],
  value: () => null,
  text: (value) => (value == null ? "–" : scaled(value).trim()),
};

export class Charts {
  private readonly grid = h("div", { class: "grid" });
  private readonly legend = h("ul", { class: "legend" });
  private charts: Chart[] = [];
  private drawn = "";
  readonly element = h(
    "section",
    { class: "charts", "aria-labelledby": "charts-title" },
    h("div", { class: "heading" }, h("h2", { id: "charts-title" }, "The last two minutes"), this.legend),
    this.grid,
  );

  /** Draws all anew, after colours or sizes have changed. */
  reset(): void {
    this.drawn = "";
  }

  update(bundle: Bundle): void {
    const links = (bundle.status?.links ?? []).map(({ link, nic }) => ({ link, nic }));
    const wanted = JSON.stringify([bundle.name, links]);
    if (wanted !== this.drawn) {
      this.drawn = wanted;
      this.charts.forEach((chart) => chart.end());
      this.legend.replaceChildren(...links.map(({ link, nic }) => h("li", {}, swatch(link), nic)));
      this.charts = KINDS.map((kind) => new Chart(kind, links.map(({ link, nic }) => ({
        name: nic,
        colour: colour(link),
        dashes: dashes(link),
        value: (sample: Sample) => { const of = sample.links.get(link); return of ? kind.value(of) : null; },
      }))));
      const waiting = { name: "all peers", colour: style("--ink-soft"), dashes: [], value: (sample: Sample) => sample.waiting };
      this.charts.push(new Chart(DEPTH, [waiting]));
      this.grid.replaceChildren(...this.charts.map((chart) => chart.element));
      this.charts.forEach((chart) => chart.begin());
    }
    this.charts.forEach((chart) => chart.update(bundle.samples, bundle.span()));
  }
}

interface Line {
  name: string;
  colour: string;
  dashes: number[];
  value: (sample: Sample) => number | null;
}

class Chart {
  private readonly read = h("p", { class: "read", "aria-hidden": "true" });
  private readonly plot = h("div", { class: "plot", "aria-hidden": "true" });
  private chart: uPlot | null = null;
  private observer: ResizeObserver | null = null;
  readonly element: HTMLElement;

  constructor(
    private readonly kind: Kind,
    private readonly lines: Line[],
  ) {
    const heading = h("h3", {}, kind.title, " ", h("small", {}, kind.what));
    this.element = h("figure", { class: "card chart" }, h("figcaption", {}, heading, this.read), this.plot);
  }

  /** Once the element is in the page, where it has a width. */
  begin(): void {
    const [muted, grid] = [style("--ink-soft"), style("--line")];
    const font = `12px ${style("--font")}`;
    const axis = { stroke: muted, font, grid: { stroke: grid, width: 1 }, ticks: { show: false } };
    const { least, most, steps, text, short } = this.kind;
    const options: uPlot.Options = {
      width: Math.max(200, this.plot.clientWidth),
      height: HEIGHT,
      padding: [10, 12, 0, 0],
      legend: { show: false },
      cursor: { sync: { key: "all" }, y: false, drag: { x: false, y: false }, points: { size: 7 } },
      scales: {
        x: { time: false, range: () => this.span },
        y: { range: (_, __, high) => [0, most ?? Math.max(least, high * 1.08 || 0)] },
      },
      axes: [
        { ...axis, size: 26, gap: 6, space: 76, values: (_, ticks) => ticks.map((tick) => (this.isInside(tick) ? clockOf(tick) : "")) },
        { ...axis, size: 60, gap: 6, space: 30, ...(steps ? { incrs: steps } : {}), values: (_, ticks) => ticks.map((tick) => short?.(tick) ?? text(tick)) },
      ],
      series: [{}, ...this.lines.map((line) => ({
        label: line.name,
        stroke: line.colour,
        width: 1.75,
        dash: line.dashes,
        points: { show: false },
      }))],
      hooks: { setCursor: [() => this.say()] },
    };
    this.chart = new uPlot(options, [[], ...this.lines.map(() => [])], this.plot);
    this.observer = new ResizeObserver(() => this.chart?.setSize({ width: Math.max(200, this.plot.clientWidth), height: HEIGHT }));
    this.observer.observe(this.plot);
  }

  end(): void {
    this.observer?.disconnect();
    this.chart?.destroy();
  }

  /** The window of time. */
  private span: [number, number] = [0, 1];

  private isInside(tick: number): boolean {
    const [begin, end] = this.span;
    const edge = EDGE * (end - begin);
    return tick >= begin + edge && tick <= end - edge;
  }

  update(samples: Sample[], span: [number, number]): void {
    this.span = span;
    const values = this.lines.map((line) => samples.map(line.value));
    this.chart?.setData([samples.map((sample) => sample.at), ...values]);
    this.say();
  }

  /** The figures at the cursor, or the latest. */
  private say(): void {
    const { chart } = this;
    if (!chart) return;
    const at = chart.cursor.idx ?? chart.data[0].length - 1;
    const figures = this.lines.map((line, place) => `${line.name} ${this.kind.text(chart.data[place + 1]?.[at])}`.trim());
    say(this.read, figures.join("   "));
  }
}
