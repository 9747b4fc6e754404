// One subscription: how it does, what it is, which events it gets, and what can be done about it.

import { get, here, may, part, query, send } from "./api.js";
import { chart } from "./charts.js";
import { MOMENT_HINT, bytes, counted, data, h, json, moment, number, put, time, to, visible } from "./dom.js";
import { action, askFor, badge, facts, failure, field, heading, live, section, table, tell } from "./parts.js";
import { edit, rotate } from "./editor.js";
import { lettersTable } from "./letters.js";
import { attemptsTable } from "./event.js";
import { verdicts } from "./filter.js";
import { openRun } from "./runs.js";
import { inWords } from "./subscriptions.js";

const LOOK_MS = 2000;
const STEP_MS = 5000; // between two of the rates of a status
const RECENT = 25; // events that its filter is explained on
const ATTEMPTS = 50; // its newest ones

export async function subscription(view, { item: id, signal }) {
  const path = here(`/subscriptions/${encodeURIComponent(id)}`);
  const one = await get(path, signal).catch((error) => error);
  if (one instanceof Error) {
    put(view, heading("Subscription", data(id)), failure(one, `the subscription`));
    return;
  }
  const state = h("span");
  const status = h("div");
  const plot = h("figure", { class: "plot" });
  const switches = switchesOf(path, id, () => look());
  put(view,
    heading(data(id), state, may("write") ? [switches.map(([button]) => button), ...buttons(path, one)] : null),
    status,
    section("Deliveries a second", plot),
    section("Attempts", lazily("Show its newest attempts", () => attempts(id, signal))),
    section("Which events it gets", h("p", null, "Of its events it gets: ", data(inWords(one), 400)),
      lazily(`Explain on the last ${RECENT} events`, () => explained(one, signal))),
    section("Dead letters", lazily("Show its dead letters", () => letters(id, signal))),
    section("Configuration", json(withoutStatus(one), "Configuration")));
  const points = [];
  const look = async () => {
    try {
      const now = await get(`${path}/status`, signal);
      put(state, badge(now.state));
      put(status, statusOf(now));
      for (const [button, isOfUse] of switches) button.hidden = !isOfUse(now);
      const at = Date.now();
      if (!points.length) points.push(...now.rates.map((rate, step) => [at - (now.rates.length - step) * STEP_MS, rate]));
      points.push([at, now.rates.at(-1) ?? 0]);
      if (points.length > 300) points.shift();
      chart(plot, { title: "Last minutes", series: [{ name: "delivered/s", points }] });
    } catch (error) {
      if (signal.aborted) return;
      put(state, badge("unknown"));
      put(status, failure(error, "the status of a subscription"));
    }
  };
  await live(signal, LOOK_MS, look);
}

function withoutStatus({ status: _status, ...rest }) {
  return rest;
}

function statusOf(now) {
  const { failing, backfill } = now;
  return h("div", null,
    failing ? h("div", { class: "note bad" },
      h("p", null, h("b", null, "Failing "), "since ", time(failing.since), ": ", data(failing.reason, 300)),
      h("p", null, `${counted(failing.count, "failure")}, the last `, time(failing.last), " at ", data(failing.sink, 200),
        failing.status ? ` (status ${number(failing.status)})` : "")) : null,
    now.paused ? h("p", { class: "note" }, "Paused ", time(now.paused.since), " by ", data(now.paused.by), ".") : null,
    now.disabled ? h("p", { class: "note" }, "Disabled ", time(now.disabled.since), " by ", data(now.disabled.by), ": ", data(now.disabled.reason, 300)) : null,
    now.parked ? h("p", { class: "note bad" }, "Parked ", time(now.parked.since), ": ", data(now.parked.reason, 300)) : null,
    now.state === "awaiting-consent" ? h("p", { class: "note busy" }, "A sink has not consented: what is for it waits, and is sent once it does.") : null,
    facts([
      ["In flight", number(now.inFlight)],
      ["Waiting", number(now.waiting)],
      ["Delivered", number(now.delivered)],
      ["Dead-lettered", number(now.deadLettered)],
      ["Dropped", number(now.dropped)],
      ["Kept dead letters", `${number(now.kept.count)} (${bytes(now.kept.bytes)})`],
      ["Last success", time(now.lastSuccess)],
      ["Last answer", now.lastAnswer ? h("span", null, data(now.lastAnswer.status), " ", time(now.lastAnswer.time)) : "\u2013"],
      ["Behind in the log", backfill ? `${counted(backfill.distance, "record")}${backfill.waitsFor ? `; waits for ${visible(backfill.waitsFor, 200)}` : ""}`
        : now.lagging ? "under way" : "none"],
      ["Revision", data(now.revision)],
      ["Route", data(now.route)],
    ]),
    (now.consent ?? []).length ? table([
      { name: "Consent of", show: (each) => data(each.sink) },
      { name: "State", show: (each) => badge(each.state) },
      { name: "Since", show: (each) => time(each.since) },
      { name: "Reason", show: (each) => data(each.reason) },
      { name: "Asked again", show: (each) => time(each.next) },
    ], now.consent, { label: "Consent" }) : null,
    table([
      { name: "Condition", show: (each) => data(each.type) },
      { name: "Status", show: (each) => badge(each.status) },
      { name: "Reason", show: (each) => data(each.reason) },
      { name: "Message", show: (each) => data(each.message, 300) },
      { name: "Since", show: (each) => time(each.lastTransitionTime) },
    ], now.conditions, { label: "Conditions" }));
}

