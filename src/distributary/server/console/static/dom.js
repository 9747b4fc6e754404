// Makes elements. All text becomes text nodes or attributes: nothing here parses markup.

const SVG = "http://www.w3.org/2000/svg";
const ATTRIBUTES = /^(?!on)[a-zA-Z][a-zA-Z0-9:-]*$/;
export const SHOWN_MAX = 160; // characters of one value in a line
const BLOCK_MAX = 20000; // characters of a block before somebody asks for all of it

/** An HTML element. `props`: attributes; functions are listeners of the event after "on". */
export function h(tag, props, ...children) {
  return filled(document.createElement(tag), props, children);
}

/** The same for SVG. */
export function s(tag, props, ...children) {
  return filled(document.createElementNS(SVG, tag), props, children);
}

function filled(element, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else if (name === "href") element.setAttribute("href", ownLink(value));
    else if (name === "value") element.value = value;
    else if (name === "checked" || name === "disabled" || name === "selected")
      element[name] = Boolean(value);
    else if (ATTRIBUTES.test(name)) element.setAttribute(name, value === true ? "" : String(value));
    else throw new Error(`no attribute: ${name}`);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined
    && child !== false));
  return element;
}

/** Links stay on this page and this server, whatever an event says. */
function ownLink(value) {
  const text = String(value);
  if (!text.startsWith("#") && !/^\/(?![/\\])/.test(text)) throw new Error("a link to elsewhere");
  return text;
}

/** A link to a page of the console. */
export function to(...parts) {
  return `#/${parts.map(encodeURIComponent).join("/")}`;
}

/** Replaces what is in `element`. */
export function put(element, ...children) {
  element.replaceChildren(...children.flat(Infinity).filter(Boolean));
  return element;
}

// Characters that do not show, or that turn the text around them: controls, marks of direction,
// zero widths, tags, and halves of surrogate pairs.
const HIDDEN = new RegExp(
  "[\\u0000-\\u001f\\u007f-\\u009f\\u00ad\\u061c\\u180e\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f"
  + "\\ufeff\\ufff9-\\ufffb]|[\\u{e0000}-\\u{e007f}]|\\p{Surrogate}", "gu");

function named(character) {
  return `\u27e8U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}\u27e9`;
}

/** `value` as one line of visible characters. */
export function visible(value, most = SHOWN_MAX) {
  const text = String(value);
  const cut = text.length > most ? text.slice(0, most) : text;
  return cut.replace(HIDDEN, named) + (cut === text ? "" : "\u2026");
}

/** What somebody else wrote: isolated, visible, cut; the whole length is said where it is cut. */
export function data(value, most = SHOWN_MAX) {
  if (value === undefined || value === null || value === "") return h("span", { class: "none" }, "\u2013");
  const text = String(value);
  const cut = text.length > most ? `${text.length.toLocaleString("en")} characters` : null;
  return h("bdi", { class: "data", title: cut }, visible(text, most));
}

/** The same in a narrow column. */
export function clip(value, most) {
  return h("span", { class: "clip" }, data(value, most));
}

/** A link to the page of a subscription. */
export function toSubscription(id, most) {
  return h("a", { href: to("subscriptions", id) }, data(id, most));
}

/** Text of several lines by somebody else, such as JSON. */
export function block(text, label) {
  const safe = (part) => part.replace(HIDDEN, (each) => (each === "\n" || each === "\t" ? each : named(each)));
  const pre = h("pre", { tabindex: "0", role: "region", "aria-label": label ?? "Text", dir: "ltr" },
    safe(text.slice(0, BLOCK_MAX)));
  if (text.length <= BLOCK_MAX) return pre;
  const more = h("button", { class: "quiet", onclick: () => { pre.textContent = safe(text); more.remove(); } },
    `Show all ${text.length.toLocaleString("en")} characters`);
  return h("div", null, pre, more);
}

/** A JSON value, indented. */
export function json(value, label) {
  return block(JSON.stringify(value, null, 2) ?? "", `${label}, as JSON`);
}

/** A number for people: 12,345; 1.25; 12.3k where `short`. */
export function number(value, short = false) {
  if (typeof value !== "number" || !Number.isFinite(value)) return "\u2013";
  if (short && Math.abs(value) >= 10000) {
    return new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 }).format(value);
  }
  const digits = Math.abs(value) >= 100 || Number.isInteger(value) ? 0 : Math.abs(value) >= 10 ? 1 : 2;
  return new Intl.NumberFormat("en", { maximumFractionDigits: digits }).format(value);
}

/** How many of something, in words: 1 record, 2 records. */
export function counted(value, one) {
  return `${number(value)} ${one}${value === 1 ? "" : "s"}`;
}

/** Seconds for people: 3.2 ms, 1.5 s, 4 min. */
export function duration(seconds) {
  if (typeof seconds !== "number" || !Number.isFinite(seconds)) return "\u2013";
  const size = Math.abs(seconds);
  if (size < 1) return `${number(seconds * 1000)} ms`;
  if (size < 120) return `${number(seconds)} s`;
  if (size < 7200) return `${Math.round(seconds / 60)} min`;
  if (size < 172800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} days`;
}

/** A time: how long ago, with the whole of it as title. */
export function time(value) {
  if (!value) return h("span", { class: "none" }, "\u2013");
  const at = new Date(value);
  if (Number.isNaN(at.getTime())) return data(value, 40);
  const past = (Date.now() - at.getTime()) / 1000;
  const words = Math.abs(past) < 1 ? "now" : past > 0 ? `${duration(Math.round(past))} ago`
    : `in ${duration(Math.round(-past))}`;
  return h("time", { datetime: at.toISOString(), title: at.toISOString() }, words);
}

/** The time of day of a moment in UTC, to the millisecond; with its date, if that is not today's. */
export function clock(value) {
  const at = new Date(value);
  if (Number.isNaN(at.getTime())) return data(value, 40);
  const text = at.toISOString();
  const isToday = text.slice(0, 10) === new Date().toISOString().slice(0, 10);
  return h("time", { datetime: text, title: text, class: "num" }, isToday ? text.slice(11) : text.replace("T", " "));
}

/** A moment in UTC, to the second, with how long ago it is. */
export function exact(value) {
  const at = new Date(value);
  if (!value || Number.isNaN(at.getTime())) return data(value, 40);
  return h("span", { class: "num" }, `${at.toISOString().slice(0, 19).replace("T", " ")}Z `, h("small", null, time(value)));
}

export const MOMENT_HINT = "a time such as 2026-11-23T08:00:00Z, or how long ago: 10m, 2h, 3d";

/** A time as somebody types it, as RFC 3339: "10m" is ten minutes ago. */
export function moment(text) {
  const found = /^(\d{1,6})\s*([smhd])$/.exec(text ?? "");
  if (!found) return text;
  const seconds = Number(found[1]) * { s: 1, m: 60, h: 3600, d: 86400 }[found[2]];
  return new Date(Date.now() - seconds * 1000).toISOString();
}

export function bytes(value) {
  if (typeof value !== "number") return "\u2013";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let step = 0;
  let left = value;
  while (left >= 1024 && step < units.length - 1) { left /= 1024; step += 1; }
  return `${number(left)} ${units[step]}`;
}
