// The deployed bundle: read, checked against its own hashes, and held as frozen values (edge/bundle.py).

import type { Answer } from "./decision";
import { BundleError } from "./errors";
import { type GuardData, Guards } from "./guards";
import { type Lang, type LangRule, NORMALISER_VERSION, Normaliser } from "./normaliser";
import { type LanguageData, SlotFiller, type ToolData } from "./slots";
import { strip } from "./unicode";

export const SCHEMA_VERSION = 4;
export const MANIFEST = "frontdesk.json";
export const ROUTER_FILE = "onnx/model_quantized.onnx";
const MAX_TOKENS = 512;

/** The files of a bundle folder that the isolate reads, as modules. */
export interface BundleFiles {
  readonly "frontdesk.json": ArrayBuffer;
  readonly "answers.jsonl": ArrayBuffer;
  readonly "tokenizer.json": ArrayBuffer;
  readonly "onnx/model_quantized.onnx": ArrayBuffer;
}

/** One thing users ask, as the runtime needs it. */
export interface Topic {
  readonly id: string;
  readonly route: string;
  readonly group: string | null;
  readonly validUntil: string | null;
  readonly tools: readonly string[];
}

/** From where on a group's topics are answered, and under which proof: see edge/bundle.py. */
export interface Threshold {
  readonly confidence: number;
  readonly margin: number;
  readonly proven: boolean;
  readonly bound: number;
  readonly max_wrong: number;
}

/** A stored text and how it must be read. */
export interface SelfTest {
  readonly text: string;
  readonly topic: string;
  readonly confidence: number;
}

interface ManifestTopic {
  readonly id: string;
  readonly route: string;
  readonly group: string | null;
  readonly valid_until: string | null;
  readonly tools: readonly string[];
  readonly signals: readonly string[] | null;
  readonly template: Record<string, string>;
}

interface Manifest {
  readonly schema_version: number;
  readonly name: string;
  readonly version: string;
  readonly files: Record<string, string>;
  readonly languages: readonly Lang[];
  readonly max_tokens: number;
  readonly normaliser: { version: number; traditional: string; simplified: string };
  readonly lang_rule: LangRule;
  readonly system_prompts: "any" | readonly string[];
  readonly public: boolean;
  readonly unproven: string;
  readonly thresholds: Record<string, Threshold>;
  readonly limits: Record<string, number>;
  readonly topics: readonly ManifestTopic[];
  readonly guards: GuardData;
  readonly tools: readonly ToolData[];
  readonly slots: LanguageData;
  readonly self_test: readonly SelfTest[];
}

/** A whole bundle. `topics[i]` belongs to `logits[:, i]`. */
export class Bundle {
  readonly name: string;
  readonly version: string;
  readonly languages: ReadonlySet<Lang>;
  readonly maxTokens: number;
  readonly normaliser: Normaliser;
  readonly topics: readonly Topic[];
  readonly byId: ReadonlyMap<string, Topic>;
  readonly minInScope: number;
  readonly maxNeedsContext: number;
  readonly maxNeedsContextInDialogue: number;
  readonly isPublic: boolean;
  readonly answerUnproven: boolean;
  readonly systemPrompts: ReadonlySet<string> | null;
  readonly guards: Guards;
  readonly slots: SlotFiller;
  readonly exact: ReadonlyMap<string, string>;
  readonly selfTest: readonly SelfTest[];
  private readonly thresholds: ReadonlyMap<string, Threshold>;
  private readonly answers: ReadonlyMap<string, Answer>;
  private readonly answerTopics: ReadonlyMap<string, string>;

