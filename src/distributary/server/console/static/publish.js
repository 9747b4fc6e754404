// Publishes a test event.

import { get, here, query, send, session } from "./api.js";
import { data, h, put, to, visible } from "./dom.js";
import { failure, field, form, heading, section } from "./parts.js";

const OPTIONAL = ["subject", "datacontenttype"];

export async function publish(view, { signal }) {
  const result = h("div", { "aria-live": "polite" });
  put(view, heading("Publish a test event"),
    form({ class: "stacked wide" }, async (found, place) => {
      try {
        put(result, await sent(found));
        place.elements.id.value = newId();
      } catch (error) {
        put(result, failure(error, "publishing"));
      }
    },
    field("To", "to", { options: await targets(signal) }),
    h("div", { class: "columns" },
      field("Id", "id", { value: newId(), required: true }),
      field("Source", "source", { value: "/console", required: true }),
      field("Type", "type", { value: "com.example.test", required: true }),
      field("Subject", "subject"),
      field("Content type", "datacontenttype", { value: "application/json" })),
    field("Data", "data", { rows: 6, value: '{"hello": "world"}', class: "code" }),
    field("Further attributes", "more", { rows: 2, value: "{}", class: "code", hint: "a JSON object of extension attributes" }),
    h("div", { class: "buttons" }, h("button", { type: "submit", class: "main" }, "Publish"))),
    section("Result", result));
}

function newId() {
  // crypto.randomUUID is there on secure origins alone, which http on another machine is not.
  const octets = crypto.getRandomValues(new Uint8Array(8));
  return `console-${Array.from(octets, (each) => each.toString(16).padStart(2, "0")).join("")}`;
}

/** Where events can go: the subscriptions of the namespace, and its Brokers and Channels. */
async function targets(signal) {
  const found = [[here("/events"), "the subscriptions of this namespace"]];
  const name = encodeURIComponent(session.namespace);
  const kinds = [["eventing.knative.dev/v1", "brokers", "Broker"], ["messaging.knative.dev/v1", "channels", "Channel"]];
  for (const [group, plural, word] of kinds) {
    try {
      const list = await get(`/apis/${group}/namespaces/${name}/${plural}?limit=100`, signal);
      for (const each of list.items) {
        found.push([`/${plural}/${name}/${encodeURIComponent(each.metadata.name)}`, `${word} ${visible(each.metadata.name, 60)}`]);
      }
    } catch {
      // Without them, or without leave to list them, events still go to subscriptions.
    }
  }
  return found;
}

async function sent(found) {
  const event = { specversion: "1.0", id: found.id, source: found.source, type: found.type };
  for (const name of OPTIONAL) if (found[name]) event[name] = found[name];
  Object.assign(event, JSON.parse(found.more || "{}"));
  if (found.data) event.data = /json/i.test(found.datacontenttype || "json") ? JSON.parse(found.data) : found.data;
  await send("POST", found.to, { body: JSON.stringify(event), type: "application/cloudevents+json" });
  return h("p", { class: "note good" }, "It is on disk: ", data(found.id), ". ",
    h("a", { href: `${to("events")}${query("", { id: found.id })}` }, "Find it, and its way"));
}
