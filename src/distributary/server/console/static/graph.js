// Brokers, Channels, Triggers and Subscriptions of the namespace as a graph, from the Kubernetes API.

import { get, session } from "./api.js";
import { data, h, put, s } from "./dom.js";
import { badge, failure, heading, node, section, table } from "./parts.js";

const DRAWN_MAX = 60; // routes that are drawn; the table has what was read
const READ_MAX = 500;
const ROW = 44;

async function list(group, plural, signal) {
  const path = `/apis/${group}/namespaces/${encodeURIComponent(session.namespace)}/${plural}?limit=${READ_MAX}`;
  return (await get(path, signal)).items;
}

export async function graph(view, { signal }) {
  let found;
  try {
    found = await Promise.all([
      list("eventing.knative.dev/v1", "brokers", signal),
      list("eventing.knative.dev/v1", "triggers", signal),
      list("messaging.knative.dev/v1", "channels", signal),
      list("messaging.knative.dev/v1", "subscriptions", signal),
    ]);
  } catch (error) {
    put(view, heading("Brokers and Triggers"), failure(error, "the Kubernetes API"));
    return;
  }
  const [brokers, triggers, channels, subscriptions] = found;
  const starts = [...brokers.map((each) => start(each, "Broker")), ...channels.map((each) => start(each, "Channel"))];
  const routes = [...triggers.map(trigger), ...subscriptions.map(subscription)];
  put(view, heading("Brokers and Triggers"),
    section("Graph", starts.length || routes.length ? drawing(starts, routes)
      : h("p", { class: "empty" }, "There are no Brokers and no Channels in this namespace. kubectl makes them.")),
    section("Brokers and Channels", table([
      { name: "Kind", show: (each) => each.kind },
      { name: "Name", show: (each) => data(each.name) },
      { name: "Ready", show: (each) => badge(each.ready) },
      { name: "Address", show: (each) => data(each.address, 120) },
    ], starts, { label: "Brokers and Channels", empty: "None." })),
    section("Triggers and Subscriptions", table([
      { name: "Kind", show: (each) => each.kind },
      { name: "Name", show: (each) => data(each.name) },
      { name: "From", show: (each) => data(each.from) },
      { name: "Filter", show: (each) => data(each.filter, 120) },
      { name: "To", show: (each) => data(each.target, 120) },
      { name: "State", show: (each) => badge(each.state) },
      { name: "Why not", show: (each) => data(each.why, 160) },
    ], routes, { label: "Triggers and Subscriptions", empty: "None." })));
}

function condition(object, type = "Ready") {
  return (object.status?.conditions ?? []).find((each) => each.type === type) ?? { status: "Unknown" };
}

/** One word for how a route stands, as of a subscription, and why. */
function standing(object) {
  const [ready, enabled, delivered] = ["Ready", "DeliveriesEnabled", "DeliveriesSucceeding"].map((type) => condition(object, type));
  const why = (found) => found.message || found.reason;
  if (ready.status !== "True") return ["not ready", why(ready)];
  if (enabled.status === "False") return [enabled.reason === "Disabled" ? "disabled" : "paused", why(enabled)];
  if (delivered.status === "False") return [delivered.reason === "AwaitingConsent" ? "awaiting-consent" : "failing", why(delivered)];
  return ["ready", ""];
}

function start(object, kind) {
  return { kind, name: object.metadata.name, key: `${kind}/${object.metadata.name}`,
    ready: condition(object).status, address: object.status?.address?.url };
}

function destination(spec) {
  const found = spec ?? {};
  return found.uri ?? (found.ref ? `${found.ref.kind} ${found.ref.name}` : "");
}

function route(object, kind, more) {
  const [state, why] = standing(object);
  return { kind, name: object.metadata.name, state, why, ...more };
}

function trigger(object) {
  const { spec } = object;
  const filter = spec.filters?.length ? JSON.stringify(spec.filters)
    : spec.filter?.attributes ? JSON.stringify(spec.filter.attributes) : "every event";
  return route(object, "Trigger", { from: `Broker/${spec.broker}`, filter,
    target: object.status?.subscriberUri ?? destination(spec.subscriber) });
}

function subscription(object) {
  const { spec } = object;
  return route(object, "Subscription", { from: `${spec.channel?.kind ?? "Channel"}/${spec.channel?.name}`,
    filter: "every event",
    target: object.status?.physicalSubscription?.subscriberUri ?? destination(spec.subscriber ?? spec.reply) });
}

function drawing(starts, routes) {
  const drawn = routes.slice(0, DRAWN_MAX);
  const targets = [...new Set(drawn.map((each) => each.target || "?"))];
  const rows = Math.max(starts.length, drawn.length, targets.length, 1);
  const height = rows * ROW + 16;
  const column = (count) => (index) => 8 + ((index + 0.5) * (height - 16)) / Math.max(1, count);
  const [left, middle, right] = [column(starts.length), column(drawn.length), column(targets.length)];
  const at = new Map(starts.map((each, index) => [each.key, left(index)]));
  const svg = s("svg", { class: "way graph", viewBox: `0 0 960 ${height}`, role: "img",
    "aria-label": `${starts.length} Brokers and Channels, ${routes.length} Triggers and Subscriptions, `
      + `${targets.length} destinations. The tables below have the same.` });
  drawn.forEach((each, index) => {
    const y = middle(index);
    const from = at.get(each.from);
    if (from !== undefined) svg.append(s("path", { class: "edge", d: `M230,${from}C300,${from} 300,${y} 375,${y}` }));
    const end = right(targets.indexOf(each.target || "?"));
    svg.append(s("path", { class: "edge", d: `M585,${y}C640,${y} 640,${end} 690,${end}` }));
  });
  starts.forEach((each, index) => svg.append(node(125, left(index), each.name, { below: each.kind, state: each.ready, half: 105 })));
  drawn.forEach((each, index) => svg.append(node(480, middle(index), each.name, { below: each.state === "ready" ? each.filter : each.state, state: each.state, half: 105 })));
  targets.forEach((each, index) => svg.append(node(820, right(index), each, { half: 130 })));
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Brokers and Triggers, drawn" }, svg,
    routes.length > drawn.length ? h("p", { class: "note" }, `${routes.length - drawn.length} more are in the tables below.`) : null);
}
