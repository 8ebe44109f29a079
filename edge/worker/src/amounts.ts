// The amounts that a text names: 两百块, 1,024, $5, twenty five people (edge/amounts.py).

import { Decimal } from "./decision";
import { isNegative } from "./doubts";
import { hanNumber } from "./guards";

/**
 * A number in a text. `value` is null where it is a limit, a range, a guess or negative. `unit`: the canonical name
 * of its unit, or "". `start` and `end` are those of the numeral alone.
 */
export interface Amount {
  readonly value: number | Decimal | null;
  readonly unit: string;
  readonly start: number;
  readonly end: number;
}

/** How amounts are written, as the manifest has it. */
export interface AmountData {
  readonly regex: string;
  readonly han: string;
  readonly words: Record<string, number>;
  readonly multipliers: Record<string, number>;
  readonly units: Record<string, string>;
}

/** Reads amounts. */
export class Amounts {
  private readonly regex: RegExp;
  private readonly han: RegExp;
  private readonly words: ReadonlyMap<string, number>;
  private readonly multipliers: ReadonlyMap<string, number>;
  private readonly units: ReadonlyMap<string, string>;

  constructor(data: AmountData) {
    this.regex = new RegExp(data.regex, "dgu");
    if (new RegExp(`${data.regex}|`).exec("")!.length !== 8)
      throw new RangeError("amounts.regex must have 7 groups");
    this.han = new RegExp(`^(?:${data.han})$`, "u");
    this.words = new Map(Object.entries(data.words));
    this.multipliers = new Map(Object.entries(data.multipliers));
    this.units = new Map(Object.entries(data.units));
  }

  /** The amounts of a text in lower case. */
  read(text: string): Amount[] {
    const found: Amount[] = [];
    for (const match of text.matchAll(this.regex)) {
      const [, before, symbol, numeral, multiplier, about, unit, after] = match;
      if (numeral === undefined) continue;
      const name = this.units.get(unit || symbol || "") ?? "";
      if (!name && !/^[0-9]/.test(numeral)) continue;
      const [start, numeralEnd] = match.indices![3]!;
      const end = multiplier ? match.indices![4]![1] : numeralEnd;
      const isVague = before || about || after || isNegative(text, start);
      const number = isVague ? null : this.number(numeral);
      const times = multiplier ? this.multipliers.get(multiplier)! : null;
      const value = number !== null && times !== null ? whole(plainNumber(number) * times) : number;
      found.push({ value, unit: name, start, end });
    }
    return found;
  }

  private number(numeral: string): number | Decimal | null {
    if (/^[0-9]/.test(numeral)) {
      const digits = numeral.replaceAll(",", "");
      return digits.includes(".") ? new Decimal(Number(digits)) : Number(digits);
    }
    if (/^[a-z]+/.test(numeral)) return englishNumber(numeral, this.words);
    const value = this.han.test(numeral) ? hanNumber(numeral) : null;
    return value === null ? null : value.includes(".") ? new Decimal(Number(value)) : Number(value);
  }
}

/** The value of English numerals: "two hundred and five" is 205; null where they make no one number. */
export function englishNumber(text: string, words: ReadonlyMap<string, number>): number | null {
  let [thousands, part] = [0, 0];
  for (const [word] of text.matchAll(/[a-z]+/g)) {
    if (word === "and" || word === "a" || word === "an") {
      part = word === "and" ? part : 1;
      continue;
    }
    const number = words.get(word);
    if (number === undefined) throw new Error("the amounts lack a word");
    if (number === 1000) {
      if (thousands || !part) return null;
      [thousands, part] = [part * 1000, 0];
    } else if (number === 100) {
      if (!(part > 0 && part < 10)) return null;
      part *= 100;
    } else if (part % 100 === 0 || (number < 10 && part % 10 === 0 && part % 100 >= 20)) part += number;
    else return null;
  }
  return thousands + part;
}

/** 1.2 × 10000 is 12000, without the noise of binary fractions. */
function whole(number: number): number | Decimal {
  const rounded = Number(number.toFixed(6));
  return Number.isInteger(rounded) ? rounded : new Decimal(rounded);
}

export function plainNumber(value: number | Decimal): number {
  return typeof value === "number" ? value : value.value;
}
