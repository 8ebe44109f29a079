// Routing hints for the agent, one RFC 9651 dictionary, and their signature: byte for byte as edge/hints.py.

import { Decimal, type SlotValue } from "./decision";

const HINTS_VERSION = 1;
export const HINTS_HEADER = "x-frontdesk-hints";
export const SIGNATURE_HEADER = "x-frontdesk-signature";
const MAX_HEADER_BYTES = 4096;

const TOKEN = /^[A-Za-z*][A-Za-z0-9!#$%&'*+.^_`|~:/-]*$/;
const HINTS_KEY = /^([A-Za-z0-9][A-Za-z0-9_.-]{0,63}):([!-+\--~]{32,})$/;

/** What the front desk found out before it forwarded a turn: see edge/hints.py. */
export interface Hints {
  readonly topic: string | null;
  readonly confidence: number | null;
  readonly top: readonly (readonly [string, number])[];
  readonly lang: string | null;
  readonly reason: string | null;
  readonly tools: readonly string[];
  readonly slots: ReadonlyMap<string, SlotValue>;
  readonly complexity: string | null;
  readonly length: string | null;
  readonly tier: string | null;
  readonly budgetMs: number | null;
  readonly bundle: string | null;
}

/** A secret that the front desk and the agent share, and the name by which signatures tell it. */
export interface HintsKey {
  readonly kid: string;
  readonly secret: string;
}

/** The header value; where it would pass 4 KB the slots are dropped, then the longest members. */
export function formatHints(hints: Hints): string {
  const { topic, confidence, top, lang, reason, tools, slots, complexity, length, tier, budgetMs, bundle } =
    hints;
  const members: [string, string | null][] = [
    ["v", String(HINTS_VERSION)],
    ["topic", bareOrNull(topic)],
    ["confidence", confidence === null ? null : floor3(confidence)],
    ["lang", wordOrNull(lang)],
    ["reason", wordOrNull(reason)],
    ["complexity", wordOrNull(complexity)],
    ["length", wordOrNull(length)],
    ["tier", wordOrNull(tier)],
    ["budget", bareOrNull(budgetMs)],
    ["bundle", bareOrNull(bundle)],
    ["top", list(top.map(([name, share]) => `${bare(name)};c=${floor3(share)}`))],
    ["tools", list(tools.map(bare))],
    ["slots", list([...slots].map(([name, value]) => `${bare(value)};n=${word(name)}`))],
  ];
  const parts = new Map(
    members.flatMap(([key, value]) => (value === null ? [] : [[key, `${key}=${value}`]])),
  );
  const header = () => [...parts.values()].join(", ");
  while (header().length > MAX_HEADER_BYTES) {
    if (!parts.delete("slots")) parts.delete(longest(parts));
  }
  return header();
}

/** The keys of `kid:secret,kid:secret`; the first one signs. Throws an Error that tells no secret. */
export function parseKeys(text: string): HintsKey[] {
  const parts: string[] = text.startsWith("[") ? JSON.parse(text) : text.split(",");
  const found = parts.map((part) => HINTS_KEY.exec(part.trim()));
  const keys = found.flatMap((match) => (match ? [{ kid: match[1]!, secret: match[2]! }] : []));
  if (keys.length < found.length || new Set(keys.map(({ kid }) => kid)).size < keys.length) {
    throw new Error(
      "expected kid:secret,kid:secret with different kids of letters, digits, '_', '.', '-', and secrets of " +
        "at least 32 printable ASCII characters without spaces and commas",
    );
  }
  return keys;
}

/** The value of SIGNATURE_HEADER. `body`: as it is sent; `now`: seconds since the epoch. */
export async function signHints(
  hints: string,
  requestId: string,
  body: Uint8Array,
  { kid, secret }: HintsKey,
  now: number,
  attempt = 1,
): Promise<string> {
  if (!/^[ -~]*$/.test(requestId + hints)) throw new Error("Only printable ASCII can be signed.");
  const bytes = new TextEncoder();
  const digest = hex(await crypto.subtle.digest("SHA-256", body as Uint8Array<ArrayBuffer>));
  const signed = ["frontdesk-hints-v1", now, requestId, attempt, digest, hints].join("\n");
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  const key = await crypto.subtle.importKey("raw", bytes.encode(secret), algorithm, false, ["sign"]);
  const mac = hex(await crypto.subtle.sign(algorithm, key, bytes.encode(signed)));
  return `kid=${kid},t=${now},attempt=${attempt},v1=${mac}`;
}

function longest(parts: ReadonlyMap<string, string>): string {
  const [first, ...others] = parts;
  return others.reduce((best, part) => (part[1].length > best[1].length ? part : best), first!)[0];
}

function list(items: readonly string[]): string | null {
  return items.length > 0 ? `(${items.join(" ")})` : null;
}

function bareOrNull(value: string | number | null): string | null {
  return value === null ? null : bare(value);
}

function wordOrNull(value: string | null): string | null {
  return value === null ? null : word(value);
}

/** A token, or a string where the value cannot be a token. */
function word(value: string): string {
  return TOKEN.test(value) ? value : bare(value);
}

function bare(value: SlotValue): string {
  if (value instanceof Decimal) return decimal(value.value);
  if (typeof value === "boolean") return value ? "?1" : "?0";
  if (typeof value === "number") return String(value);
  if (/^[ -~]*$/.test(value)) return `"${value.replace(/[\\"]/g, "\\$&")}"`;
  // RFC 9651, 4.1.11: percent, double quote and everything outside printable ASCII are escaped.
  const utf8 = new TextEncoder().encode(value.replace(/[\ud800-\udfff]/gu, "?"));
  const escaped = Array.from(utf8, (byte) => {
    const isPlain = byte >= 0x20 && byte <= 0x7e && byte !== 0x22 && byte !== 0x25;
    return isPlain ? String.fromCharCode(byte) : `%${byte.toString(16).padStart(2, "0")}`;
  });
  return `%"${escaped.join("")}"`;
}

/** A decimal of three places at most, as Python writes a float. */
function decimal(value: number): string {
  const rounded = Number(value.toFixed(3)) + 0; // -0 becomes 0
  return Number.isInteger(rounded) ? `${rounded}.0` : String(rounded);
}

function floor3(value: number): string {
  return decimal(Math.floor(value * 1000) / 1000);
}

function hex(bytes: ArrayBuffer): string {
  return Array.from(new Uint8Array(bytes), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
