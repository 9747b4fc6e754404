// One event and its way: accepted, matched or not and why, each attempt, the outcome.

import { get, here, query } from "./api.js";
import { clock, counted, data, duration, exact, h, json, number, put, s, to, toSubscription, visible } from "./dom.js";
import { badge, facts, failure, field, form, heading, node, section, table } from "./parts.js";
import { of } from "./events.js";

const RECORDED = { // which attempts the server keeps, where those are not all
  failures: "This server records failed attempts alone.",
  none: "This server records no attempts.",
  elsewhere: "Attempts of that time are in the history elsewhere.",
};
const MISSED_MAX = 50; // subscriptions that are told although they did not get it
const LANES_MAX = 40; // lanes that are drawn: the table below has all
const LANE = 46;
const SEEN_LANES = 7; // lanes that a window shows without scrolling
const WAITS_MAX = 20; // subscriptions for which it waits that are asked why
const DOTS_MAX = 8; // attempts of a lane that are drawn

export async function event(view, { item: position, signal }) {
  let found;
  try {
    found = await get(here(`/events/${encodeURIComponent(position)}`), signal);
  } catch (error) {
    put(view, heading("Event", data(position)), failure(error, "the way of an event"));
    return;
  }
  const attributes = of(found);
  const hit = found.matches.filter((each) => each.matched);
  const missed = found.matches.filter((each) => !each.matched);
  put(view,
    heading(data(attributes.id, 80), h("span", { class: "beside" }, data(attributes.type, 80)),
      h("a", { class: "button", href: to("publish") }, "Publish another")),
    facts([
      ["Accepted", exact(found.time)],
      ["Published by", data(found.by)],
      ["At", data(found.address || "/events")],
      ["Position", data(found.position)],
      ["Matches", number(hit.length)],
    ]),
    section("Its way", way(found, hit)),
    section("Attempts", RECORDED[found.attempts] ? h("p", { class: "note" }, RECORDED[found.attempts]) : null,
      hit.length ? hit.map(lane) : h("p", { class: "empty" }, found.repeats
        ? `It repeats the event at ${found.repeats}, so nobody got it again.` : "Nobody was to get it.")),
    missed.length ? section("Why others did not get it", missed.slice(0, MISSED_MAX).map(missing)) : null,
    found.more || missed.length > MISSED_MAX ? oneOf(position, signal) : null,
    section("The event", found.event === null ? h("p", { class: "note" }, "A newer version wrote it.")
      : json(found.event, "The event")));
  await explainWaits(hit, signal);
}

/** Says why it waits for subscriptions: they are paused, lag behind, and so on. */
async function explainWaits(hit, signal) {
  const waits = hit.filter((each) => each.subscription && !each.deleted && outcomeOf(each) === "waiting");
  for (const match of waits.slice(0, WAITS_MAX)) {
    try {
      const { state } = await get(here(`/subscriptions/${encodeURIComponent(match.subscription)}/status`), signal);
      if (state !== "ready") put(match.place, " it is ", badge(state));
    } catch {
      return; // the server is away, say: the rest of the page stands
    }
  }
}

/** One that the event was not for, and why. */
function missing(match) {
  return h("details", null, h("summary", null, data(nameOf(match)), " ", badge("no match"), " ", reasonOf(match.why)),
    reasons(match.why), match.changed ? h("p", { class: "note" }, "It has changed since: its filter may have "
      + "been another one then.") : null);
}

/** Asks about one subscription, where there are more than are told. */
function oneOf(position, signal) {
  const told = h("div");
  const ask = async ({ subscription }) => {
    try {
      const place = here(`/events/${encodeURIComponent(position)}`);
      const { matches } = await get(query(place, { subscription }), signal);
      put(told, matches.map((each) => (each.matched ? lane(each) : missing(each))),
        matches.length ? null : h("p", { class: "empty" }, "Nothing is known of it and this event."));
    } catch (error) {
      if (!signal.aborted) put(told, failure(error, "the way to a subscription"));
    }
  };
  return section("There are more than are told here", form({ class: "inline" }, ask,
    field("Subscription", "subscription", { placeholder: "a whole id", required: true }),
    h("button", { type: "submit" }, "Ask")), told);
}

/** The subscription or Trigger of a match. */
function nameOf(match) {
  return match.subscription ?? match.trigger ?? match.object ?? match.uid;
}

function reasonOf(why) {
  return data(why?.[0]?.reason, 200);
}

