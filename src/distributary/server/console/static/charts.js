// Charts as SVG, drawn from numbers by calls that make elements.

import { h, number, put, s } from "./dom.js";

const MARGIN = { top: 8, right: 8, bottom: 18, left: 46 };

/** A line without axes, for a row of a table. */
export function spark(values, label) {
  const width = 64;
  const height = 20;
  const known = values.filter((value) => Number.isFinite(value));
  const box = { class: "spark", width, height, viewBox: `0 0 ${width} ${height}`, role: "img" };
  if (!known.length) return s("svg", { ...box, "aria-label": `${label}: none in the last minute` });
  const most = Math.max(...known, 1e-9);
  const x = (index) => 1 + (index * (width - 2)) / (values.length - 1);
  const y = (value) => height - 2 - (value / most) * (height - 4);
  const last = known.at(-1);
  return s("svg", { ...box, "aria-label": `${label}: now ${number(last)}, at most ${number(most)}` },
    s("path", { class: "fill", d: `${path(values, x, y)}L${x(values.length - 1)},${height}L1,${height}Z` }),
    s("path", { class: "line", d: path(values, x, y) }),
    s("circle", { cx: x(values.length - 1), cy: y(last), r: 1.8 }));
}

/**
 * Draws lines over time into `place`.
 *
 * spec: {title, format, empty, series: [{name, points: [[ms, value], ...]}]}, at most four series.
 */
export function chart(place, spec) {
  const width = Math.max(260, place.clientWidth || 480);
  const height = 168;
  const all = spec.series.flatMap((series) => series.points).filter(([, value]) => Number.isFinite(value));
  const format = spec.format ?? ((value) => number(value, true));
  const latest = spec.series.map((series) => `${series.name} ${format(series.points.at(-1)?.[1])}`);
  const legend = h("ul", { class: "legend" }, spec.series.map((series, index) =>
    h("li", null, h("i", { class: `key s${index}` }), series.name, " ",
      h("b", { class: "num" }, format(series.points.at(-1)?.[1])))));
  const head = h("figcaption", null, h("span", null, spec.title), legend);
  const times = all.map(([at]) => at);
  const [from, until] = [Math.min(...times), Math.max(...times)];
  if (!(from < until)) {
    put(place, head, h("p", { class: "empty" }, spec.empty ?? "Nothing to draw yet: the first points come in a moment."));
    return;
  }
  const step = tick(Math.max(...all.map(([, value]) => value), spec.least ?? 1));
  const most = step * Math.ceil(Math.max(...all.map(([, value]) => value), step) / step);
  const right = width - MARGIN.right;
  const base = height - MARGIN.bottom;
  const x = (at) => MARGIN.left + ((at - from) / Math.max(1, until - from)) * (right - MARGIN.left);
  const y = (value) => base - (value / most) * (base - MARGIN.top);
  const svg = s("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, height, role: "img",
    "aria-label": `${spec.title}. Now: ${latest.join(", ")}` });
  for (let value = 0; value <= most * 1.001; value += step) {
    svg.append(s("line", { class: "grid", x1: MARGIN.left, x2: right, y1: y(value), y2: y(value) }),
      s("text", { x: MARGIN.left - 6, y: y(value) + 3.5, "text-anchor": "end" }, format(value)));
  }
  for (let part = 0; part <= 3; part += 1) {
    const at = from + ((until - from) * part) / 3;
    const anchor = part === 0 ? "start" : part === 3 ? "end" : "middle";
    svg.append(s("text", { x: x(at), y: height - 4, "text-anchor": anchor }, ofDay(at, until - from)));
  }
  spec.series.forEach((series, index) => {
    const points = series.points.filter(([, value]) => Number.isFinite(value));
    if (!points.length) return;
    const line = points.map(([at, value], place_) => `${place_ ? "L" : "M"}${round(x(at))},${round(y(value))}`);
    if (index === 0) {
      const ends = `L${round(x(points.at(-1)[0]))},${base}L${round(x(points[0][0]))},${base}Z`;
      svg.append(s("path", { class: "area s0", d: line.join("") + ends }));
    }
    svg.append(s("path", { class: `line s${index}`, d: line.join("") }));
  });
  svg.append(crosshair(svg, spec, { x, y, from, until, width, base, format }));
  put(place, head, svg);
}

/** Shows the numbers below the pointer. */
function crosshair(svg, spec, { x, from, until, width, base, format }) {
  const line = s("line", { class: "cross", y1: MARGIN.top, y2: base });
  const label = s("text", { class: "read", y: MARGIN.top + 8 });
  const group = s("g", { class: "hidden" }, line, label);
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const inside = ((event.clientX - box.left) / box.width) * width;
    const part = (inside - MARGIN.left) / (width - MARGIN.right - MARGIN.left);
    if (part < 0 || part > 1) { group.setAttribute("class", "hidden"); return; }
    const wanted = from + part * (until - from);
    const near = spec.series.map((series) => nearest(series.points, wanted));
    const at = near.find(Boolean)?.[0] ?? wanted;
    const words = near.map((point, index) => `${spec.series[index].name} ${format(point?.[1])}`);
    group.setAttribute("class", "");
    line.setAttribute("x1", x(at));
    line.setAttribute("x2", x(at));
    const late = part > 0.5;
    label.setAttribute("x", x(at) + (late ? -6 : 6));
    label.setAttribute("text-anchor", late ? "end" : "start");
    label.textContent = `${ofDay(at, 0)}  ${words.join("  ")}`;
  });
  svg.addEventListener("pointerleave", () => group.setAttribute("class", "hidden"));
  return group;
}

function nearest(points, at) {
  let best = null;
  for (const point of points) {
    if (!best || Math.abs(point[0] - at) < Math.abs(best[0] - at)) best = point;
  }
  return best;
}

/** A round step of about a third of `most`: 1, 2 or 5 of a power of ten. */
function tick(most) {
  const power = 10 ** Math.floor(Math.log10(most / 3));
  return [1, 2, 5, 10].map((each) => each * power).find((each) => most / each <= 4) ?? power * 10;
}

function ofDay(at, span) {
  return `${new Date(at).toISOString().slice(11, span > 600000 ? 16 : 19)}Z`;
}

function path(values, x, y) {
  let found = "";
  values.forEach((value, index) => {
    if (Number.isFinite(value)) found += `${found ? "L" : "M"}${round(x(index))},${round(y(value))}`;
  });
  return found;
}

function round(value) {
  return Math.round(value * 10) / 10;
}
