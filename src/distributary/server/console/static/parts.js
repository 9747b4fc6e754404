// Parts that pages share: tables, lists in parts, dialogs, badges, what went wrong.

import { Problem, part } from "./api.js";
import { data, h, put, s, time, visible } from "./dom.js";

const TONES = {
  ready: "good", accepted: "good", delivered: "good", done: "good", given: "good", True: "good", matched: "good",
  running: "busy", cancelling: "busy", lagging: "busy", retry: "busy", waiting: "busy", paused: "calm", disabled: "calm",
  parked: "bad", failing: "bad", dropped: "bad", "dead-letter": "bad", "dead-lettered": "bad", False: "bad", refused: "bad",
  "awaiting-consent": "busy", "not ready": "bad", asked: "busy", "ended-early": "bad", cancelled: "calm", "no match": "calm", Unknown: "calm",
};

/** The class of the colour of a state. */
export function toneOf(word) {
  return Object.hasOwn(TONES, word) ? TONES[word] : "calm";
}

/** A state in a word; its colour repeats it, and never replaces it. */
export function badge(word) {
  const text = visible(word ?? "unknown", 40);
  return h("span", { class: `badge ${toneOf(text)}` }, text);
}

/** A box of a drawing, with its middle at (x, y); a state in a word gives its colour. */
export function node(x, y, title, { below = "", state = "", half = 62 } = {}) {
  const most = Math.floor(half / 3.6);
  return s("g", { class: `node ${toneOf(state)}` },
    s("title", null, visible(title)),
    s("rect", { x: x - half, y: y - 17, width: half * 2, height: 34, rx: 6 }),
    s("text", { x, y: below ? y - 2 : y + 4 }, visible(title, most)),
    below ? s("text", { class: "small", x, y: y + 11 }, visible(below, most + 4)) : null);
}

/** A table. columns: [{name, show: item => node, class}]. */
export function table(columns, items, { empty = "Nothing here.", label } = {}) {
  if (!items.length) return h("p", { class: "empty" }, empty);
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `${label}, a table` },
    h("table", null,
      h("thead", null, h("tr", null, columns.map((column) =>
        h("th", { scope: "col", class: column.class },
          column.name || h("span", { class: "unseen" }, column.unseen ?? "Choose"))))),
      h("tbody", null, items.map((item) => h("tr", null, columns.map((column) =>
        h("td", { class: column.class }, column.show(item))))))));
}

const WIDE_CHARS = 60; // a value with more has the place of two

/** Names and values, side by side. */
export function facts(rows) {
  return h("dl", { class: "facts" }, rows.filter(Boolean).map(([name, value]) => {
    const dd = h("dd", null, value);
    return h("div", { class: dd.textContent.length > WIDE_CHARS ? "wide" : null }, h("dt", null, name), dd);
  }));
}

/** A part of a page with a heading. */
export function section(title, ...children) {
  const id = `s-${title.toLowerCase().replace(/[^a-z]+/g, "-")}`;
  return h("section", { "aria-labelledby": id }, h("h2", { id }, title), children);
}

/** The head of a page: its title, what is beside it, and buttons. */
export function heading(title, beside, ...buttons) {
  return h("div", { class: "heading" }, h("h1", { tabindex: "-1" }, title), beside,
    h("div", { class: "buttons" }, buttons));
}

/** What went wrong, for people; `what` is what the page wanted to show. */
export function failure(error, what) {
  if (error instanceof SyntaxError) {
    return h("p", { class: "note bad", role: "alert" }, noJson(error));
  }
  if (error instanceof Problem && error.status === 403) {
    return h("p", { class: "note" }, `Your key does not allow this: ${visible(error.message, 300).replace(/\.$/, "")}.`);
  }
  const words = error instanceof Problem ? visible(error.message, 300)
    : error.name === "TimeoutError" ? "the server did not answer in time"
      : "the server cannot be reached";
  const faults = error instanceof Problem ? error.faults : [];
  return h("div", { class: "note bad", role: "alert" },
    h("p", null, `${what[0].toUpperCase()}${what.slice(1)}: ${words}`),
    faults.length > 1 || (faults.length && !words.includes(visible(faults[0].message, 300))) ? h("ul", null, faults.slice(0, 20).map((fault) =>
      h("li", null, h("code", null, data(fault.path)), " ", visible(fault.message, 300)))) : null);
}

/** Says of what somebody typed that it is no JSON. */
function noJson(error) {
  return `This is no JSON: ${visible(error.message, 200)}`;
}

/** A list that the API gives in parts: loads the part at `path`, and pages on by its cursor. */
export class PartedList {
  constructor({ path, show, what, signal }) {
    this.first = path;
    this.show = show; // items => node
    this.what = what;
    this.signal = signal;
    this.element = h("div", { class: "parted" });
    this.before = []; // paths of earlier parts
    this.path = path;
  }

  async load(path = this.path) {
    this.path = path;
    try {
      const found = await part(path, this.signal);
      if (this.path !== path) return this.element; // another part was asked for meanwhile
      this.items = found.items;
      const held = document.activeElement?.closest(".pager") && this.element.contains(document.activeElement)
        ? document.activeElement.textContent : null;
      put(this.element, this.show(found.items), this.looked(found), this.pager(found.next));
      if (held) this.keepPlace(held);
    } catch (error) {
      if (!this.signal?.aborted) put(this.element, failure(error, this.what));
    }
    return this.element;
  }

