// Runs: redrives, purges and replays, with their progress.

import { get, here, may, query, send } from "./api.js";
import { counted, data, exact, h, number, put, time, to, toSubscription } from "./dom.js";
import { PartedList, action, badge, facts, failure, heading, live, section, table, tell } from "./parts.js";

const LOOK_MS = 1000;
const LIST_MS = 3000;

/** What a run is of: one subscription or object, some dead letters, or all that it chose. */
function whose(found) {
  const some = found.ids ? counted(found.ids.length, "id") : "all";
  return found.subscription ? toSubscription(found.subscription, 50) : data(found.object ?? found.route ?? some, 80);
}

/** Shows the page of a run that was just asked for. */
export function openRun({ body }) {
  if (body?.run) location.hash = to("runs", body.run);
}

export async function runs(view, { signal }) {
  const list = new PartedList({
    path: query(here("/runs"), { limit: 50 }),
    show: (items) => table([
      { name: "Run", show: (each) => h("a", { href: to("runs", each.run) }, data(each.run, 50)) },
      { name: "Kind", show: (each) => h("span", null, data(each.kind), each.dryRun ? h("small", null, " only counts") : null) },
      { name: "Of", show: whose },
      { name: "State", show: (each) => badge(each.state) },
      { name: "Asked", show: (each) => time(each.asked) },
      { name: "By", show: (each) => data(each.by) },
      { name: "Looked at", class: "num", show: (each) => `${number(each.looked)} of ${number(each.total)}` },
      { name: "Handled", class: "num", show: (each) => number(each.handled) },
      { name: "Passed over", class: "num", show: (each) => number(each.passed) },
    ], items, { label: "Runs", empty: "Nothing was redriven, purged or replayed here." }),
    what: "a list of runs",
    signal,
  });
  put(view, heading("Runs", h("span", { class: "beside" }, "live")), section("Newest first", list.element));
  await live(signal, LIST_MS, () => list.element.contains(document.activeElement)
    && document.activeElement.closest("td") ? null : list.load());
}

export async function run(view, { item: name, signal }) {
  const path = here(`/runs/${encodeURIComponent(name)}`);
  const state = h("span");
  const told = h("div");
  const cancel = may("write") ? action("Cancel", async () => {
    await send("POST", `${path}/cancel`);
    tell("It is to be cancelled");
  }, { class: "danger" }) : null;
  put(view, heading(data(name, 60), state, cancel), told);
  let over = false;
  await live(signal, LOOK_MS, async () => {
    if (over) return;
    try {
      const found = await get(path, signal);
      over = found.state !== "running" && found.state !== "cancelling";
      put(state, badge(found.state));
      put(told, progress(found));
      if (over) cancel?.remove();
    } catch (error) {
      over = true;
      if (!signal.aborted) put(told, failure(error, "this run"));
    }
  });
}

function progress(found) {
  const { total, looked } = found;
  return h("div", null,
    total ? h("p", null, h("progress", { max: total, value: Math.min(looked, total), "aria-label": "Progress" }), " ",
      h("span", { class: "num" }, `${number(looked)} of ${number(total)} looked at`)) : null,
    facts([
      ["Kind", data(found.kind)],
      found.reason ? ["Ended early", data(found.reason)] : null,
      ["Asked", time(found.asked)],
      ["By", data(found.by)],
      found.waitsFor ? ["Waits for", data(found.waitsFor)] : null,
      ["Selected", number(found.selected)],
      ["Handled", number(found.handled)],
      ["Passed over", number(found.passed)],
      ["At most a second", number(found.rateLimit)],
      ["Only counted", found.dryRun ? "yes" : "no"],
      found.from ? ["From", exact(found.from)] : null,
      found.to ? ["To", exact(found.to)] : null,
      found.since ? ["Kept since", exact(found.since)] : null,
      found.until ? ["Kept until", exact(found.until)] : null,
      found.oldest ? ["The log begins", exact(found.oldest)] : null,
      ...(found.missing || []).map((each) => ["Missing",
        data(`${each.records} records of partition ${each.partition} from ${each.from} to ${each.to - 1}`)]),
      ["Of", whose(found)],
    ]));
}
