// Kept dead letters: look at them, send them again, delete them.

import { get, here, may, query, send } from "./api.js";
import { MOMENT_HINT, clip, counted, data, h, json, moment, number, put, time, to, toSubscription } from "./dom.js";
import { PartedList, action, askFor, facts, failure, field, form, heading, section, table, tell } from "./parts.js";
import { openRun } from "./runs.js";

const PART = 50;

/** The subscription or object that a dead letter is of. */
function whose(letter, most) {
  return letter.subscription ? toSubscription(letter.subscription, most) : data(letter.object ?? letter.route, most);
}

/** A table of dead letters; `chosen`: a set of ids that check boxes change. */
export function lettersTable(items, chosen = null, changed = () => {}) {
  return table([
    chosen ? { name: "", unseen: "Choose", show: (each) => h("input", { type: "checkbox",
      "aria-label": `Choose ${each.id}`, checked: chosen.has(each.id), onchange: (event) => {
        if (event.target.checked) chosen.add(each.id);
        else chosen.delete(each.id);
        changed();
      } }) } : null,
    { name: "Event", show: (each) => h("a", { href: to("dead-letters", each.id) }, data(each.event?.id ?? each.id, 50)) },
    { name: "Type", show: (each) => clip(each.event?.type, 60) },
    { name: "Subscription", show: (each) => whose(each, 50) },
    { name: "Reason", show: (each) => clip(each.reason, 80) },
    { name: "Status", class: "num", show: (each) => data(each.status) },
    { name: "Sink", show: (each) => clip(each.sink, 60) },
    { name: "Kept", show: (each) => time(each.kept) },
  ].filter(Boolean), items, { label: "Dead letters", empty: "No dead letters are kept." });
}

export async function deadLetters(view, { parameters, signal }) {
  const subscription = parameters.get("subscription") ?? "";
  const chosen = new Set();
  const count = h("span", { class: "num" });
  const changed = () => put(count, chosen.size ? `${number(chosen.size)} chosen` : "");
  const list = new PartedList({
    path: query(here("/dead-letters"), { subscription, limit: PART }),
    show: (items) => lettersTable(items, chosen, changed),
    what: "dead letters",
    signal,
  });
  const selection = () => chosen.size ? { ids: [...chosen] } : subscription ? { subscription } : { all: true };
  const ask = (kind) => action(kind === "redrive" ? "Redrive\u2026" : "Purge\u2026",
    () => start(kind, selection()), kind === "purge" ? { class: "danger" } : { class: "main" });
  put(view,
    heading("Dead letters", count, may("write") ? [ask("redrive"), ask("purge")] : null),
    form({ class: "inline", role: "search" }, (found) => {
      location.hash = `${to("dead-letters")}${found.subscription ? query("", found) : ""}`;
    },
    field("Subscription", "subscription", { value: subscription }),
    h("button", { type: "submit" }, "Show")),
    section("Oldest of each partition first", list.element));
  await list.load();
}

function inWords(selection) {
  if (selection.ids) return counted(selection.ids.length, "chosen dead letter");
  return selection.subscription ? `all dead letters of ${selection.subscription}` : "all dead letters of this namespace";
}

/** Asks for a redrive or a purge, and shows its run. */
async function start(kind, selection) {
  const redrive = kind === "redrive";
  const found = await askFor({
    title: redrive ? "Send them again?" : "Delete them?",
    text: `This concerns ${inWords(selection)}. ` + (redrive
      ? "They go through the newest filters to the newest sinks; what fails is kept again."
      : "They are gone then."),
    fields: [
      redrive ? field("Events a second, at most", "rateLimit", { type: "number", min: "1" }) : null,
      field("Kept since", "since", { hint: MOMENT_HINT }),
      field("Kept until", "until", {}),
      field("Only count", "dryRun", { type: "checkbox" }),
    ],
    yes: redrive ? "Redrive" : "Purge",
    danger: !redrive,
  });
  if (!found) return;
  const body = { ...selection };
  if (found.rateLimit) body.rateLimit = Number(found.rateLimit);
  for (const name of ["since", "until"]) if (found[name]) body[name] = moment(found[name]);
  if (found.dryRun) body.dryRun = true;
  openRun(await send("POST", here(`/dead-letters/${kind}`), { body }));
  tell(`A ${kind} was asked for`);
}

export async function deadLetter(view, { item: id, signal }) {
  let found;
  try {
    found = await get(here(`/dead-letters/${encodeURIComponent(id)}`), signal);
  } catch (error) {
    put(view, heading("Dead letter", data(id)), failure(error, "a single dead letter"));
    return;
  }
  put(view,
    heading(data(found.event?.id ?? id, 80), null, may("write")
      ? [action("Redrive\u2026", () => start("redrive", { ids: [id] }), { class: "main" }),
        action("Purge\u2026", () => start("purge", { ids: [id] }), { class: "danger" })] : null),
    facts([
      ["Subscription", whose(found)],
      ["Reason", data(found.reason, 300)],
      ["Status", data(found.status)],
      ["Sink", data(found.sink, 300)],
      ["Kept", time(found.kept)],
      found.event ? ["Its way", h("a", { href: `${to("events")}${query("", { id: found.event.id })}` }, "Find it")] : null,
    ]),
    section("The event", found.damaged ? h("p", { class: "note bad" }, "The stored event is damaged.")
      : json(found.event, "The event")));
}
