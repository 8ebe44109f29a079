// Opens the parts of the isolate one by one, for tests/contract: {"call": name, "rows": […]} gives one value a row.

import wasm from "onnxruntime-web/ort-wasm-simd-threaded.wasm";
import answers from "../../../models/demo/answers.jsonl";
import manifest from "../../../models/demo/frontdesk.json";
import router from "../../../models/demo/onnx/model_quantized.onnx";
import tokenizer from "../../../models/demo/tokenizer.json";
import { Host } from "../src/host";
import type { Runtime } from "../src/stages";
import { isLetter, isPrintable, lower, nfkc, saysSomething } from "../src/unicode";

const files = {
  "frontdesk.json": manifest,
  "answers.jsonl": answers,
  "tokenizer.json": tokenizer,
  "onnx/model_quantized.onnx": router,
};
const host = new Host(files, wasm, { mode: "on", share: 1 });

// biome-ignore lint/suspicious/noExplicitAny: rows are what the test sends
type Call = (row: any, runtime: Runtime) => unknown;

const CALLS: Record<string, Call> = {
  /** Of the code points [from, to): what folds to something else, and the kinds of each as bits. */
  unicode: ([from, to]: [number, number]) => {
    const folded: [number, string, string][] = [];
    let kinds = "";
    for (let point = from; point < to; point++) {
      const char = String.fromCodePoint(point);
      const [composed, small] = [nfkc(char), lower(char)];
      if (composed !== char || small !== char) folded.push([point, composed, small]);
      kinds += Number(isLetter(char)) + 2 * Number(saysSomething(char)) + 4 * Number(isPrintable(char));
    }
    return { folded, kinds };
  },
  lower: (text: string) => lower(text),
  nfkc: (text: string) => nfkc(text),
  normalise: (text: string, { bundle: { normaliser } }) => {
    const reading = normaliser.reading(text);
    return [reading, normaliser.typed(text), normaliser.exact(reading), normaliser.lang(reading)];
  },
  tokens: (text: string, { router }) => [router.tokens(text), router.tokens(text, false).length],
  read: (text: string, { router }) => router.read(text),
};

export default {
  async fetch(request: Request): Promise<Response> {
    await host.load();
    const { call, rows, together } = await request.json<{
      call: string;
      rows: unknown[];
      together?: boolean;
    }>();
    const { runtime } = host.pipeline!;
    const one = (row: unknown) => CALLS[call]!(row, runtime);
    if (together) return Response.json(await Promise.all(rows.map(one)));
    const values: unknown[] = [];
    for (const row of rows) values.push(await one(row));
    return Response.json(values);
  },
};
