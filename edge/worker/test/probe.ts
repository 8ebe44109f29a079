// Opens the parts of the isolate one by one, for tests/contract: {"call": name, "rows": […]} gives one value a row.

import wasm from "onnxruntime-web/ort-wasm-simd-threaded.wasm";
import answers from "../../../models/demo/answers.jsonl";
import manifest from "../../../models/demo/frontdesk.json";
import router from "../../../models/demo/onnx/model_quantized.onnx";
import tokenizer from "../../../models/demo/tokenizer.json";
import { SCHEMA_VERSION } from "../src/bundle";
import { loadSettings } from "../src/config";
import { Decimal, type SlotValue } from "../src/decision";
import { PATTERNS } from "../src/doubts";
import { hanNumber } from "../src/guards";
import { formatHints, parseKeys, signHints } from "../src/hints";
import { Host } from "../src/host";
import { withMember } from "../src/json";
import { isWithin, parseNetwork } from "../src/networks";
import { Normaliser } from "../src/normaliser";
import { place } from "../src/pipeline";
import { queryOfText } from "../src/query";
import { SlotFiller } from "../src/slots";
import { EventReader } from "../src/sse";
import type { Runtime } from "../src/stages";
import { isLetter, isPrintable, lower, nfkc, saysSomething } from "../src/unicode";

const files = {
  "frontdesk.json": manifest,
  "answers.jsonl": answers,
  "tokenizer.json": tokenizer,
  "onnx/model_quantized.onnx": router,
};
const host = new Host(files, wasm, { mode: "on", share: 1 });

// The memories that WASM modules work in; the inspector's heap leaves them out.
const memories: WebAssembly.Memory[] = [];
const { Instance } = WebAssembly;
WebAssembly.Instance = class extends Instance {
  constructor(module: WebAssembly.Module, imports?: WebAssembly.Imports) {
    super(module, imports);
    const given = Object.values(imports ?? {}).flatMap((names) => Object.values(names));
    const all = [...given, ...Object.values(this.exports)];
    memories.push(...all.filter((value) => value instanceof WebAssembly.Memory));
  }
};

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
  doubts: () => PATTERNS,
  /** The header of hints; a slot's value is [value] where Python holds a float. */
  hints: (row) => {
    const slots = Object.entries<SlotValue | [number]>(row.slots);
    const held = slots.map(
      ([name, value]) => [name, Array.isArray(value) ? new Decimal(value[0]) : value] as const,
    );
    return formatHints({ ...row, slots: new Map(held) });
  },
  sign: ([hints, id, body, key, now]) =>
    signHints(hints, id, new TextEncoder().encode(body), parseKeys(key)[0]!, now),
  /** The data of the events of a stream that comes in these pieces, and whether it ends within one. */
  events: (pieces: number[][]) => {
    const reader = new EventReader();
    const data = pieces.flatMap((piece) =>
      [...reader.feed(Uint8Array.from(piece))].map((bytes) => [...bytes]),
    );
    return [data, reader.midEvent];
  },
  /** Every tool's slots as each text fills them. */
  slots: ({ tools, data, texts }) => {
    const normaliser = new Normaliser();
    const filler = new SlotFiller(tools, data, normaliser);
    const names = tools.map(({ name }: { name: string }) => name);
    return texts.map(([text, today]: [string, string]) =>
      filler.suggest(names, queryOfText(text, normaliser), today).map(({ slots }) => [...slots]),
    );
  },
  member: ([text, name, value]) => withMember(text, name, value),
  place: (identity: string) => place(identity),
  number: (numeral: string) => hanNumber(numeral),
  within: ([address, networks]) => isWithin(address, networks.map(parseNetwork)),
  settings: (env) => {
    try {
      const { models, ...settings } = loadSettings(env);
      return {
        ...settings,
        models: Object.fromEntries(models),
        trustedProxies: settings.trustedProxies.length,
      };
    } catch (error) {
      return (error as Error).message;
    }
  },
  /** Two loads at once of a host of its own: what each gave, and how often the router's file was read. */
  loads: async () => {
    let reads = 0;
    const counted = new Proxy(files, {
      get: (target, name: keyof typeof files) => {
        if (name.endsWith(".onnx")) reads += 1;
        return target[name];
      },
    });
    const fresh = new Host(counted, wasm, { mode: "on", share: 1 });
    const [one, other] = await Promise.all([fresh.load(), fresh.load()]);
    return [one !== null && one === other, reads];
  },
  schema: () => SCHEMA_VERSION,
  memory: () => memories.reduce((bytes, { buffer }) => bytes + buffer.byteLength, 0),
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
    if (together) {
      // Each begins a few steps after the one before, in the middle of its work.
      const late = async (row: unknown, i: number) => {
        for (let steps = 0; steps < 3 * i; steps++) await null;
        return one(row);
      };
      return Response.json(await Promise.all(rows.map(late)));
    }
    const values: unknown[] = [];
    for (const row of rows) values.push(await one(row));
    return Response.json(values);
  },
};
