// The router: one tokenizer call and one run of the ONNX graph give the reading of a text (edge/router.py).

import { Tokenizer } from "@huggingface/tokenizers";
import { type Bundle, type BundleFiles, MANIFEST, ROUTER_FILE } from "./bundle";
import { Reading } from "./decision";
import { BundleError, RouterError } from "./errors";
import { createSession, type InferenceSession, Tensor } from "./ort";
import { saysSomething } from "./unicode";

const OUTPUTS = ["logits", "in_scope", "needs_context", "sentence_embedding", "exit"];
const TOP_CANDIDATES = 3;
// INT8 rounding differs in the last bit between processors and cascades; the same topic must win.
const SELF_TEST_TOLERANCE = 0.05;

/** Reads normalised texts. One instance an isolate. */
export class Router {
  private readonly alphabet: ReadonlySet<string>;
  private running: Promise<unknown> | null = null;

  constructor(
    private readonly bundle: Bundle,
    private readonly session: InferenceSession,
    private readonly tokenizer: Tokenizer,
  ) {
    this.alphabet = new Set([...tokenizer.get_vocab().keys()].filter((piece) => [...piece].length === 1));
  }

  /** The token ids of a text, with the two special ones unless `special` is false. */
  tokens(normal: string, special = true): number[] {
    return this.tokenizer.encode(normal, { add_special_tokens: special }).ids;
  }

  /** The reading of a normalised text; null where it has more than `maxTokens` tokens. Throws RouterError. */
  async read(normal: string): Promise<Reading | null> {
    const ids = this.tokens(normal);
    if (ids.length > this.bundle.maxTokens) return null;
    const shape = [1, ids.length];
    const found = await this.run({
      input_ids: new Tensor("int64", BigInt64Array.from(ids, BigInt), shape),
      attention_mask: new Tensor("int64", new BigInt64Array(ids.length).fill(1n), shape),
    });
    const logits = floats(found, "logits");
    const [inScope, needsContext] = [floats(found, "in_scope")[0]!, floats(found, "needs_context")[0]!];
    if (![...logits, ...floats(found, "sentence_embedding"), inScope, needsContext].every(Number.isFinite)) {
      throw new RouterError("The router's output is not finite.");
    }
    const candidates = softmax(logits)
      .map((share, i) => ({ topic: this.bundle.topics[i]!.id, confidence: Math.fround(share * inScope) }))
      .sort((a, b) => b.confidence - a.confidence)
      .slice(0, TOP_CANDIDATES);
    const unread = [...normal].filter((char) => !this.alphabet.has(char) && saysSomething(char)).join("");
    const exit = Number(found["exit"]!.data[0]);
    return new Reading(candidates, inScope, needsContext, exit, ids.length, unread);
  }

  /** One run at a time: onnxruntime-web waits in the middle of a run with its arguments on the WASM stack. */
  private async run(feeds: InferenceSession.FeedsType): Promise<InferenceSession.OnnxValueMapType> {
    while (this.running !== null) await this.running;
    const run = this.session.run(feeds, OUTPUTS);
    this.running = run.then(
      () => null,
      () => null,
    );
    try {
      return await run;
    } finally {
      this.running = null;
    }
  }
}

/** The router of a bundle, after its stored texts have given their stored readings. Throws BundleError. */
export async function loadRouter(
  bundle: Bundle,
  files: BundleFiles,
  wasm: WebAssembly.Module,
): Promise<Router> {
  let router: Router;
  try {
    const session = await createSession(wasm, files[ROUTER_FILE]);
    const logits = session.outputMetadata.find(({ name }) => name === "logits");
    const width = logits?.isTensor ? logits.shape.at(-1) : undefined;
    if (width !== bundle.topics.length) {
      throw new BundleError(
        `The router tells ${width} topics apart, ${MANIFEST} lists ${bundle.topics.length}; build the bundle again.`,
      );
    }
    const tokenizer = JSON.parse(new TextDecoder().decode(files["tokenizer.json"]));
    router = new Router(bundle, session, new Tokenizer(tokenizer, {}));
  } catch (error) {
    if (error instanceof BundleError) throw error;
    throw new BundleError(`The router cannot be loaded (${String(error)}); build the bundle again.`);
  }
  await selfTest(bundle, router);
  return router;
}

async function selfTest(bundle: Bundle, router: Router): Promise<void> {
  if (bundle.selfTest.length === 0) throw new BundleError("The bundle has no self-test; build it again.");
  for (const { text, topic, confidence } of bundle.selfTest) {
    const reading = await router.read(text);
    if (reading?.topic !== topic || Math.abs(reading.confidence - confidence) > SELF_TEST_TOLERANCE) {
      const got = reading ? `${reading.topic} at ${reading.confidence.toFixed(3)}` : "nothing";
      throw new BundleError(
        `The self-test failed: ${JSON.stringify(text)} should be read as ${topic} at ` +
          `${confidence.toFixed(3)}, got ${got}.`,
      );
    }
  }
}

function floats(found: InferenceSession.OnnxValueMapType, name: string): Float32Array {
  return found[name]!.data as Float32Array;
}

/** Shares that add up to 1, in float32 as numpy computes them. */
function softmax(logits: Float32Array): number[] {
  const top = Math.max(...logits);
  const powers = Array.from(logits, (logit) => Math.fround(Math.exp(Math.fround(logit - top))));
  const sum = Math.fround(powers.reduce((total, power) => total + power, 0));
  return powers.map((power) => Math.fround(power / sum));
}
