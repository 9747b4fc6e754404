// All subscriptions of the namespace, with their state and the deliveries of the last minute.

import { here, may, query } from "./api.js";
import { spark } from "./charts.js";
import { clip, h, number, put, time, to, toSubscription } from "./dom.js";
import { make } from "./editor.js";
import { PartedList, action, badge, form, field, heading, live, section, table } from "./parts.js";

const PART = 50; // subscriptions of a part
const LOOK_MS = 3000;

/** The filter of a subscription in a few words. */
export function inWords(one) {
  const found = [];
  if (one.source) found.push(`source = ${one.source}`);
  if (one.types?.length) found.push(`type in ${one.types.slice(0, 3).join(", ")}`);
  for (const each of (one.filters ?? []).slice(0, 3)) found.push(expression(each));
  return found.join(" and ") || "every event";
}

/** One filter expression: type = com.example.*, not (subject = eu), or the SQL itself. */
function expression(value) {
  const [[dialect, inner] = []] = Object.entries(value ?? {});
  const pattern = { exact: ["", ""], prefix: ["", "*"], suffix: ["*", ""] }[dialect];
  if (pattern) {
    return Object.entries(inner).map(([name, text]) => `${name} = ${pattern[0]}${text}${pattern[1]}`).join(" and ");
  }
  if (dialect === "sql" || dialect === "cesql") return `(${inner})`;
  if (dialect === "not") return `not (${expression(inner)})`;
  if (Array.isArray(inner)) return `(${inner.map(expression).join(dialect === "any" ? " or " : " and ")})`;
  return JSON.stringify(value);
}

const COLUMNS = [
  { name: "Subscription", show: (one) => toSubscription(one.id, 60) },
  { name: "State", show: (one) => badge(one.status.state) },
  { name: "Sink", show: (one) => clip(one.protocol === "HTTP" ? one.sink : `${one.protocol} ${one.sink}`, 60) },
  { name: "Gets", show: (one) => clip(inWords(one), 60) },
  { name: "Deliveries/s", class: "num", show: (one) => h("span", { class: "rate" },
    spark(one.status.rates, "Deliveries a second"), number(one.status.rate)) },
  { name: "Waiting", class: "num", show: (one) => number(one.status.waiting, true) },
  { name: "Delivered", class: "num", show: (one) => number(one.status.delivered, true) },
  { name: "Dead", class: "num", show: (one) => number(one.status.deadLettered, true) },
  { name: "Last success", show: (one) => time(one.status.lastSuccess) },
];

export async function subscriptions(view, { parameters, signal }) {
  const state = parameters.get("state") ?? "";
  const list = new PartedList({
    path: query(here("/subscriptions"), { limit: PART, state }),
    show: (items) => table(COLUMNS, items, { label: "Subscriptions",
      empty: state ? `No subscription here is ${state}.` : "There are no subscriptions here yet." }),
    what: "subscriptions",
    signal,
  });
  const states = ["", "failing", "lagging", "paused", "disabled", "parked", "awaiting-consent"];
  put(view,
    heading("Subscriptions", may("write") ? action("New\u2026", make) : null,
      form({ class: "inline" }, (found) => {
        location.hash = found.id ? to("subscriptions", found.id)
          : `${to("subscriptions")}${found.state ? `?state=${found.state}` : ""}`;
      },
      field("Id", "id", { placeholder: "a whole id" }),
      field("State", "state", { value: state, options: states.map((each) => [each, each || "any"]) }),
      h("button", { type: "submit" }, "Show"))),
    section("List", list.element));
  await live(signal, LOOK_MS, () => list.element.contains(document.activeElement)
    && document.activeElement.closest("td") ? null : list.load());
}
