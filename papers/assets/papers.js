// Draws the report that stands in the page: a table, findings and charts for each experiment.
"use strict";
const report = JSON.parse(document.getElementById("report").textContent);

/** An element with these attributes and children; text is never taken for markup. */
function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

function number(value) {
  if (value === null || value === undefined) return "-";
  const size = Math.abs(value);
  return value.toLocaleString("en", { maximumFractionDigits: size >= 100 || size === 0 ? 0 : size >= 10 ? 1 : size >= 0.1 ? 2 : 4 });
}

const published = (row) => row.published.map(({ of, value }) => (of ? `${of} ${number(value)}` : number(value))).join(", ") || "-";

function table(rows) {
  const head = ["", "published", "here", "lowest", "highest", "unit", "from"].map((title) => make("th", {}, title));
  const body = rows.map(({ what, own, source, ...row }) =>
    make("tr", {}, ...[what, published(row), number(own.median), number(own.min), number(own.max), own.unit, source].map((cell) => make("td", {}, cell))));
  return make("div", { class: "scroll" }, make("table", {}, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...body)));
}

function findings(list) {
  const word = (holds) => holds === null ? "not judged" : holds ? "holds" : "does not hold here";
  return make("ul", {}, ...list.map(({ sentence, holds, because }) =>
    make("li", {}, make("span", { class: `mark ${holds ? "holds" : "not"}` }, word(holds)),
      `${sentence[0].toUpperCase()}${sentence.slice(1)}. `, make("span", { class: "quiet" }, because))));
}

/** Columns side by side. */
function grid({ title, columns, rows }) {
  const head = ["", ...columns].map((column) => make("th", {}, column));
  const body = rows.map(([name, figures]) => make("tr", {}, ...[name, ...figures.map(number)].map((cell) => make("td", {}, cell))));
  return make("div", { class: "scroll" }, make("p", {}, title), make("table", {}, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...body)));
}

/** A drawing of the report, parsed as what it is. */
function picture({ svg }) {
  const drawing = new DOMParser().parseFromString(svg, "image/svg+xml").documentElement;
  return make("div", { class: "chart scroll" }, document.importNode(drawing, true));
}

/** Rows of one unit, in one chart. */
function byUnit(rows) {
  const groups = new Map();
  for (const row of rows) groups.set(row.own.unit, [...(groups.get(row.own.unit) ?? []), row]);
  return groups;
}

/** Measures of a chart, in units of its width: a row's name stands above its bars. */
const WIDTH = 900, MARGIN = 32, NAME = 20, BAR = 14, GAP = 10, AXIS = 40;

/** A shape of a chart. */
function shape(name, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

/** The distance of the lines of a scale of this length: 1, 2 or 5 times a power of ten, 8 of them at most. */
function step(length) {
  const power = 10 ** Math.floor(Math.log10(length / 8));
  return power * ([1, 2, 5].find((times) => times * power >= length / 8) ?? 10);
}

function legend(names, sources) {
  const entries = names.map((of, at) => [`published published-${at % 3}`, of ? `published: ${of}` : "published"]);
  if (sources.some((source) => source !== "simulated")) entries.push(["here", "here"]);
  if (sources.includes("simulated")) entries.push(["here simulated", "here, simulated"]);
  entries.push(["spread", "lowest to highest run"]);
  const sample = (kind) => kind === "spread" ? shape("path", { class: kind, d: "M0 6H14" }) : shape("rect", { class: kind, width: 14, height: 12 });
  return make("p", { class: "legend" }, ...entries.map(([kind, label]) => make("span", {}, shape("svg", { width: 14, height: 12 }, sample(kind)), label)));
}

/** Bars of each row: the published figures, and ours with a line from the lowest to the highest run. */
function chart(title, unit, rows) {
  const names = [...new Set(rows.flatMap((row) => row.published.map(({ of }) => of)))];
  const values = rows.flatMap(({ own, published }) => [own.min, own.median, own.max, ...published.map(({ value }) => value)]);
  const least = Math.min(0, ...values), distance = step(Math.max(0, ...values) - least || 1);
  const [first, last] = [Math.floor(least / distance), Math.max(1, Math.ceil(Math.max(0, ...values) / distance))];
  const x = (value) => MARGIN + ((value / distance - first) / (last - first)) * (WIDTH - 2 * MARGIN);
  const height = rows.length * (NAME + (names.length + 1) * BAR + GAP);
  const shapes = [];
  for (let line = first; line <= last; line++) {
    const at = x(line * distance);
    shapes.push(shape("path", { class: "grid", d: `M${at} 0V${height}` }), shape("text", { class: "tick", x: at, y: height + 16 }, number(line * distance)));
  }
  shapes.push(shape("text", { class: "tick", x: WIDTH / 2, y: height + 34 }, unit));
  rows.forEach(({ what, own, source, published }, place) => {
    const top = place * (NAME + (names.length + 1) * BAR + GAP) + NAME;
    const bar = (at, kind, value, told) => shape("rect", { class: kind, x: x(Math.min(0, value)), y: top + at * BAR + 1, width: Math.abs(x(value) - x(0)), height: BAR - 2 },
      shape("title", {}, `${told} ${number(value)} ${unit}`));
    shapes.push(shape("text", { x: MARGIN, y: top - 4 }, what));
    for (const { of, value } of published) shapes.push(bar(names.indexOf(of), `published published-${names.indexOf(of) % 3}`, value, `published ${of}`));
    if (own.median === null) return;
    shapes.push(bar(names.length, source === "simulated" ? "here simulated" : "here", own.median, `lowest ${number(own.min)}, highest ${number(own.max)}, median`),
      shape("path", { class: "spread", d: `M${x(own.min)} ${top + (names.length + 0.5) * BAR}H${x(own.max)}` }));
  });
  const drawing = shape("svg", { viewBox: `0 0 ${WIDTH} ${height + AXIS}`, role: "img", "aria-label": `${title}, ${unit}` }, ...shapes);
  return make("div", { class: "chart scroll" }, legend(names, rows.map(({ source }) => source)), drawing);
}

document.getElementById("machine").textContent =
  `${report.cores} x ${report.cpu}, kernel ${report.kernel}, commit ${report.commit ?? "unknown"}, ${report.date ?? ""}, seed ${report.seed}`;
for (const { id, title, outcome } of report.experiments) {
  document.getElementById("contents").append(make("a", { href: `#${id}` }, id));
  const section = make("section", { id }, make("h2", {}, make("code", {}, id), title));
  if (outcome.rows.length) section.append(table(outcome.rows));
  section.append(...outcome.grids.map(grid), findings(outcome.findings), ...outcome.pictures.map(picture));
  for (const [unit, rows] of byUnit(outcome.rows)) section.append(chart(title, unit, rows));
  section.append(make("details", {}, make("summary", {}, "Again"), make("pre", {}, `tabane-lab papers ${id}`)));
  document.getElementById("experiments").append(section);
}