  /** Who uses the keyboard keeps the place, though the buttons are new ones. */
  keepPlace(label) {
    const buttons = [...this.element.querySelectorAll(".pager button:not(:disabled)")];
    (buttons.find((each) => each.textContent === label) ?? buttons[0])?.focus();
  }

  /** A search may look at a part of the past at a time: says how far, where it found little. */
  looked({ looked, next }) {
    return looked && next ? h("p", { class: "empty" }, "Looked at everything accepted since ", time(looked),
      ". Next looks further back.") : null;
  }

  pager(next) {
    if (!next && !this.before.length) return null;
    return h("div", { class: "pager" },
      h("button", { disabled: !this.before.length, onclick: () => this.load(this.before.pop()) }, "Previous"),
      h("span", { class: "num" }, `Page ${this.before.length + 1}`),
      h("button", { disabled: !next, onclick: () => {
        this.before.push(this.path);
        return this.load(next);
      } }, "Next"));
  }
}

/** A field of a form with its label. props: those of the input; `rows` makes it a text area. */
export function field(label, name, props = {}) {
  const { rows, options, hint, ...rest } = props;
  const id = `f-${name}`;
  const described = hint ? { "aria-describedby": `${id}-hint` } : {};
  const given = { id, name, autocomplete: "off", spellcheck: "false", ...described, ...rest };
  let input;
  if (options) {
    input = h("select", given, options.map(([value, text]) => h("option", { value }, text)));
    if (rest.value !== undefined) input.value = rest.value;
  } else {
    input = rows ? h("textarea", { rows, ...given }) : h("input", { type: "text", ...given });
  }
  return h("div", { class: rest.type === "checkbox" ? "field check" : "field" },
    h("label", { for: id }, label), input, hint ? h("small", { id: `${id}-hint` }, hint) : null);
}

/** A form; `submitted` gets what stands in its fields. */
export function form(props, submitted, ...children) {
  return h("form", { ...props, onsubmit: (event) => {
    event.preventDefault();
    const found = {};
    for (const each of event.target.elements) {
      if (each.name) found[each.name] = each.type === "checkbox" ? each.checked : each.value.trim();
    }
    submitted(found, event.target);
  } }, children);
}

/**
 * Asks for something in a dialog. Resolves with the values of its fields, or null.
 *
 * `danger`: the button is red. `phrase`: what has to be typed before it can be pressed. `check`: throws
 * where the values cannot be used.
 */
export function askFor({ title, text, fields = [], yes = "OK", danger = false, phrase = "", check }) {
  return new Promise((resolve) => {
    let values = null;
    const go = h("button", { type: "submit", class: danger ? "danger" : "main", disabled: Boolean(phrase) }, yes);
    const typed = phrase ? field(`Type ${visible(phrase, 140)} to confirm`, "phrase", {
      oninput: (event) => { go.disabled = event.target.value !== phrase; } }) : null;
    const wrong = h("p", { class: "bad", role: "alert" });
    const inner = form({ class: "stacked" }, (found) => {
      try {
        check?.(found);
      } catch (error) {
        put(wrong, noJson(error));
        return;
      }
      values = found;
      dialog.close();
    },
      h("h2", { id: "dialog-title" }, title),
      text ? h("p", null, text) : null, fields, typed, wrong,
      h("div", { class: "buttons" }, go,
        h("button", { type: "button", onclick: () => dialog.close() }, "Cancel")));
    const dialog = h("dialog", { "aria-labelledby": "dialog-title", onclose: () => {
      dialog.remove();
      resolve(values);
    } }, inner);
    document.body.append(dialog);
    dialog.showModal();
  });
}

let fading = 0;

/** Tells what a button did, for some seconds; screen readers say it. */
export function tell(text, bad = false) {
  const place = document.getElementById("told");
  put(place, h("p", { class: bad ? "bad" : "" }, visible(text, 300)));
  clearTimeout(fading);
  fading = setTimeout(() => put(place), bad ? 12000 : 6000);
}

/** A button that does something at the server: cannot be pressed twice, and tells how it ended. */
export function action(label, work, props = {}) {
  const button = h("button", { type: "button", ...props, onclick: async () => {
    const focused = document.activeElement === button;
    button.disabled = true;
    try {
      await work();
    } catch (error) {
      tell(`${label}: ${error.message}`, true);
    } finally {
      button.disabled = false;
      if (focused && document.activeElement === document.body) { // who uses the keyboard keeps the place
        (button.hidden ? button.parentElement.querySelector("button:not([hidden])") : button)?.focus();
      }
    }
  } }, label);
  return button;
}

/** Calls `work` now and every `periodMs` while the page shows and can be seen. */
export async function live(signal, periodMs, work) {
  while (!signal.aborted) {
    if (!document.hidden) await work();
    await new Promise((done) => {
      const stop = () => { clearTimeout(timer); done(); };
      const timer = setTimeout(() => { signal.removeEventListener("abort", stop); done(); }, periodMs);
      signal.addEventListener("abort", stop, { once: true });
    });
  }
}
