// Unicode as Python 3.11 knows it, version 14.0: what came later is no letter there, and folds to nothing.

import { UNASSIGNED } from "./unassigned";

const RANGES = UNASSIGNED.trim()
  .split(/\s/)
  .map((range) => range.replace(/[0-9a-f]+/g, "\\u{$&}"))
  .join("");
const LATER = new RegExp(`[${RANGES}]+`, "gu");
const IS_LATER = new RegExp(`^[${RANGES}]`, "u");
// Letters whose kind has changed since, and letters of the kind that they had: a sigma beside them shows it.
const CHANGED = [
  ["\u0295", "\u1d00"],
  ["\u{1171e}", "\u1ab0"],
] as const;
const SPACE = "[\\t-\\r\\u001c- \\u0085\\u00a0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000]";
const ENDS = new RegExp(`^${SPACE}+|${SPACE}+$`, "gu");
const IS_LETTER = /^\p{L}/u;
const IS_NUMERIC = /^\p{N}/u;
const IS_HIDDEN = /[\p{C}\p{Z}]/u;

/** Normalisation form NFKC. */
export function nfkc(text: string): string {
  return known(text, (part) => part.normalize("NFKC"));
}

/** Lower case, as Python's `str.lower`. */
export function lower(text: string): string {
  const swaps = text.includes("\u03a3")
    ? CHANGED.filter(([is, was]) => text.includes(is) && !text.includes(was))
    : [];
  const swapped = swaps.reduce((changed, [is, was]) => changed.replaceAll(is, was), text);
  const small = known(swapped, (part) => part.toLowerCase());
  return swaps.reduce((changed, [is, was]) => changed.replaceAll(was, is), small);
}

/** Python's `str.isalpha` of one character. */
export function isLetter(char: string): boolean {
  return IS_LETTER.test(char) && !IS_LATER.test(char);
}

/** Python's `str.isalpha` or `str.isnumeric` of one character. */
export function saysSomething(char: string): boolean {
  return (IS_LETTER.test(char) || IS_NUMERIC.test(char)) && !IS_LATER.test(char);
}

/** Python's `str.isprintable`. */
export function isPrintable(text: string): boolean {
  return !IS_HIDDEN.test(text.replaceAll(" ", "")) && text.search(LATER) < 0;
}

/** Maps what is known; the rest neither changes nor composes with its neighbours. */
function known(text: string, map: (part: string) => string): string {
  if (text.search(LATER) < 0) return map(text);
  const later = text.match(LATER) ?? [];
  return text
    .split(LATER)
    .map((part, i) => map(part) + (later[i] ?? ""))
    .join("");
}

/** Python's `str.strip`: JavaScript's `trim` knows other spaces. */
export function strip(text: string): string {
  return text.replace(ENDS, "");
}

/** The order of Python's `sorted` on texts: by code points, not by UTF-16 units. */
export function byCodePoint(a: string, b: string): number {
  const [left, right] = [a[Symbol.iterator](), b[Symbol.iterator]()];
  for (;;) {
    const [x, y] = [left.next(), right.next()];
    if (x.done || y.done) return Number(!x.done) - Number(!y.done);
    const step = x.value.codePointAt(0)! - y.value.codePointAt(0)!;
    if (step) return step;
  }
}

/** The first `count` code points of a text. */
export function first(text: string, count: number): string {
  return text.length <= count ? text : text.slice(0, forth(text, 0, count));
}

/** How many code points a text has. */
export function length(text: string): number {
  let count = 0;
  for (const _ of text) count += 1;
  return count;
}

/** The index `count` code points before one, or 0. */
export function back(text: string, index: number, count: number): number {
  let at = index;
  for (let left = count; left > 0 && at > 0; left--) at -= text.codePointAt(at - 2)! > 0xffff ? 2 : 1;
  return at;
}

/** The index `count` code points after one, or the text's end. */
export function forth(text: string, index: number, count: number): number {
  let at = index;
  for (let left = count; left > 0 && at < text.length; left--) at += text.codePointAt(at)! > 0xffff ? 2 : 1;
  return at;
}
