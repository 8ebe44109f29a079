// The OpenAI wire: reading a chat body, rendering a completion whole or as a stream (edge/wire.py).

import type { Answer } from "./decision";
import { BadRequest } from "./errors";
import { isObject, type Json, type JsonObject, parseJson } from "./json";

export const SSE_DONE = "data: [DONE]\n\n";
// A curated answer is sent in pieces of about this many characters, broken after a line or a word.
const PIECE = /[^\n]{1,60}(?:[ ,.;，。；、]|$)|[^\n]{1,60}|\n+/gu;

/** A chat body: `messages` is a non-empty list of objects. */
export type Chat = JsonObject & { messages: JsonObject[] };

/** What a completion is besides its text. */
export interface Completion {
  readonly id: string;
  readonly model: string;
  readonly created: number;
  readonly fingerprint: string;
  readonly promptTokens: number;
}

/** The text that a body is: UTF-8. Throws BadRequest. */
export function bodyText(body: Uint8Array): string {
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: false }).decode(body);
  } catch {
    throw new BadRequest("The body is not valid JSON: it is not UTF-8; send JSON in UTF-8.", {
      code: "invalid_json",
    });
  }
  if (!text.trim()) throw new BadRequest("The body is empty: send a JSON object.", { code: "invalid_json" });
  return text;
}

/** The JSON object that a text is. Throws BadRequest. */
export function parseObject(text: string): JsonObject {
  let data: Json;
  try {
    data = parseJson(text);
  } catch (error) {
    throw new BadRequest(`The body is not valid JSON: ${(error as Error).message}`, { code: "invalid_json" });
  }
  if (!isObject(data)) throw new BadRequest("The body must be a JSON object.", { code: "invalid_json" });
  return data;
}

/** The chat that a text is. Unknown fields, roles and options are not judged here. Throws BadRequest. */
export function parseChat(text: string): Chat {
  return asChat(parseObject(text));
}

/** An object as a chat. Throws BadRequest unless `messages` is a non-empty list of objects. */
export function asChat(data: JsonObject): Chat {
  const messages = data["messages"] ?? null;
  if (messages === null) {
    throw new BadRequest("The field 'messages' is missing: send a list of messages.", {
      param: "messages",
      code: "missing_required_parameter",
    });
  }
  if (!Array.isArray(messages) || messages.length === 0 || !messages.every(isObject)) {
    throw new BadRequest(
      "The field 'messages' must be a non-empty list of objects with 'role' and 'content'.",
      { param: "messages", code: "invalid_type" },
    );
  }
  return data as Chat;
}

/** A whole `chat.completion`. */
export function completionJson(
  answer: Answer,
  { id, model, created, fingerprint, promptTokens }: Completion,
): string {
  const message = { role: "assistant", content: answer.text, refusal: null };
  return JSON.stringify({
    id,
    object: "chat.completion",
    created,
    model,
    system_fingerprint: fingerprint,
    choices: [{ index: 0, message, logprobs: null, finish_reason: "stop" }],
    usage: usage(promptTokens, answer.tokens),
  });
}

/**
 * The same completion as server-sent events. With usage asked for, every chunk has `usage: null` and one more
 * chunk with empty `choices` carries it, right before `[DONE]`.
 */
export function completionEvents(answer: Answer, completion: Completion, includeUsage: boolean): string {
  const { id, model, created, fingerprint, promptTokens } = completion;
  const head = { id, object: "chat.completion.chunk", created, model, system_fingerprint: fingerprint };
  const unused = includeUsage ? { usage: null } : {};
  const chunk = (delta: object, finish_reason: string | null = null) =>
    event({ ...head, choices: [{ index: 0, delta, logprobs: null, finish_reason }], ...unused });
  const pieces = answer.text.match(PIECE) ?? [];
  const events = [
    chunk({ role: "assistant", content: "" }),
    ...pieces.map((content) => chunk({ content })),
    chunk({}, "stop"),
  ];
  if (includeUsage) events.push(event({ ...head, choices: [], usage: usage(promptTokens, answer.tokens) }));
  return events.join("") + SSE_DONE;
}

function event(data: object): string {
  return `data: ${JSON.stringify(data)}\n\n`;
}

function usage(prompt: number, completion: number) {
  return { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion };
}
