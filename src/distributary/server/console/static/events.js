// What was accepted: search, newest first.

import { here, query } from "./api.js";
import { clip, clock, data, h, moment, put, to } from "./dom.js";
import { PartedList, field, form, heading, section, table } from "./parts.js";

const PART = 50;
const FIELDS = [
  ["Id", "id", {}],
  ["Source", "source", {}],
  ["Type", "type", {}],
  ["Subject", "subject", {}],
  ["Since", "since", { placeholder: "10m, or RFC 3339" }],
  ["Until", "until", {}],
];

const COLUMNS = [
  { name: "Accepted", show: (one) => clock(one.time) },
  { name: "Id", show: (one) => h("a", { href: to("events", one.position) }, data(of(one).id, 60)) },
  { name: "Type", show: (one) => clip(of(one).type, 80) },
  { name: "Source", show: (one) => clip(of(one).source, 80) },
  { name: "Subject", show: (one) => clip(of(one).subject, 80) },
  { name: "Position", class: "num", show: (one) => data(one.position, 40) },
];

/** The attributes of a listed event; none where a newer version wrote it. */
export function of(one) {
  return one.event ?? {};
}

export async function events(view, { parameters, signal }) {
  const wanted = Object.fromEntries(FIELDS.map(([, name]) => [name, parameters.get(name) ?? ""]));
  const list = new PartedList({
    path: query(here("/events"), { ...wanted, since: moment(wanted.since), until: moment(wanted.until), limit: PART }),
    show: (items) => table(COLUMNS, items, { label: "Events", empty: "No event fits." }),
    what: "the events that it accepted",
    signal,
  });
  put(view,
    heading("Events", null, h("button", { type: "button", onclick: () => list.load() }, "Refresh")),
    form({ class: "inline search", role: "search" }, (found) => {
      const text = query("", found).slice(1);
      const next = `${to("events")}${text ? `?${text}` : ""}`;
      if (location.hash === next) list.load();
      location.hash = next;
    },
    FIELDS.map(([label, name, props]) => field(label, name, { ...props, value: wanted[name] })),
    h("button", { type: "submit", class: "main" }, "Search")),
    section("Newest first", list.element));
  await list.load();
}
