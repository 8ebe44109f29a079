// Runs router graphs in onnxruntime-web's plain WASM build, on one thread: the other half of quantization.py.
//
//     node web_router.mjs WORK.json    WORK: {"models": {name: path}, "rows": [[token id, …], …]}
//
// It says what it is in one line of JSON; then each line {"model", "rows": [index, …]} on stdin is answered with
// {"ms": […], "reads": [{"logits", "in_scope", "needs_context", "exit"}, …]}. Each row is a batch of its own, as in a page.
// exit_thresholds cannot be given here: the web's API shows the two real inputs alone.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const require = createRequire(new URL("web/package.json", import.meta.url));
const ort = require("onnxruntime-web/wasm");
const OUTPUTS = ["logits", "in_scope", "needs_context", "sentence_embedding", "exit"];
const WARM = 30; // rows before anything is timed: V8 compiles WASM once more when it has become hot

ort.env.wasm.numThreads = 1;
ort.env.logLevel = "error";
const work = JSON.parse(readFileSync(process.argv[2], "utf8"));
const sessions = {};
for (const [name, path] of Object.entries(work.models)) {
  sessions[name] = await ort.InferenceSession.create(readFileSync(path), {
    executionProviders: ["wasm"],
    logSeverityLevel: 3,
  });
  for (const ids of work.rows.slice(0, WARM)) await run(sessions[name], ids);
}
const [first] = Object.values(sessions);
say({ node: process.version, onnxruntime_web: ort.env.versions.web, inputs: first.inputNames });

for await (const line of createInterface({ input: process.stdin })) {
  const { model, rows } = JSON.parse(line);
  await run(sessions[model], work.rows[rows[0]]); // the caches hold another model's weights
  const ms = [];
  const reads = [];
  for (const row of rows) {
    const started = performance.now();
    const found = await run(sessions[model], work.rows[row]);
    ms.push(performance.now() - started);
    reads.push({
      logits: Array.from(found.logits.data),
      in_scope: found.in_scope.data[0],
      needs_context: found.needs_context.data[0],
      exit: Number(found.exit.data[0]),
    });
  }
  say({ ms, reads });
}

function run(session, ids) {
  const shape = [1, ids.length];
  return session.run(
    {
      input_ids: new ort.Tensor("int64", BigInt64Array.from(ids, BigInt), shape),
      attention_mask: new ort.Tensor("int64", new BigInt64Array(ids.length).fill(1n), shape),
    },
    OUTPUTS,
  );
}

function say(value) {
  process.stdout.write(`${JSON.stringify(value)}\n`);
}
