#!/usr/bin/env node
// Receives webhook requests from Holdfast and prints the events of tasks. It needs only Node
// 18 or newer. docs/webhooks.md describes the requests.
//
//     WEBHOOK_TOKEN=s3cret WEBHOOK_SECRET=whsec_... node examples/receivers/node/receiver.js
"use strict";

const { createHmac, timingSafeEqual } = require("node:crypto");
const http = require("node:http");

const MAX_BODY = 128 << 20;
const TOLERANCE = 5 * 60; // seconds
const MAX_REMEMBERED = 100_000; // event ids, to detect duplicates

const token = process.env.WEBHOOK_TOKEN || "";
const secrets = (process.env.WEBHOOK_SECRET || "").split(/\s+/).filter(Boolean).map((text) => {
  const key = Buffer.from(text.replace(/^whsec_/, ""), "base64");
  if (key.length === 0) fail("WEBHOOK_SECRET must be whsec_ followed by base64");
  return key;
});
if (!token && secrets.length === 0) {
  fail("set WEBHOOK_TOKEN, WEBHOOK_SECRET or both: otherwise anybody can send events");
}

function fail(text) {
  console.error(text);
  process.exit(1);
}

// equal compares two texts in constant time.
function equal(a, b) {
  const x = Buffer.from(a), y = Buffer.from(b);
  return x.length === y.length && timingSafeEqual(x, y);
}

// verify returns "" if the token and the signature of a request are valid, or the reason why
// not.
function verify(headers, body, now) {
  if (token && !equal(headers.authorization || "", "Bearer " + token)) return "wrong token";
  if (secrets.length === 0) return "";
  const id = headers["webhook-id"] || "", stamp = headers["webhook-timestamp"] || "";
  if (!/^\d+$/.test(stamp)) return "no timestamp";
  if (Math.abs(now - Number(stamp)) > TOLERANCE) return "timestamp is too old or in the future";
  // There are several signatures while a secret is rotated.
  const given = (headers["webhook-signature"] || "").split(/\s+/);
  for (const secret of secrets) {
    const mac = createHmac("sha256", secret).update(`${id}.${stamp}.`).update(body).digest("base64");
    if (given.some((one) => equal(one, "v1," + mac))) return "";
  }
  return "wrong signature";
}

// Received events. A durable receiver stores them in its database, in the same transaction as
// the effects of the event.
const seen = new Set(); // event_id, oldest first
const last = new Map(); // highest sequence by task

// receive prints an event unless it is a duplicate.
function receive(event) {
  const { event_id: id, task_id: task, sequence } = event;
  if (!id || !task || !(sequence > 0)) throw new TypeError("not an event");
  if (seen.has(id)) {
    console.error(`duplicate: ${task} ${sequence}`);
    return;
  }
  const before = last.get(task) || 0;
  let note = "";
  if (sequence < before) note = " (late)"; // replayed: later events were received before
  else if (before && sequence > before + 1) note = " (some before it are missing)"; // dead letters: replay them, or get the task
  console.log(`${task} ${sequence} ${describe(event)}${note}`);
  last.set(task, Math.max(before, sequence));
  seen.add(id);
  if (seen.size > MAX_REMEMBERED) seen.delete(seen.values().next().value);
}

function describe(event) {
  if (event.kind === "artifact-update") {
    const withdrawn = !event.append && event.artifact.parts.length === 0;
    const note = withdrawn ? " (withdrawn)" : event.last_chunk ? " (complete)" : "";
    return "artifact " + (event.artifact.name || event.artifact.artifact_id) + note;
  }
  const parts = event.status.message?.parts || [];
  return event.status.state + (parts.length ? ": " + (parts[0].text || "") : "") + (event.final ? " (final)" : "");
}

const server = http.createServer((req, res) => {
  const answer = (status, text) => res.writeHead(status).end(text);
  if (req.method !== "POST") return answer(405, "want POST");
  const chunks = []; // the signature is over the unmodified bytes
  let size = 0;
  req.on("data", (chunk) => {
    if ((size += chunk.length) <= MAX_BODY) return chunks.push(chunk);
    answer(413, "the body is too large");
    req.destroy();
  });
  req.on("end", () => {
    const body = Buffer.concat(chunks);
    const why = verify(req.headers, body, Date.now() / 1000);
    if (why) {
      console.error("refused: " + why);
      return answer(401, why);
    }
    try {
      receive(JSON.parse(body));
    } catch {
      return answer(400, "not an event");
    }
    answer(204); // respond last: Holdfast resends events without a 2xx response
  });
});
server.requestTimeout = 30_000;
server.listen(Number(process.env.PORT || 8000), "127.0.0.1", () => {
  console.error(`listening on http://127.0.0.1:${server.address().port}/`);
});
