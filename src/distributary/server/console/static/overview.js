// The namespace at a glance: whether all is well, what fails, rates, latencies, what waits.

import { Problem, get, here, part, query, session, unready } from "./api.js";
import { chart } from "./charts.js";
import { clip, counted, data, duration, h, number, put, time, to, toSubscription, visible } from "./dom.js";
import { action, badge, failure, heading, live, section, table } from "./parts.js";

const LOOK_MS = 2000;
const ATTENTION_MS = 5000;
const ATTENTION_MAX = 20;
const OTHERS_MAX = 200; // other namespaces that a look asks, one after the other
const TROUBLES = [["failing", "Failing"], ["lagging", "Lagging"], ["disabled", "Disabled"], ["parked", "Parked"],
  ["awaiting-consent", "No consent"], ["deadLetters", "Dead letters"]];

export async function overview(view, { signal }) {
  const tiles = h("div", { class: "tiles" });
  const plots = h("div", { class: "plots" });
  const figures = ["recent", "hour", "latency", "backlog"].map(() => h("figure", { class: "plot" }));
  const verdict = h("div", { role: "status" });
  const troubled = h("div");
  put(plots, figures);
  const traffic = section("Traffic", plots);
  put(view, heading("Overview", h("span", { class: "beside" }, "live")),
    section("Needs attention", verdict, troubled, seesSeveral() ? others(signal) : null), tiles, traffic);
  const looking = live(signal, ATTENTION_MS, () => attention(troubled, signal));
  await live(signal, LOOK_MS, async () => {
    try {
      const [now, why] = await Promise.all([get(here("/status"), signal), unready(signal)]);
      traffic.hidden = false;
      judge(now, why, verdict);
      draw(now, tiles, figures);
    } catch (error) {
      if (signal.aborted) return;
      put(verdict, failure(error, "the overview"));
      put(tiles);
      traffic.hidden = true;
    }
  });
  await looking;
}

function seesSeveral() {
  const names = session.who.namespaces;
  return names.includes("*") || names.length > 1;
}

/** The status of a namespace; null: the key may publish there, say, and not read. */
async function statusOf(name, signal) {
  try {
    return await get(here("/status", name), signal);
  } catch (error) {
    if (error instanceof Problem && error.status === 403) return null;
    throw error;
  }
}

/** A button that looks where else something is wrong: the pages show one namespace at a time. */
function others(signal) {
  const place = h("div");
  const look = async () => {
    const names = [...document.querySelectorAll("#namespace option")].map((each) => each.value)
      .filter((each) => each !== session.namespace);
    const rows = [];
    for (const name of names.slice(0, OTHERS_MAX)) {
      const now = await statusOf(name, signal);
      if (now) rows.push({ name, now });
    }
    const wrong = rows.filter(({ now }) => TROUBLES.some(([member]) => now[member]));
    put(place, wrong.length ? table([
      { name: "Namespace", show: ({ name }) => h("button", { type: "button", class: "quiet", onclick: () => {
        const chosen = document.getElementById("namespace");
        chosen.value = name;
        chosen.dispatchEvent(new Event("change"));
      } }, data(name, 63)) },
      ...TROUBLES.map(([member, title]) => ({ name: title, class: "num", show: ({ now }) => number(now[member]) })),
    ], wrong, { label: "Namespaces in which something is wrong" })
      : h("p", { class: "note good" }, rows.length ? `Nothing is wrong in ${counted(rows.length, "other namespace")}.`
        : "There is no other namespace that your key may read."),
    names.length > OTHERS_MAX ? h("p", { class: "note" }, `${names.length - OTHERS_MAX} more were not asked.`) : null);
  };
  return h("div", { class: "elsewhere" }, place, action("Look at other namespaces", look));
}

