#!/usr/bin/env node
// An agent in JavaScript, Node's standard library only: counts the words of a text, as wordcount.py does.
//
//     holdfast serve --exec "node examples/exec/wordcount.mjs"
//
// docs/exec.md describes the protocol.

import { createInterface } from "node:readline";

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

// Writes a line to the server.
function write(type, members = {}) {
  process.stdout.write(JSON.stringify({ type, ...members }) + "\n");
}

// Reads the next line of the server.
async function read() {
  const { value, done } = await lines.next();
  if (done) throw new Error("the server has closed the input");
  const message = JSON.parse(value);
  if (message.type === "cancel") throw new Error("canceled: " + message.reason);
  return message;
}

// Does work once per turn, also when the turn runs again.
async function step(name, work) {
  write("step", { name });
  const answer = await read();
  if (answer.done) return answer.result;
  const result = await work();
  write("step_done", { name, result });
  await read(); // step_stored
  return result;
}

function count(text) {
  console.error("counting"); // standard error goes to the server's log
  const times = new Map();
  for (const word of text.toLowerCase().match(/[\p{L}\p{N}_]+/gu) ?? []) times.set(word, (times.get(word) ?? 0) + 1);
  const top = [...times].sort((a, b) => b[1] - a[1]).slice(0, 10);
  return { words: [...times.values()].reduce((a, b) => a + b, 0), top };
}

async function main() {
  const turn = await read();
  if (!turn.text.trim()) return write("require_input", { text: "Send the text whose words I should count." });
  write("status", { text: "counting" });
  const counts = await step("count", () => count(turn.text));
  for (const [word, times] of counts.top) write("artifact", { name: "words", text: `${times} ${word}\n` });
  write("artifact", { name: "words", parts: [{ kind: "data", data: { words: counts.words } }], last: true });
  write("result", { text: `${counts.words} words` });
}

main().then(() => lines.return()).catch((error) => {
  console.error(error.message);
  process.exit(1);
});
