// The last user turn with what surrounds it, read out of a chat-completions body (edge/query.py).

import { isObject, isTruthy, type Json, type JsonObject } from "./json";
import type { Lang, Normaliser } from "./normaliser";
import { first } from "./unicode";
import type { Chat } from "./wire";

const isText = (value: Json) => typeof value === "string";
const isFlag = (value: Json) => typeof value === "boolean";
const isNumber = (value: Json) => typeof value === "number";
const isWhole = (value: Json) => Number.isInteger(value) || isHuge(value);

// Options that change neither whether a curated answer is right nor how it is rendered, and what they hold.
const HARMLESS: Record<string, (value: Json) => boolean> = {
  model: isText,
  messages: () => true,
  stream: isFlag,
  stream_options: isObject,
  temperature: isNumber,
  top_p: isNumber,
  seed: isWhole,
  user: isText,
  metadata: isObject,
  store: isFlag,
  max_tokens: isWhole,
  max_completion_tokens: isWhole,
};
const TOOL_OPTIONS = ["tools", "functions", "tool_choice", "function_call", "parallel_tool_calls"];

// See edge/query.py for these.
export const MAX_CHARACTERS = 2048;
const MAX_HISTORY = 64;
// What a message and a text part may hold; anything else (images, audio, files, …) is an attachment.
const MESSAGE_KEYS = new Set(["role", "content", "name"]);
const PART_KEYS = new Set(["type", "text", "cache_control"]);

/** One message before the query. `text` is what of it is text. */
export interface Turn {
  readonly role: string;
  readonly text: string;
}

/** What the stages decide on: see edge/query.py. */
export interface Query {
  readonly normal: string;
  readonly typed: string;
  readonly lang: Lang | null;
  readonly clipped: boolean;
  readonly history: readonly Turn[];
  readonly system: string | null;
  readonly model: string;
  readonly stream: boolean;
  readonly includeUsage: boolean;
  readonly maxTokens: number | null;
  readonly options: ReadonlySet<string>;
  readonly clientTools: boolean;
  readonly attachment: boolean;
  readonly lastIsUser: boolean;
  readonly identity: string;
}

/** A bare query, as `/v1/classify` makes it of a text. */
export function queryOfText(text: string, normaliser: Normaliser): Query {
  return {
    ...read(text, normaliser),
    history: [],
    system: null,
    model: "",
    stream: false,
    includeUsage: false,
    maxTokens: null,
    options: new Set(),
    clientTools: false,
    attachment: false,
    lastIsUser: true,
    identity: "",
  };
}

/** The query of a chat body. */
export async function queryOfBody(body: Chat, normaliser: Normaliser, identity = ""): Promise<Query> {
  const { messages } = body;
  const last = messages.at(-1)!;
  const { history, systems } = surroundings(messages);
  return {
    ...read(contentText(last["content"]).text, normaliser),
    history,
    system: systems.length > 0 ? await fingerprint(systems.join("\n")) : null,
    model: typeof body["model"] === "string" ? body["model"] : "",
    stream: body["stream"] === true,
    includeUsage: isObject(body["stream_options"]) && body["stream_options"]["include_usage"] === true,
    maxTokens: maxTokensOf(body),
    options: unusualOptions(body),
    clientTools: toolsInTail(messages) || TOOL_OPTIONS.some((name) => isTruthy(body[name])),
    attachment: hasAttachment(messages),
    lastIsUser: last["role"] === "user",
    identity,
  };
}

/** The text of the assistant turn right before the query, if there is one. */
export function lastAssistant({ history }: Query): string | null {
  const last = history.at(-1);
  return last?.role === "assistant" ? last.text : null;
}

/** The text of a message's content, and whether that is all there is. Text parts are joined by a line break. */
export function contentText(content: Json | undefined): { text: string; isAll: boolean } {
  if (typeof content === "string") return { text: content, isAll: true };
  if (content === null || content === undefined) return { text: "", isAll: true };
  if (!Array.isArray(content)) return { text: "", isAll: false };
  const texts: string[] = [];
  let isAll = true;
  for (const part of content) {
    if (isObject(part) && part["type"] === "text" && typeof part["text"] === "string") {
      texts.push(part["text"]);
      isAll &&= Object.keys(part).every((key) => PART_KEYS.has(key));
    } else isAll = false;
  }
  return { text: texts.join("\n"), isAll };
}

/** Sixteen hexadecimal digits that stand for a system prompt. */
async function fingerprint(system: string): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(system));
  return Array.from(new Uint8Array(digest, 0, 8), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function read(text: string, normaliser: Normaliser) {
  const typed = first(text, MAX_CHARACTERS);
  const normal = normaliser.reading(typed);
  return { normal, typed, lang: normaliser.lang(normal), clipped: typed.length < text.length };
}

/** The last MAX_HISTORY turns before the query without system prompts, and all system prompts. */
function surroundings(messages: readonly JsonObject[]): { history: Turn[]; systems: string[] } {
  const before = messages.slice(0, -1);
  const isPrompt = ({ role }: JsonObject) => role === "system" || role === "developer";
  const history = before
    .slice(-MAX_HISTORY)
    .filter((message) => !isPrompt(message))
    .map(({ role, content }) => ({
      role: typeof role === "string" ? role : "",
      text: contentText(content).text,
    }));
  return { history, systems: before.filter(isPrompt).map(({ content }) => contentText(content).text) };
}

/** Whether a tool has just spoken, or was just called. */
function toolsInTail(messages: readonly JsonObject[]): boolean {
  return messages
    .slice(-2)
    .some(
      (message) =>
        message["role"] === "tool" ||
        message["role"] === "function" ||
        isTruthy(message["tool_calls"]) ||
        isTruthy(message["function_call"]),
    );
}

/** Whether anything but text came since the last assistant turn. */
function hasAttachment(messages: readonly JsonObject[]): boolean {
  for (const message of messages.toReversed()) {
    if (message["role"] !== "user") return false;
    const set = Object.keys(message).filter((key) => message[key] !== null);
    if (!set.every((key) => MESSAGE_KEYS.has(key)) || !contentText(message["content"]).isAll) return true;
  }
  return false;
}

function maxTokensOf(body: JsonObject): number | null {
  const limits = [body["max_tokens"], body["max_completion_tokens"]];
  const numbers = limits.filter((limit): limit is number => typeof limit === "number" && isWhole(limit));
  return numbers.length > 0 ? Math.min(...numbers) : null;
}

/** Names of options that are set (null is unset) and not harmless, or harmless but malformed. */
function unusualOptions(body: JsonObject): Set<string> {
  const unusual = new Set<string>();
  for (const [name, value] of Object.entries(body)) {
    if (value === null || TOOL_OPTIONS.includes(name)) continue;
    if (!Object.hasOwn(HARMLESS, name) || !HARMLESS[name]!(value)) unusual.add(name);
  }
  const options = body["stream_options"];
  if (isObject(options)) {
    const names = Object.keys(options);
    const known = names.every((name) => name === "include_usage" || name === "include_obfuscation");
    if (!known || (names.length > 0 && body["stream"] !== true)) unusual.add("stream_options");
  }
  return unusual;
}

/** A whole number that only Python can hold: a fraction of that size would have been refused. */
function isHuge(value: Json): boolean {
  return typeof value === "number" && !Number.isFinite(value);
}
