// The frame of the console: pages by the part of the URL behind "#", key, namespace, colours.

import { forgetKey, get, hasKey, onRefused, session, showKey, whoami } from "./api.js";
import { data, h, put, s, to, visible } from "./dom.js";
import { failure, field, form } from "./parts.js";
import { overview } from "./overview.js";
import { subscriptions } from "./subscriptions.js";
import { subscription } from "./subscription.js";
import { events } from "./events.js";
import { event } from "./event.js";
import { deadLetter, deadLetters } from "./letters.js";
import { run, runs } from "./runs.js";
import { graph } from "./graph.js";
import { publish } from "./publish.js";
import { tryFilter } from "./filter.js";

const PAGES = [
  ["", "Overview", overview],
  ["subscriptions", "Subscriptions", subscriptions, subscription],
  ["events", "Events", events, event],
  ["dead-letters", "Dead letters", deadLetters, deadLetter],
  ["runs", "Runs", runs, run],
  ["graph", "Brokers and Triggers", graph],
  ["publish", "Publish", publish],
  ["filter", "Try a filter", tryFilter],
];
const THEME = "distributary.theme"; // the one thing that is stored: light, dark, or nothing

const main = document.getElementById("main");
let shown = new AbortController();

/** Where we are: {page, item, parameters}. */
function place() {
  const [path, text] = location.hash.replace(/^#\/?/, "").split("?", 2);
  let parts;
  try {
    parts = path.split("/").map(decodeURIComponent);
  } catch {
    parts = [""];
  }
  const found = PAGES.find(([name]) => name === parts[0]) ?? PAGES[0];
  return { page: found, item: parts[1] ?? "", parameters: new URLSearchParams(text ?? "") };
}

async function show() {
  shown.abort();
  shown = new AbortController();
  const { signal } = shown;
  const { page, item, parameters } = place();
  const [name, title, list, one] = page;
  document.title = `${item || title} \u00b7 distributary`;
  for (const link of document.querySelectorAll("#nav a")) {
    if (link.dataset.page !== name) {
      link.removeAttribute("aria-current");
      continue;
    }
    link.setAttribute("aria-current", "page");
    const row = document.getElementById("nav"); // of a narrow screen, where it scrolls
    row.scrollLeft = link.offsetLeft - row.offsetLeft - (row.clientWidth - link.offsetWidth) / 2;
  }
  if (session.who === null) {
    put(main, keyForm());
    return;
  }
  const view = h("div", { class: "page" });
  put(main, view);
  try {
    await (item && one ? one : list)(view, { item, parameters, signal });
  } catch (error) {
    if (!signal.aborted) put(view, failure(error, "this page"));
  }
}

function keyForm(said = "") {
  return form({ class: "stacked alone" }, async (found) => {
    showKey(found.key);
    await enter("The server does not know this key.");
  },
  h("h1", null, "Show a key"),
  h("p", null, "This server asks who its clients are. The console keeps a key in the memory of this tab "
    + "alone, and forgets it when the tab closes or reloads."),
  said ? h("p", { class: "note bad", role: "alert" }, said) : null,
  field("API key or token", "key", { type: "password", required: true, autofocus: true }),
  h("div", { class: "buttons" }, h("button", { type: "submit", class: "main" }, "Continue")));
}

/** Asks who we are, and shows the page or the form for a key. */
async function enter(otherwise = "") {
  try {
    await whoami();
  } catch (error) {
    put(main, h("div", { class: "page" }, failure(error, "who you are")));
    return;
  }
  if (session.who === null) {
    forgetKey();
    drawTop();
    put(main, keyForm(otherwise));
    main.querySelector("input")?.focus();
    return;
  }
  const { namespaces } = session.who;
  if (!namespaces.includes("*") && !namespaces.includes(session.namespace)) {
    session.namespace = namespaces[0] ?? "default";
  }
  drawTop();
  await show();
}

// -- the frame

function drawNav() {
  put(document.getElementById("nav"), h("ul", null, PAGES.map(([name, title]) =>
    h("li", null, h("a", { href: to(name), "data-page": name }, title)))));
}

function drawTop() {
  const who = session.who;
  put(document.getElementById("top"),
    h("a", { class: "brand", href: to("") }, mark(), h("span", null, "distributary")),
    who ? namespaceSwitch(who) : null,
    h("span", { class: "grow" }),
    who ? h("span", { class: "who" }, data(who.name, 40)) : null,
    hasKey() ? h("button", { type: "button", class: "quiet", onclick: () => {
      forgetKey();
      location.reload();
    } }, "Forget key") : null,
    themeSwitch());
}

function mark() {
  return s("svg", { viewBox: "0 0 32 32", width: 22, height: 22, "aria-hidden": "true" },
    s("rect", { class: "mark", width: 32, height: 32, rx: 7 }),
    s("path", { class: "stroke", d: "M5 16h8c5 0 4-8 14-8M13 16h14M13 16c5 0 4 8 14 8" }));
}

function namespaceSwitch(who) {
  const all = who.namespaces.includes("*");
  const names = all ? [...new Set(["default", session.namespace])] : who.namespaces;
  const change = (event) => {
    session.namespace = event.target.value;
    location.hash = to(place().page[0]);
    show();
  };
  const select = h("select", { id: "namespace", onchange: change },
    names.map((name) => h("option", { value: name }, visible(name, 63))));
  select.value = session.namespace;
  if (all) addNamespaces(select);
  return h("div", { class: "namespace" }, h("label", { for: "namespace" }, "Namespace"), select);
}

async function addNamespaces(select) {
  try {
    const found = await get("/api/v1/namespaces?limit=500");
    const names = found.items.map((each) => each.metadata.name).concat("default", session.namespace);
    put(select, [...new Set(names)].sort().map((name) => h("option", { value: name }, visible(name, 63))));
    select.value = session.namespace;
  } catch {
    // The names that are known stay.
  }
}

function themeSwitch() {
  const root = document.documentElement;
  const dark = () => (root.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const button = h("button", { type: "button", class: "quiet", onclick: () => {
    root.dataset.theme = dark() ? "light" : "dark";
    localStorage.setItem(THEME, root.dataset.theme);
    name();
  } });
  const name = () => { button.textContent = dark() ? "Light" : "Dark"; };
  name();
  button.dataset.is = "theme";
  return button;
}

const theme = localStorage.getItem(THEME);
if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
drawNav();
drawTop();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () =>
  document.querySelector("[data-is=theme]")?.replaceWith(themeSwitch()));
onRefused(() => {
  if (session.who === null) return;
  forgetKey();
  drawTop();
  put(main, keyForm("The key is not valid any more."));
});
addEventListener("hashchange", async () => {
  await show();
  main.querySelector("h1")?.focus({ preventScroll: true });
});
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // the part behind "#" names a page
  main.focus();
});
enter();
