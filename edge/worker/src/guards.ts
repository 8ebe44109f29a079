// Guards as data: which signals a text carries, and which of them a topic's examples carry too (edge/guards.py).

import { type GuardHit, type Reason, reasonOf } from "./decision";
import { byCodePoint } from "./unicode";

const HAN_DIGITS = new Map(
  [..."零〇一二两三四五六七八九"].map((char, i) => [char, [0, 0, 1, 2, 2, 3, 4, 5, 6, 7, 8, 9][i]!]),
);
const HAN_UNITS = new Map([
  ["十", 10],
  ["百", 100],
  ["千", 1000],
]);
const LONGEST_NUMERAL = 20;

/** A wording that forwards a turn whatever its topic; `dialogue`: only where there is history. */
interface Wording {
  readonly name: string;
  readonly reason: Reason;
  readonly regex: RegExp;
  readonly dialogue: boolean;
}

/** The guards of a manifest, as frontdesk.json has them. */
export interface GuardData {
  readonly patterns: readonly { name: string; reason: string; pattern: string; dialogue: boolean }[];
  readonly terms: string;
  readonly signals: Record<string, string>;
  readonly numbers: string;
  readonly units: Record<string, string>;
  readonly number_words: Record<string, string>;
  readonly reasons: Record<string, string>;
}

/** The guards of a bundle: see edge/guards.py for what each holds. */
export class Guards {
  private readonly wordingList: readonly Wording[];
  private readonly terms: RegExp;
  private readonly numbers: RegExp;
  private readonly signals: ReadonlyMap<string, string>;
  private readonly units: ReadonlyMap<string, string>;
  private readonly numberWords: ReadonlyMap<string, string>;
  private readonly reasons: ReadonlyMap<string, Reason>;

  constructor(
    data: GuardData,
    private readonly allowed: ReadonlyMap<string, ReadonlySet<string> | null>,
  ) {
    this.wordingList = data.patterns.map(({ name, reason, pattern, dialogue }) => ({
      name,
      reason: reasonOf(reason),
      regex: new RegExp(pattern, "u"),
      dialogue,
    }));
    this.terms = new RegExp(data.terms, "gu");
    this.numbers = new RegExp(data.numbers, "gu");
    this.signals = new Map(Object.entries(data.signals));
    this.units = new Map(Object.entries(data.units));
    this.numberWords = new Map(Object.entries(data.number_words));
    this.reasons = new Map(Object.entries(data.reasons).map(([kind, reason]) => [kind, reasonOf(reason)]));
  }

  /** The patterns that a reading form matches, in the order of the data. */
  wordings(normal: string, inDialogue: boolean): GuardHit[] {
    const hits: GuardHit[] = [];
    for (const { name, reason, regex, dialogue } of this.wordingList) {
      const match = inDialogue || !dialogue ? regex.exec(normal) : null;
      if (match) hits.push({ name, reason, value: match[0] });
    }
    return hits;
  }

  /** Every signal of a reading form. */
  signalsOf(normal: string): Set<string> {
    const found = new Set<string>();
    for (const [word] of normal.matchAll(this.terms)) found.add(known(this.signals, word));
    found.delete(""); // a word that only looks like a signal
    for (const match of normal.matchAll(this.numbers)) {
      const signal = this.number(match);
      if (signal !== null) found.add(signal);
    }
    return found;
  }

  /**
   * The signals of a reading form that lie outside the topic's examples. `slots`: those parts of it, reading forms
   * too, that fill a slot of the topic's tools; they are what a tool is asked for.
   */
  mismatches(normal: string, topic: string, slots: readonly string[] = []): GuardHit[] {
    const allowed = known(this.allowed, topic);
    if (allowed === null) return [];
    const outside = [...this.signalsOf(normal)].filter((signal) => !allowed.has(signal));
    const asked = new Set(outside.length > 0 ? slots.flatMap((slot) => [...this.signalsOf(slot)]) : []);
    const left = outside.filter((signal) => !asked.has(signal)).sort(byCodePoint);
    return left.map((signal) => {
      const kind = signal.split(":", 1)[0]!;
      return { name: kind, reason: known(this.reasons, kind), value: signal };
    });
  }

  /** `number:7 day`; a Han or English numeral counts only with a unit ("one" is also a pronoun). */
  private number(match: RegExpMatchArray): string | null {
    const raw = match[1];
    if (raw === undefined) return null; // a word that only looks like a number
    const unit = this.units.get(match[2] ?? "");
    const isDigits = raw[0]! >= "0" && raw[0]! <= "9";
    if (unit === undefined && !isDigits) return null;
    const value = this.numberWords.get(raw) || (isDigits ? null : hanNumber(raw)) || plainDigits(raw);
    return unit ? `number:${value} ${unit}` : `number:${value}`;
  }
}

/** What data must hold; a gap in it fails the turn, which is then forwarded. */
function known<T>(map: ReadonlyMap<string, T>, key: string): T {
  const value = map.get(key);
  if (value === undefined) throw new Error("the guards lack an entry");
  return value;
}

/**
 * The value of a Han numeral as Python writes it: 二十五 is 25, 两百 is 200, 半 is 0.5, 一二三 is 123.
 * null for letters of numerals that make none: 半一, or more than twenty.
 */
export function hanNumber(text: string): string | null {
  if (text === "半") return "0.5";
  const body = text.replace(/半+$/, "");
  if (body.includes("半") || body.length > LONGEST_NUMERAL) return null;
  // As whole numbers without bounds; `unit`: what one step of the next digit is worth in 一百五, which is 150.
  let [myriads, total, digit, unit] = [0n, 0n, 0n, 1n];
  for (const char of body) {
    const size = HAN_UNITS.get(char);
    if (char === "万") {
      myriads = (total + digit || 1n) * 10000n;
      [total, digit, unit] = [0n, 0n, 1000n];
    } else if (size !== undefined) {
      total += (digit || 1n) * BigInt(size);
      [digit, unit] = [0n, BigInt(size) / 10n];
    } else {
      const next = BigInt(known(HAN_DIGITS, char));
      if (next === 0n || digit) [digit, unit] = [digit * 10n + next, 1n];
      else digit = next;
    }
  }
  const value = myriads + total + digit * unit;
  if (body === text) return String(value);
  const half = Number(value) + 0.5;
  return Number.isInteger(half) ? String(BigInt(half)) : String(half);
}

/** 1,024 and 1024.0 are 1024; 9:30 stays 9:30. */
function plainDigits(digits: string): string {
  let plain = digits.replaceAll(",", "");
  if (plain.split(".").length === 2) plain = plain.replace(/0+$/, "").replace(/\.+$/, "");
  return plain.replace(/^0+(?=[0-9])/, "");
}
