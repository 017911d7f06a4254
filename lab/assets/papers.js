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
  return make("ul", {}, ...list.map(({ sentence, holds, because }) =>
    make("li", {}, make("span", { class: `mark ${holds ? "holds" : "not"}` }, holds ? "holds" : "does not hold here"),
      `${sentence[0].toUpperCase()}${sentence.slice(1)}. `, make("span", { class: "quiet" }, because))));
}

/** Rows of one unit, in one chart. */
function byUnit(rows) {
  const groups = new Map();
  for (const row of rows) groups.set(row.own.unit, [...(groups.get(row.own.unit) ?? []), row]);
  return groups;
}

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

/** A line from the lowest to the highest run across each of our bars. */
const spread = {
  id: "spread",
  afterDatasetsDraw(chart) {
    const { ctx, scales: { x } } = chart;
    const last = chart.data.datasets.length - 1;
    chart.getDatasetMeta(last).data.forEach((bar, at) => {
      const [low, high] = chart.data.datasets[last].spread[at].map((value) => x.getPixelForValue(value));
      ctx.save();
      ctx.strokeStyle = colour("text");
      ctx.beginPath();
      ctx.moveTo(low, bar.y);
      ctx.lineTo(high, bar.y);
      ctx.stroke();
      ctx.restore();
    });
  },
};

function draw(canvas, unit, rows) {
  const names = [...new Set(rows.flatMap((row) => row.published.map(({ of }) => of)))];
  const sets = names.map((of, at) => ({
    label: of ? `published: ${of}` : "published",
    data: rows.map((row) => row.published.find((figure) => figure.of === of)?.value ?? null),
    backgroundColor: colour("published") + ["ff", "b0", "70"][at % 3],
  }));
  sets.push({
    label: rows.some(({ source }) => source === "simulated") ? "here (paler: simulated)" : "here",
    data: rows.map((row) => row.own.median),
    backgroundColor: rows.map(({ source }) => colour("here") + (source === "simulated" ? "80" : "ff")),
    spread: rows.map((row) => [row.own.min, row.own.max]),
  });
  return new Chart(canvas, {
    type: "bar",
    data: { labels: rows.map((row) => row.what), datasets: sets },
    plugins: [spread],
    options: {
      indexAxis: "y", animation: false, maintainAspectRatio: false,
      scales: {
        x: { beginAtZero: true, title: { display: true, text: unit, color: colour("quiet") }, ticks: { color: colour("quiet") }, grid: { color: colour("line") } },
        y: { ticks: { color: colour("text"), autoSkip: false }, grid: { display: false } },
      },
      plugins: {
        legend: { labels: { color: colour("text"), boxWidth: 14 } },
        tooltip: { callbacks: { afterLabel: ({ dataset, dataIndex }) => dataset.spread ? `lowest ${number(dataset.spread[dataIndex][0])}, highest ${number(dataset.spread[dataIndex][1])}` : "" } },
      },
    },
  });
}

let charts = [];
function drawAll() {
  charts.forEach((chart) => chart.destroy());
  charts = [...document.querySelectorAll("canvas")].map((canvas) => draw(canvas, canvas.dataset.unit, canvas.rows));
}

document.getElementById("machine").textContent =
  `${report.cores} x ${report.cpu}, kernel ${report.kernel}, commit ${report.commit ?? "unknown"}, ${report.date ?? ""}, seed ${report.seed}`;
for (const { id, title, outcome } of report.experiments) {
  document.getElementById("contents").append(make("a", { href: `#${id}` }, id));
  const section = make("section", { id }, make("h2", {}, make("code", {}, id), title), table(outcome.rows), findings(outcome.findings));
  for (const [unit, rows] of byUnit(outcome.rows)) {
    const canvas = make("canvas", { "data-unit": unit, role: "img", "aria-label": `${title}, ${unit}` });
    canvas.rows = rows;
    const bars = rows.length * (1 + Math.max(0, ...rows.map((row) => row.published.length)));
    section.append(make("div", { class: "chart", style: `height: ${90 + 20 * bars}px` }, canvas));
  }
  section.append(make("details", {}, make("summary", {}, "Again"), make("pre", {}, `tabane-lab papers ${id}`)));
  document.getElementById("experiments").append(section);
}
drawAll();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