/** Buttons that are shown while they do something: [button, status => whether it does]. */
function switchesOf(path, id, look) {
  const asked = (word, done, label = word[0].toUpperCase() + word.slice(1)) => action(label, async () => {
    await send("POST", `${path}/${word}`);
    tell(`${id}: ${done}`);
    await look();
  }, { hidden: true });
  return [
    [asked("pause", "paused: events wait"), (now) => !now.paused],
    [asked("resume", "resumed"), (now) => now.paused || now.parked],
    [asked("resume", "its sinks are asked", "Ask for consent"), (now) => now.state === "awaiting-consent"],
    [asked("disable", "disabled"), (now) => !now.disabled],
    [asked("enable", "enabled"), (now) => now.disabled],
  ];
}

function buttons(path, one) {
  const { id } = one;
  return [
    action("Retry", async () => {
      openRun(await send("POST", `${path}/retry`));
      tell(`${id}: what waits is tried now`);
    }),
    action("Replay\u2026", () => replay(path, id)),
    action("Edit\u2026", async () => { if (await edit(path)) dispatchEvent(new HashChangeEvent("hashchange")); }),
    one.protocolsettings?.signature ? action("Rotate key\u2026", () => rotate(path)) : null,
    action("Delete\u2026", () => remove(path, id), { class: "danger" }),
  ];
}

async function replay(path, id) {
  const found = await askFor({
    title: "Replay events",
    text: "Sends events of the past again, as far as the log reaches back. What was delivered then is "
      + "delivered once more.",
    fields: [
      field("From", "from", { required: true, value: new Date(Date.now() - 3600000).toISOString().slice(0, 19) + "Z",
        hint: MOMENT_HINT }),
      field("To", "to", { hint: "empty: now" }),
      field("Events a second, at most", "rateLimit", { type: "number", min: "1" }),
      field("Only count", "dryRun", { type: "checkbox" }),
    ],
    yes: "Replay",
  });
  if (!found) return;
  const body = { from: moment(found.from) };
  if (found.to) body.to = moment(found.to);
  if (found.rateLimit) body.rateLimit = Number(found.rateLimit);
  if (found.dryRun) body.dryRun = true;
  openRun(await send("POST", `${path}/replay`, { body }));
  tell(`${id}: a replay was asked for`);
}

async function remove(path, id) {
  const found = await askFor({
    title: "Delete this subscription?",
    text: "Its waiting deliveries and its kept dead letters are dropped. This cannot be undone.",
    yes: "Delete", danger: true, phrase: id,
  });
  if (!found) return;
  await send("DELETE", path);
  tell(`${id} is deleted`);
  location.hash = to("subscriptions");
}

/** A button that is replaced by what it asks for: not every look needs all of it. */
function lazily(label, work) {
  const place = h("div", null, action(label, async () => {
    const shown = h("div", null, await work());
    put(place, shown, h("div", { class: "buttons" }, action("Refresh", async () => put(shown, await work()))));
  }));
  return place;
}

async function explained(one, signal) {
  try {
    return await verdicts({ source: one.source, types: one.types, filters: one.filters ?? [] }, RECENT, signal);
  } catch (error) {
    return failure(error, "trying a filter on recent events");
  }
}

async function attempts(id, signal) {
  try {
    const path = here(`/subscriptions/${encodeURIComponent(id)}/attempts`);
    const found = await get(query(path, { limit: ATTEMPTS }), signal);
    const rows = found.map((each) => ({ ...each, event: { position: each.position, event: each.event } }));
    return attemptsTable(rows, { withEvent: true, empty: "No attempt is recorded." });
  } catch (error) {
    return failure(error, "the attempts of this subscription");
  }
}

async function letters(id, signal) {
  try {
    const { items } = await part(query(here("/dead-letters"), { subscription: id, limit: 20 }), signal);
    return lettersTable(items);
  } catch (error) {
    return failure(error, "dead letters");
  }
}