  /** Throws where the manifest or the answers would weaken what stands between a query and an answer. */
  constructor(manifest: Manifest, answersFile: string) {
    const { normaliser, limits } = manifest;
    if (normaliser.version !== NORMALISER_VERSION) {
      throw new RangeError(
        `normaliser version ${normaliser.version}, this Frontdesk has ${NORMALISER_VERSION}`,
      );
    }
    checkManifest(manifest);
    this.name = manifest.name;
    this.version = text(manifest.version, "version");
    this.languages = new Set(manifest.languages.map(langOf));
    this.maxTokens = manifest.max_tokens;
    const { han_share, other_share } = manifest.lang_rule;
    const langRule = {
      han_share: share(han_share, "lang_rule.han_share"),
      other_share: share(other_share, "lang_rule.other_share"),
    };
    this.normaliser = new Normaliser(normaliser.traditional, normaliser.simplified, langRule);
    this.topics = manifest.topics.map(topicOf);
    this.byId = new Map(this.topics.map((topic) => [topic.id, topic]));
    if (this.byId.size < this.topics.length) throw new RangeError("two topics have one id");
    this.minInScope = share(limits["min_in_scope"], "limits.min_in_scope");
    this.maxNeedsContext = share(limits["max_needs_context"], "limits.max_needs_context");
    this.maxNeedsContextInDialogue = share(
      limits["max_needs_context_in_dialogue"],
      "limits.max_needs_context_in_dialogue",
    );
    this.isPublic = manifest.public === true;
    this.answerUnproven = manifest.unproven === "answer";
    this.systemPrompts = manifest.system_prompts === "any" ? null : new Set(manifest.system_prompts);
    const allowed = manifest.topics.map(({ id, signals }) => [id, signals && new Set(signals)] as const);
    this.guards = new Guards(manifest.guards, new Map(allowed));
    this.slots = new SlotFiller(manifest.tools, manifest.slots, this.normaliser);
    const unknown = this.topics.flatMap((topic) => topic.tools).find((name) => !this.slots.has(name));
    if (unknown !== undefined)
      throw new RangeError(`a topic names the tool ${unknown}, which is not in 'tools'`);
    this.selfTest = manifest.self_test;
    this.thresholds = new Map(Object.entries(manifest.thresholds).map(([k, v]) => [k, thresholdOf(k, v)]));
    const { answers, exact } = readAnswers(answersFile, this.byId);
    this.exact = exact;
    this.answers = answers;
    this.answerTopics = new Map([...answers.values()].map((answer) => [strip(answer.text), answer.topic]));
  }

  get label(): string {
    return `${this.name}@${this.version}`;
  }

  /** The threshold of a topic for a language: its own stricter one, else that of its group. */
  threshold(topic: Topic, lang: Lang): Threshold | null {
    const group = topic.group === null ? lang : `${topic.group}/${lang}`;
    return this.thresholds.get(`topic:${topic.id}/${lang}`) ?? this.thresholds.get(group) ?? null;
  }

  /** The curated text of a topic in a language. */
  answer(topic: string, lang: Lang): Answer | null {
    return this.answers.get(`${topic}/${lang}`) ?? null;
  }

  /** The topic whose curated answer `text` is, if it is one of ours. */
  answerTopic(text: string): string | null {
    return this.answerTopics.get(strip(text)) ?? null;
  }
}

/** The bundle of these files. Throws BundleError, which says what is wrong and what to do. */
export async function loadBundle(files: BundleFiles): Promise<Bundle> {
  const manifest = readManifest(files[MANIFEST]);
  await verify(files, manifest);
  try {
    return new Bundle(manifest, decoded(files["answers.jsonl"]));
  } catch (error) {
    if (error instanceof BundleError) throw error;
    throw new BundleError(
      `${MANIFEST} cannot be read (${said(error)}); build the bundle again with \`frontdesk train\`.`,
    );
  }
}

function readManifest(file: ArrayBuffer): Manifest {
  let manifest: unknown;
  try {
    manifest = JSON.parse(decoded(file));
  } catch (error) {
    throw new BundleError(`${MANIFEST} is not valid JSON (${said(error)}); copy the bundle again.`);
  }
  const version = isObject(manifest) ? manifest["schema_version"] : undefined;
  if (version !== SCHEMA_VERSION) {
    throw new BundleError(
      `${MANIFEST} has schema_version ${JSON.stringify(version)}; this Frontdesk reads ${SCHEMA_VERSION}. ` +
        "Build the bundle with the same version of Frontdesk that serves it.",
    );
  }
  return manifest as Manifest;
}

async function verify(files: BundleFiles, manifest: Manifest): Promise<void> {
  for (const name of [ROUTER_FILE, "tokenizer.json", "answers.jsonl"] as const) {
    const wanted = isObject(manifest.files) ? manifest.files[name] : undefined;
    if (wanted === undefined)
      throw new BundleError(`${MANIFEST} does not list ${name}; build the bundle again.`);
    const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", files[name]));
    if (hex(digest) !== wanted) {
      throw new BundleError(
        `${name} is not the file that ${MANIFEST} describes (its SHA-256 differs): it was altered or ` +
          "truncated; deploy the bundle again.",
      );
    }
  }
}