/** Says in a line whether all is well; the line stays as it is while nothing changes. */
function judge(now, why, verdict) {
  const some = (count, one, many) => (count ? [`${number(count, true)} ${count === 1 ? one : many}`] : []);
  const bad = [...(why === null ? [] : [`The server is not ready: ${visible(why, 300)}`]),
    ...some(now.failing, "subscription fails", "subscriptions fail")];
  const busy = [...some(now.lagging, "subscription lags behind", "subscriptions lag behind"),
    ...some(now.disabled, "subscription is disabled", "subscriptions are disabled"),
    ...some(now.parked, "subscription is parked", "subscriptions are parked"),
    ...some(now["awaiting-consent"], "subscription waits for its sink's consent", "subscriptions wait for their sinks' consent"),
    ...some(now.deadLetters, "dead letter is kept", "dead letters are kept")];
  const words = [...bad, ...busy].join(". ")
    || `All is well in the namespace ${visible(session.namespace, 63)}: nothing fails there, and the server is ready`;
  if (verdict.textContent === `${words}.`) return;
  put(verdict, h("p", { class: `note ${bad.length ? "bad" : busy.length ? "busy" : "good"}` }, `${words}.`));
}

function draw(now, tiles, [recent, hour, latency, backlog]) {
  const tile = (name, value, { href, tone } = {}) => h(href ? "a" : "div", { class: `tile ${tone ?? ""}`, href },
    h("span", null, name), h("b", { class: "num" }, value));
  const many = (name, count, state) => tile(name, number(count, true),
    { href: `${to("subscriptions")}?state=${state}`, tone: count && state === "failing" ? "bad" : "" });
  put(tiles,
    tile("Accepted/s", number(now.accepted)),
    tile("Delivered/s", number(now.delivered)),
    tile("Latency p50", duration(now.latency?.p50)),
    tile("Latency p99", duration(now.latency?.p99)),
    now.backlog === null ? null : tile("Backlog", number(now.backlog, true)),
    tile("In flight", number(now.inFlight, true)),
    tile("Waiting", number(now.waiting, true)),
    many("Failing", now.failing, "failing"),
    many("Lagging", now.lagging, "lagging"),
    many("Paused", now.paused, "paused"),
    many("Disabled", now.disabled, "disabled"),
    many("Parked", now.parked, "parked"),
    many("No consent", now["awaiting-consent"], "awaiting-consent"),
    tile("Dead letters", number(now.deadLetters, true), { href: to("dead-letters"), tone: now.deadLetters ? "warn" : "" }));
  const minutes = now.minutes;
  const seconds = now.seconds;
  const series = (points, name, read) => ({ name, points: points.map((each) => [new Date(each.time).getTime(), read(each)]) });
  const rates = (points) => [series(points, "accepted/s", (each) => each.accepted),
    series(points, "delivered/s", (each) => each.delivered),
    series(points, "failed attempts/s", (each) => each.attemptsFailed)];
  chart(recent, { title: "Last two minutes", series: rates(seconds) });
  chart(hour, { title: "Last hour", series: rates(minutes) });
  chart(latency, { title: "Latency", empty: "No delivery in the last two minutes.", format: duration, least: 0.001,
    series: [series(seconds, "p99", (each) => each.p99), series(seconds, "p50", (each) => each.p50)] });
  backlog.hidden = now.backlog === null; // it is the log's, which tenants share
  chart(backlog, { title: "Backlog", series: [series(minutes, "records", (each) => each.backlog)] });
}

/** Subscriptions that fail, with the reason. */
async function attention(place, signal) {
  try {
    const found = await part(query(here("/subscriptions"), { limit: ATTENTION_MAX, state: "failing" }), signal);
    put(place, found.items.length ? table([
      { name: "Subscription", show: (one) => toSubscription(one.id, 60) },
      { name: "State", show: (one) => badge(one.status.state) },
      { name: "Since", show: (one) => time(one.status.failing?.since) },
      { name: "Reason", show: (one) => data(one.status.failing?.reason, 120) },
      { name: "Sink", show: (one) => clip(one.sink, 80) },
    ], found.items, { label: "Subscriptions that fail" }) : null,
    found.next ? h("p", null, h("a", { href: `${to("subscriptions")}?state=failing` }, "All that fail")) : null);
  } catch (error) {
    // The line above says it where the server cannot be reached, or the key does not allow it.
    const isSaid = !(error instanceof Problem) || error.status === 403;
    if (!signal.aborted) put(place, isSaid ? null : failure(error, "a list of failing subscriptions"));
  }
}
