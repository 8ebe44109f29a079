// JSON as Python's json module reads it, where JavaScript's would read another value.

export type Json = null | boolean | number | string | Json[] | JsonObject;
export type JsonObject = { [name: string]: Json };

const MAX_DEPTH = 900; // Python's reader gives up a little below a thousand
const MAX_DIGITS = 4000;
// To Python 1.0 is no whole number.
const WHOLE = new Set(["seed", "max_tokens", "max_completion_tokens"]);
const FRACTION = /"(?:seed|max_tokens|max_completion_tokens)"[ \t\r\n]*:[ \t\r\n]*-?[0-9]+[.eE]/;
const STRING = '"(?:[^"\\\\]|\\\\.)*"';
const TOKEN = new RegExp(`${STRING}|[{}\\[\\],:]|[^ \\t\\r\\n{}\\[\\],:"]+`, "gsu");

/** The value of a JSON text. Throws an Error that says what is wrong and shows nothing of the text. */
export function parseJson(text: string): Json {
  let value: Json;
  try {
    value = FRACTION.test(text) ? JSON.parse(text, keepFractions) : JSON.parse(text);
  } catch {
    throw new Error("it cannot be read.");
  }
  if (hasInfinity(value)) checkNumbers(text);
  return value;
}

/** Whether a value is a JSON object. */
export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Whether Python takes a value for true. */
export function isTruthy(value: Json | undefined): boolean {
  if (typeof value === "object" && value !== null) return Object.keys(value).length > 0;
  return Boolean(value);
}

/** The text of an object with another value for a top-level member that it has; all else as it came. */
export function withMember(text: string, name: string, value: string): string {
  let [out, copied, depth, start, end] = ["", 0, 0, -1, -1];
  let key: string | null = null;
  for (const { 0: token, index } of text.matchAll(TOKEN)) {
    if (depth === 1 && (token === "," || token === "}")) {
      if (key === name) {
        out += text.slice(copied, start) + JSON.stringify(value);
        copied = end;
      }
      key = null;
    } else if (depth === 1 && key === null) [key, start] = [JSON.parse(token), -1];
    else if (depth === 1 && start < 0 && token !== ":") start = index;
    if (token === "{" || token === "[") depth += 1;
    if (token === "}" || token === "]") depth -= 1;
    end = index + token.length;
  }
  return out + text.slice(copied);
}

/** A reviver: a whole value that is written as a fraction is no number where a whole one is expected. */
function keepFractions(name: string, value: Json, context?: { source?: string }): Json {
  return WHOLE.has(name) && typeof value === "number" && /[.eE]/.test(context?.source ?? "")
    ? "fraction"
    : value;
}

/** Whether a number was too large for JavaScript. Throws where the value is nested too deeply. */
function hasInfinity(value: Json): boolean {
  let found = false;
  const todo: [Json, number][] = [[value, 0]];
  for (let next = todo.pop(); next; next = todo.pop()) {
    const [item, depth] = next;
    if (depth > MAX_DEPTH) throw new Error("it is nested too deeply.");
    if (typeof item === "number") found ||= !Number.isFinite(item);
    else if (typeof item === "object" && item !== null) {
      for (const inner of Object.values(item)) {
        if (typeof inner === "object" || typeof inner === "number") todo.push([inner, depth + 1]);
      }
    }
  }
  return found;
}

/** Python has whole numbers of any size, and reads at most MAX_DIGITS of one; a fraction must be finite. */
function checkNumbers(text: string): void {
  for (const [token] of text.matchAll(TOKEN)) {
    if (!/^-?[0-9]/.test(token)) continue;
    if (/[.eE]/.test(token)) {
      if (!Number.isFinite(Number(token))) throw new Error("a number in it is out of range.");
    } else if (token.length > MAX_DIGITS) {
      throw new Error(`a number has ${token.length} digits; at most ${MAX_DIGITS} are read.`);
    }
  }
}