function checkManifest(manifest: Manifest): void {
  text(manifest.name, "name");
  const { max_tokens } = manifest;
  if (!Number.isInteger(max_tokens) || max_tokens <= 0 || max_tokens > MAX_TOKENS) {
    throw new RangeError(`'max_tokens' must be a whole number up to ${MAX_TOKENS}`);
  }
  if (manifest.languages.length === 0) throw new RangeError("'languages' must not be empty");
  const unguarded = manifest.topics.find(({ route, template, signals }) => {
    return (route === "answer" || Object.keys(template).length > 0) && signals === null;
  });
  if (unguarded) throw new RangeError(`the topic ${unguarded.id} can be answered here and has no 'signals'`);
}

/** A number in [0, 1]. Anything else would let comparisons fail towards answering. */
function share(value: unknown, name: string): number {
  if (typeof value !== "number" || !(value >= 0 && value <= 1)) {
    throw new RangeError(`${name} must be a number from 0 to 1`);
  }
  return value;
}

function text(value: unknown, name: string): string {
  if (typeof value !== "string") throw new TypeError(`'${name}' must be a text`);
  return value;
}

function thresholdOf(key: string, entry: Threshold): Threshold {
  if (typeof entry.proven !== "boolean")
    throw new TypeError(`thresholds.${key}.proven must be true or false`);
  return {
    confidence: share(entry.confidence, `thresholds.${key}.confidence`),
    margin: share(entry.margin, `thresholds.${key}.margin`),
    bound: share(entry.bound, `thresholds.${key}.bound`),
    max_wrong: share(entry.max_wrong, `thresholds.${key}.max_wrong`),
    proven: entry.proven,
  };
}

function topicOf(entry: ManifestTopic): Topic {
  const until = entry.valid_until;
  if (until !== null && !/^[0-9]{4}-[0-9]{2}-[0-9]{2}$/.test(until)) {
    throw new RangeError(`the topic ${entry.id} is valid until ${until}, which is no day`);
  }
  return {
    id: text(entry.id, "id"),
    route: text(entry.route, "route"),
    group: entry.group,
    validUntil: until,
    tools: entry.tools,
  };
}

function readAnswers(file: string, topics: ReadonlyMap<string, Topic>) {
  const answers = new Map<string, Answer>();
  const exact = new Map<string, string>();
  for (const [index, line] of file.split("\n").entries()) {
    if (!strip(line)) continue;
    try {
      const entry = JSON.parse(line);
      const answer = answerOf(entry, topics);
      const key = `${answer.topic}/${answer.lang}`;
      if (answers.has(key)) throw new RangeError(`${answer.topic} has two answers in ${answer.lang}`);
      answers.set(key, answer);
      for (const wording of entry.exact) {
        if ((exact.get(wording) ?? answer.topic) !== answer.topic) {
          throw new RangeError("an exact text belongs to another topic, too");
        }
        exact.set(wording, answer.topic);
      }
    } catch (error) {
      throw new BundleError(
        `answers.jsonl:${index + 1} is no answer (${said(error)}); build the bundle again with \`frontdesk train\`.`,
      );
    }
  }
  return { answers, exact };
}

function answerOf(entry: Record<string, unknown>, topics: ReadonlyMap<string, Topic>): Answer {
  const { topic, tokens, exact } = entry;
  if (typeof topic !== "string" || topics.get(topic)?.route !== "answer") {
    throw new RangeError(`there is no answer topic ${String(topic)}`);
  }
  if (typeof entry["text"] !== "string" || !strip(entry["text"]))
    throw new TypeError("'text' must be a text");
  if (typeof tokens !== "number" || !Number.isInteger(tokens) || tokens < 0) {
    throw new TypeError("'tokens' must be a whole number");
  }
  if (!Array.isArray(exact) || !exact.every((key) => typeof key === "string")) {
    throw new TypeError("'exact' must be a list of texts");
  }
  return { topic, lang: langOf(entry["lang"]), text: entry["text"], tokens };
}

function langOf(value: unknown): Lang {
  if (value !== "zh" && value !== "en") throw new RangeError(`${String(value)} is no language`);
  return value;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function decoded(file: ArrayBuffer): string {
  return new TextDecoder("utf-8", { fatal: true, ignoreBOM: false }).decode(file);
}

function said(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function hex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
