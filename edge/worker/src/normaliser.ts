// The one text normaliser, letter for letter as edge/normaliser.py.

import { isLetter, lower, nfkc } from "./unicode";

export const NORMALISER_VERSION = 1;

export type Lang = "zh" | "en";

/** When a text is Chinese, when English, and when neither: see edge/normaliser.py. */
export interface LangRule {
  readonly han_share: number;
  readonly other_share: number;
}

// Under the flag u a class of surrogates matches lone ones alone.
const INVISIBLE =
  /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufe00-\ufe0f\ud800-\udfff\ufeff]/gu;
const SPACES = /[\t\n\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+/gu;
const HAN = "\\u3400-\\u4dbf\\u4e00-\\u9fff\\uf900-\\ufaff\\u{20000}-\\u{323af}";
const HAN_GAP = new RegExp(`(?<=[${HAN}]) (?=[${HAN}])`, "gu");
const IS_HAN = new RegExp(`^[${HAN}]`, "u");
const IS_LATIN = /^[a-z\u00aa\u00ba\u00df-\u00f6\u00f8-\u024f]/u;
const PRINTABLE_ASCII = /^[ -~]*$/;
const ASCII = /^[\u0000-\u007f]*$/;
const QUOTES: readonly (readonly [string, string])[] = [
  ["\u2018", "'"],
  ["\u2019", "'"],
  ["\u02bc", "'"],
  ["\u00b4", "'"],
  ["\u201c", '"'],
  ["\u201d", '"'],
];
const QUOTE = new Map(QUOTES);
const EDGE = new Set(" !?.,;:~'\"…。、·`^*_()[]{}“”‘’「」『』《》【】—-");

/** Folds a text for reading; `traditional[i]` becomes `simplified[i]`. */
export class Normaliser {
  private readonly fold: ReadonlyMap<string, string>;

  constructor(
    traditional = "",
    simplified = "",
    private readonly langRule: LangRule = { han_share: 0.2, other_share: 0.2 },
  ) {
    const from = [...traditional];
    const to = [...simplified];
    if (from.length !== to.length) throw new RangeError("the normaliser's tables differ in length");
    this.fold = new Map([...QUOTES, ...from.map((char, i) => [char, to[i]!] as const)]);
  }

  /** The form the router and the guards read: NFKC, lower case, simplified, single spaces. */
  reading(text: string): string {
    if (PRINTABLE_ASCII.test(text)) return strip(text.toLowerCase().replace(/ +/g, " "));
    const visible = translate(text.replace(INVISIBLE, ""), QUOTE);
    return this.spaced(nfkc(lower(nfkc(visible))));
  }

  /** The reading form but for its case; in lower case every letter keeps its place. */
  typed(text: string): string {
    const visible = nfkc(translate(text.replace(INVISIBLE, ""), QUOTE));
    return this.spaced(visible.replaceAll("\u0130", "I"));
  }

  /** The key of the exact stage: the reading form without edge punctuation and Han gaps. */
  exact(reading: string): string {
    return strip(reading.replace(HAN_GAP, ""), EDGE);
  }

  /** The language of a reading form, or null where its script is unsupported. */
  lang(reading: string): Lang | null {
    if (ASCII.test(reading)) return /[a-z]/.test(reading) ? "en" : null;
    let [han, latin, other] = [0, 0, 0];
    for (const char of reading) {
      if (IS_LATIN.test(char)) latin += 1;
      else if (IS_HAN.test(char)) han += 1;
      else if (isLetter(char)) other += 1;
    }
    const total = han + latin + other;
    if (total === 0 || other > this.langRule.other_share * total) return null;
    return han >= this.langRule.han_share * (han + latin) && han > 0 ? "zh" : "en";
  }

  private spaced(text: string): string {
    return strip(translate(text, this.fold).replace(INVISIBLE, "").replace(SPACES, " "));
  }
}

function translate(text: string, map: ReadonlyMap<string, string>): string {
  let out = "";
  for (const char of text) out += map.get(char) ?? char;
  return out;
}

/** The text without these characters (of the basic plane) at its ends. */
function strip(text: string, chars: ReadonlySet<string> = new Set(" ")): string {
  let [start, end] = [0, text.length];
  while (start < end && chars.has(text[start]!)) start += 1;
  while (end > start && chars.has(text[end - 1]!)) end -= 1;
  return text.slice(start, end);
}
