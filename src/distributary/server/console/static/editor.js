// Makes and changes subscriptions as JSON, and shows a new secret once.

import { here, send } from "./api.js";
import { data, h, to } from "./dom.js";
import { askFor, field, tell } from "./parts.js";

const TEMPLATE = {
  sink: "http://127.0.0.1:8900/",
  protocol: "HTTP",
  filters: [{ prefix: { type: "com.example." } }],
};

/** Asks for a subscription, and makes it. */
export async function make() {
  const found = await askFor({
    title: "New subscription",
    text: "With config.start = \"earliest\", or a time, it begins in the past.",
    fields: [
      field("Id", "id", { hint: "empty: the server chooses one" }),
      field("Subscription (JSON)", "body", { rows: 14, class: "code", value: pretty(TEMPLATE) }),
    ],
    yes: "Create",
    check: ({ body }) => JSON.parse(body),
  });
  if (!found) return;
  const options = { body: JSON.parse(found.body) };
  const { body } = found.id
    ? await send("PUT", here(`/subscriptions/${encodeURIComponent(found.id)}`), { ...options, headers: { "if-none-match": "*" } })
    : await send("POST", here("/subscriptions"), options);
  await showSecret(body);
  tell(`${body.id} is created`);
  location.hash = to("subscriptions", body.id);
}

/** Asks for changes of the subscription at `path`; nobody else's change is overwritten. */
export async function edit(path) {
  const { body: current, headers } = await send("GET", path);
  const { id: _id, status: _status, ...rest } = current;
  const found = await askFor({
    title: "Edit",
    text: "Secrets are shown as ***; left so, they stay as they are. A new secret replaces the old one.",
    fields: [field("Subscription (JSON)", "body", { rows: 18, class: "code", value: pretty(rest) })],
    yes: "Save",
    check: ({ body }) => JSON.parse(body),
  });
  if (!found) return false;
  const options = { body: JSON.parse(found.body), headers: { "if-match": headers.get("etag") } };
  await showSecret((await send("PUT", path, options)).body);
  tell("Saved");
  return true;
}

/** Replaces the key that signs deliveries, and shows the new secret. */
export async function rotate(path) {
  const found = await askFor({
    title: "Rotate the key that signs?",
    text: "Deliveries are signed with the new key and, for a while, with the old one too.",
    yes: "Rotate",
  });
  if (found) await showSecret((await send("POST", `${path}/signature/rotate`)).body);
}

/** Shows a secret that an answer has, which is told once. */
async function showSecret(subscription) {
  const secret = subscription?.protocolsettings?.signature?.secret;
  if (!secret || secret === "***") return;
  await askFor({
    title: "The secret of the signature",
    text: "It is shown this once. Give it to the receiver.",
    fields: [h("p", null, h("code", null, data(secret, 2000)))],
    yes: "I have it",
  });
}

function pretty(value) {
  return JSON.stringify(value, null, 2);
}
