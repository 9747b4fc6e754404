// Answers lines of cases with the JavaScript code of docs/how-to/verify-signatures.md.

import { readFileSync } from "node:fs";
import { Webhook } from "standardwebhooks";
import { isOurs as byPublicKey } from "./verify_v1a.mjs";
import { isOurs as bySecret } from "./verify_v1.mjs";

const names = ["webhook-id", "webhook-timestamp", "webhook-signature"];
const answers = readFileSync(0, "utf8").split("\n").slice(0, -1).map((line) => {
  const [what, key, ...rest] = line.split("\t");
  const body = Buffer.from(rest[3], "base64");
  if (what === "sign") {
    return new Webhook(key).sign(rest[0], new Date(Number(rest[1]) * 1000), body);
  }
  const headers = {};
  names.forEach((name, at) => {
    if (rest[at] !== "") headers[name] = rest[at];
  });
  return (what === "v1" ? bySecret : byPublicKey)(headers, body, key) ? "yes" : "no";
});
console.log(answers.join("\n"));