/** Why a filter does not pass the event: each reason with its place in the filter. */
function reasons(why) {
  return h("ul", null, (why ?? []).map((each) =>
    h("li", null, data(each.reason, 400), " ", h("small", null, data(each.path, 120)))));
}

/** One word for what became of a match. */
function outcomeOf(match) {
  return match.outcome ?? (match.waiting === false ? "not kept" : "waiting");
}

function lane(match) {
  const name = nameOf(match);
  match.place = h("span", { class: "beside" });
  return h("div", { class: "lane" },
    h("h3", null, match.subscription && !match.deleted ? toSubscription(name) : data(name), " ",
      match.deleted ? h("small", null, "deleted since, or ended ") : null,
      badge(outcomeOf(match)), match.place, match.reason ? h("span", { class: "beside" }, " ", data(match.reason, 120)) : null),
    attemptsTable(match.attempts, { of: visible(name, 60), empty: match.waiting === false ? "No attempt is kept." : "No attempt yet." }));
}

/** A table of attempts. */
export function attemptsTable(attempts, { withEvent = false, of: whose = "it", empty } = {}) {
  return table([
    withEvent ? { name: "Event", show: (each) => h("a", { href: to("events", each.event.position) }, data(of(each.event).id, 50)) } : null,
    { name: "Time", show: (each) => clock(each.time) },
    { name: "Attempt", class: "num", show: (each) => number(each.attempt) },
    { name: "To", show: (each) => data(each.stage) },
    { name: "Took", class: "num", show: (each) => duration(each.duration) },
    { name: "Status", class: "num", show: (each) => data(each.status) },
    { name: "Decision", show: (each) => badge(each.decision) },
    { name: "Reason", show: (each) => data(each.reason, 200) },
    { name: "Answer", show: (each) => data(each.answer, 120) },
  ].filter(Boolean), attempts, { label: `Attempts for ${whose}`, empty });
}

/** Why an attempt failed, without what became of its event: the box at the end of the lane says that. */
function inShort(reason) {
  return (reason ?? "").replace(/^attempts-used-up: /, "").split(":", 1)[0];
}

/** Draws accepted -> matched -> attempts -> outcome, a lane for each match. */
function way(found, hit) {
  const lanes = hit.slice(0, LANES_MAX);
  const height = Math.max(1, lanes.length) * LANE + 24;
  // Of many lanes in the middle of the first: where a way begins is seen without scrolling.
  const middle = 12 + (Math.min(Math.max(1, lanes.length), SEEN_LANES) * LANE) / 2;
  const words = lanes.map((match) => `${visible(nameOf(match), 40)}: ${counted(match.attempts.length, "attempt")}, `
    + `${visible(outcomeOf(match), 20)}`);
  const svg = s("svg", { class: "way", viewBox: `0 0 900 ${height}`, role: "img",
    "aria-label": `Accepted, then ${hit.length === 1 ? "1 match" : `${hit.length} matches`}. ${words.join(". ")}` });
  svg.append(node(70, middle, "accepted", { below: found.by, state: "accepted", half: 58 }));
  if (!lanes.length) {
    svg.append(s("path", { class: "edge", d: `M128,${middle}H220` }), node(280, middle, "no match"));
  }
  lanes.forEach((match, index) => {
    const y = 12 + index * LANE + LANE / 2;
    const outcome = outcomeOf(match);
    svg.append(s("path", { class: "edge", d: `M128,${middle}C180,${middle} 170,${y} 222,${y}H768` }),
      node(290, y, nameOf(match), { below: match.subscription ? "subscription" : match.trigger ? "Trigger" : "", half: 68 }));
    const { attempts } = match;
    const drawn = attempts.slice(-DOTS_MAX);
    drawn.forEach((each, place) => {
      const x = 400 + (place * 340) / DOTS_MAX;
      svg.append(s("circle", { class: `dot ${each.decision === "delivered" ? "good" : "bad"}`, cx: x, cy: y, r: 8 }),
        s("text", { class: "in", x, y: y + 3.5 }, String(attempts.length - drawn.length + place + 1)),
        s("text", { class: "below", x, y: y + 20 }, visible(each.status ?? inShort(each.reason), 9)));
    });
    if (attempts.length > drawn.length) {
      svg.append(s("text", { class: "below", x: 400, y: y - 13 }, `${attempts.length - drawn.length} more before`));
    }
    svg.append(node(830, y, outcome, { state: outcome }));
  });
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Its way, drawn" }, svg,
    hit.length > lanes.length ? h("p", { class: "note" }, `${hit.length - lanes.length} more are in the tables below.`) : null);
}
