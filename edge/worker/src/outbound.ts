// What a forwarded turn looks like: its target, its body with the fewest edits, and the hints beside it (edge/outbound.py).

import { complexityOf } from "./complexity";
import { confidenceOf, slotsOf } from "./decision";
import type { RequestTooLarge } from "./errors";
import { type Exchange, unixNow } from "./exchange";
import { formatHints, HINTS_HEADER, type HintsKey, SIGNATURE_HEADER, signHints } from "./hints";
import type { Host } from "./host";
import { withMember } from "./json";
import type { Chat } from "./wire";

/** Path and query below /v1, as they came; null where the path lies elsewhere or says "..". */
export function targetOf({ pathname, search }: URL): string | null {
  if (!pathname.startsWith("/v1/")) return null;
  let path: string;
  try {
    path = decodeURIComponent(pathname);
  } catch {
    path = pathname;
  }
  // Some servers read a backslash as a slash, drop what follows a semicolon, or end the path at a NUL.
  const names = path.split(/[/\\]/).map((part) => part.split(/[;\0]/)[0]);
  const staysBelow = !names.includes(".") && !names.includes("..");
  return staysBelow ? pathname.slice("/v1".length) + search : null;
}

/** The body as it came, but for the model's name upstream. */
export function withModel(
  body: Uint8Array,
  { text, chat }: { text: string; chat: Chat },
  models: ReadonlyMap<string, string>,
): Uint8Array {
  const model = typeof chat["model"] === "string" ? models.get(chat["model"]) : undefined;
  return model === undefined ? body : new TextEncoder().encode(withMember(text, "model", model));
}

/** A body that was too large to be read: what of it came, and what is to come. */
export function rest({ request }: Exchange, { read, rest }: RequestTooLarge): ReadableStream {
  const length = request.headers.get("content-length");
  const { readable, writable } =
    length === null ? new IdentityTransformStream() : new FixedLengthStream(Number(length));
  const pump = async () => {
    const writer = writable.getWriter();
    for (const chunk of read) await writer.write(chunk);
    for (;;) {
      const { done, value } = (await rest?.read()) ?? { done: true, value: undefined };
      if (done) break;
      await writer.write(value);
    }
    await writer.close();
  };
  pump().catch(() => undefined); // then the upstream's side fails, and tells it
  return readable;
}

/** The hints, and where there are keys their signature, as of a first attempt: none is repeated. */
export async function hintHeaders(
  exchange: Exchange,
  host: Host,
  body: Uint8Array,
  keys: readonly HintsKey[],
): Promise<[string, string][]> {
  const { decision, budget, requestId } = exchange;
  if (decision === null || decision.reason === "bypass") return [];
  const { reading, topic } = decision;
  const tools = host.pipeline?.runtime.bundle.byId.get(topic ?? "")?.tools ?? [];
  const complexity = complexityOf(decision, tools);
  const hints = formatHints({
    topic,
    confidence: confidenceOf(decision),
    top: reading === null ? [] : reading.candidates.map((c) => [c.topic, c.confidence] as const),
    lang: decision.lang,
    reason: decision.reason,
    tools,
    slots: slotsOf(decision),
    complexity: complexity.requests,
    length: complexity.length,
    tier: complexity.tier,
    budgetMs: Math.floor(budget.remaining()),
    bundle: host.label || null,
  });
  const headers: [string, string][] = [[HINTS_HEADER, hints]];
  const [key] = keys;
  if (key !== undefined)
    headers.push([SIGNATURE_HEADER, await signHints(hints, requestId, body, key, unixNow())]);
  return headers;
}
