// Tries a filter on events, and shows why each of them passes or does not.

import { get, here, send } from "./api.js";
import { data, h, number, put, to } from "./dom.js";
import { badge, failure, field, form, heading, section } from "./parts.js";

const EXAMPLE = '[{"prefix": {"type": "com.example."}}]';
const OWN = '{"specversion": "1.0", "id": "1", "source": "/shop", "type": "com.example.order"}';

/** The explanation of a verdict as a tree; the parts that decided stand out. */
export function tree(why) {
  return h("ul", { class: "tree" }, branch(why));
}

function branch(why) {
  const line = [h("b", { class: why.verdict ? "yes" : "no" }, why.verdict ? "true" : "false"), " ",
    h("code", null, data(why.dialect, 30)), " ", data(why.reason, 300),
    why.parts?.length ? null : h("small", null, " ", data(why.path, 120))];
  return h("li", { class: why.decided === false ? "aside" : "" }, line,
    why.parts?.length ? h("ul", null, why.parts.map(branch)) : null);
}

/** Tries `selection` on the last `count` events; returns what to show. */
export async function verdicts(selection, count, signal) {
  return shown(await tried({ ...selection, recent: count }, signal));
}

async function tried(body, signal) {
  return (await send("POST", here("/filters/try"), { body, signal })).body;
}

function shown(found) {
  return h("div", null,
    h("p", null, h("b", { class: "num" }, number(found.matched)), " of ", h("b", { class: "num" }, number(found.tried)),
      " events pass."),
    found.results.map((each) => h("details", { class: "verdict" },
      h("summary", null, badge(each.matched ? "matched" : "no match"), " ",
        each.position ? h("a", { href: to("events", each.position) }, data(each.id, 50)) : data(each.id, 50), " ",
        data(each.type, 60), " ", h("small", null, data(each.source, 60))),
      tree(each.why))));
}

/** Reads what somebody typed: an array, an expression, or members of a subscription. */
function selectionOf(text) {
  const value = JSON.parse(text);
  if (Array.isArray(value)) return { filters: value };
  const members = ["source", "types", "filters", "filter"].filter((name) => value && Object.hasOwn(value, name));
  return members.length ? Object.fromEntries(members.map((name) => [name, value[name]])) : { filters: [value] };
}

export async function tryFilter(view, { parameters, signal }) {
  const result = h("div", { "aria-live": "polite" });
  const start = parameters.get("subscription")
    ? await get(here(`/subscriptions/${encodeURIComponent(parameters.get("subscription"))}`), signal) : null;
  const written = start ? JSON.stringify({ source: start.source, types: start.types, filters: start.filters }, null, 2) : EXAMPLE;
  put(view, heading("Try a filter"),
    form({ class: "stacked wide" }, async (found) => {
      try {
        const selection = found.dialect === "sql" ? { filters: [{ sql: found.filter }] } : selectionOf(found.filter);
        if (found.on === "own") {
          const own = JSON.parse(found.event);
          put(result, shown(await tried({ ...selection, events: Array.isArray(own) ? own : [own] }, signal)));
        } else {
          put(result, await verdicts(selection, Number(found.on), signal));
        }
      } catch (error) {
        put(result, failure(error, "the filter"));
      }
    },
    field("Dialect", "dialect", { options: [["json", "filter expressions (JSON)"], ["sql", "CloudEvents SQL"]] }),
    field("Filter", "filter", { rows: 6, value: written, required: true, class: "code",
      hint: "An expression, an array of them, or a subscription; for SQL the expression, such as type LIKE 'com.%'" }),
    field("On", "on", { options: [["25", "the last 25 events"], ["100", "the last 100 events"], ["own", "the event below"]] }),
    field("An event of yours", "event", { rows: 4, value: OWN, class: "code" }),
    h("div", { class: "buttons" }, h("button", { type: "submit", class: "main" }, "Try"))),
    section("Verdicts", result));
}
