// The public API, as this tab may use it. The key is in this module's memory, and nowhere else.

const WAIT_MS = 30000; // longest wait for an answer
let key = "";
let refused = () => {};

export const session = {
  namespace: "default",
  who: null, // the answer of /whoami
};

/** An answer that is none of success: problem details, or a Status of the Kubernetes API. */
export class Problem extends Error {
  constructor(status, body) {
    super(body.detail ?? body.message ?? body.title ?? `the server answered ${status}`);
    this.status = status;
    this.code = body.code ?? "";
    this.faults = Array.isArray(body.faults) ? body.faults : [];
  }
}

export function showKey(text) { key = text.trim(); }
export function hasKey() { return key !== ""; }
export function forgetKey() { key = ""; session.who = null; }
export function onRefused(handler) { refused = handler; }

/** `path` in `namespace`, or in the one that is shown. */
export function here(path, namespace = session.namespace) {
  return namespace === "default" ? path : `/namespaces/${encodeURIComponent(namespace)}${path}`;
}

/** A path with parameters; those without a value are left out. */
export function query(path, parameters) {
  const found = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== "" && value !== null && value !== undefined) found.set(name, String(value));
  }
  const text = found.toString();
  return text ? `${path}?${text}` : path;
}

/** Sends a request; returns {status, body, headers}. Throws `Problem`, or an error of the network. */
export async function send(method, path, { body, type = "application/json", signal, headers } = {}) {
  const fields = new Headers(headers);
  // No header can have such characters, so no server can know the key.
  if (/[^\x20-\x7e]/.test(key)) throw refusal(new Problem(401, {}));
  if (key) fields.set("authorization", `Bearer ${key}`);
  if (body !== undefined) fields.set("content-type", type);
  const late = AbortSignal.timeout(WAIT_MS);
  const answer = await fetch(path, {
    method,
    headers: fields,
    body: body === undefined || typeof body === "string" ? body : JSON.stringify(body),
    signal: signal ? AbortSignal.any([signal, late]) : late,
    cache: "no-store",
    redirect: "error",
    referrerPolicy: "no-referrer",
  });
  const text = await answer.text();
  const isJson = (answer.headers.get("content-type") ?? "").includes("json");
  const read = isJson && text ? JSON.parse(text) : text;
  if (answer.ok) return { status: answer.status, body: read, headers: answer.headers };
  throw refusal(new Problem(answer.status, isJson && read ? read : {}));
}

/** `problem`, of which the page knows where the key is what is wrong. */
function refusal(problem) {
  if (problem.status === 401) refused(problem);
  return problem;
}

export async function get(path, signal) {
  return (await send("GET", path, { signal })).body;
}

/**
 * A part of a list: {items, next, looked}. `next`: the path of the next part, or null; `looked`: the
 * time since which a search has looked at everything.
 */
export async function part(path, signal) {
  const { body: items, headers } = await send("GET", path, { signal });
  return { items, next: nextOf(headers.get("link")), looked: headers.get("distributary-looked-to") };
}

function nextOf(link) {
  const found = /<(\/[^>]*)>\s*;\s*rel="?next"?/.exec(link ?? "");
  return found && !/^\/[/\\]/.test(found[1]) ? found[1] : null;
}

/** Why the server is not ready; null: it is. The reason itself is for who may observe the server. */
export async function unready(signal) {
  try {
    await send("GET", "/readyz", { signal });
    return null;
  } catch (error) {
    if (error instanceof Problem && error.status === 503) return error.message;
    throw error;
  }
}

/** Asks who we are; null: the server wants a key. */
export async function whoami() {
  try {
    session.who = await get("/whoami");
  } catch (error) {
    if (!(error instanceof Problem) || error.status !== 401) throw error;
    session.who = null;
  }
  return session.who;
}

/** Whether we may do `verb` in the namespace that is shown, by what /whoami said. */
export function may(verb) {
  const wide = { admin: [], write: ["admin"], read: ["write", "admin"], observe: ["admin"],
    publish: ["admin"] }[verb];
  return (session.who?.grants ?? []).some((grant) =>
    (grant.namespaces.includes("*") || grant.namespaces.includes(session.namespace))
    && grant.may.some((each) => each === verb || wide.includes(each)));
}
