// The days, months and times of day that a text names, in Chinese and English (edge/moments.py).

import { dayOf, daysOn, firstOfMonth, partsOf, weekdayOf } from "./calendar";

const BLANK = "\0"; // stands for what a rule has read; no text holds it
const NEAR_DAYS = 156; // of two years, the one whose day is nearer counts if it is nearer than five months

/** A day as a number, or a time as HH:MM. */
export type Value = number | string;

/** A day, month or time in a text: see edge/moments.py. */
export class Moment {
  constructor(
    readonly kind: "date" | "day" | "month" | "time",
    readonly values: readonly Value[],
    readonly start: number,
    readonly end: number,
    readonly open = "",
  ) {}

  /** The one value that is meant; null where there is none, or more than one. */
  value(today: number, when: string): Value | null {
    const left = this.left(today, when);
    if (this.open === "") return left.length === 1 ? left[0]! : null;
    const days = left.filter(isDay);
    if (days.length === 0 || (when === "" && this.open === "month")) return null;
    const near = this.near(today);
    if (when === "past") return Math.max(...days);
    if (when === "future" || this.open === "week") {
      const coming = days.filter((day) => day >= near);
      if (coming.length === 0) throw new RangeError("no day is left");
      return Math.min(...coming);
    }
    const nearest = days.reduce((best, day) => (Math.abs(day - near) < Math.abs(best - near) ? day : best));
    return Math.abs(nearest - near) <= NEAR_DAYS ? nearest : null;
  }

  /** The values that `when` allows. */
  left(today: number, when: string): Value[] {
    const near = this.near(today);
    return this.values.filter((value) => {
      return !isDay(value) || !((when === "past" && value > near) || (when === "future" && value < near));
    });
  }

  private near(today: number): number {
    return this.kind === "month" ? firstOfMonth(today) : today;
  }
}

/** The rules and words of a manifest. */
export interface CalendarData {
  readonly rules: readonly { as: string; if: string; pattern: string; roles: readonly string[]; set: Said }[];
  readonly words: Record<string, Record<string, number | string>>;
  readonly hours: Record<string, Record<string, readonly number[]>>;
}

type Said = Record<string, number | string>;

interface Rule {
  readonly kind: string;
  readonly probe: RegExp;
  readonly regex: RegExp;
  readonly roles: readonly string[];
  readonly fixed: Said;
}

interface Now {
  readonly today: number;
  readonly monthFirst: boolean;
  readonly hours: CalendarData["hours"];
}

type Read = readonly [Moment["kind"], readonly Value[], string];

/** Reads moments. */
export class Calendar {
  private readonly rules: readonly Rule[];
  private readonly words: CalendarData["words"];
  private readonly hours: CalendarData["hours"];

  /** Throws for a rule that no host can follow. */
  constructor({ rules, words, hours }: CalendarData) {
    const probes = new Map<string, RegExp>();
    this.words = words;
    this.hours = hours;
    this.rules = rules.map(({ as: kind, if: probe, pattern, roles, set }) => {
      const groups = new RegExp(`${pattern}|`, "u").exec("")!.length - 1;
      const known =
        Object.hasOwn(READERS, kind) &&
        groups === roles.length &&
        roles.every((role) => Object.hasOwn(words, role)) &&
        Object.hasOwn(hours, set["part"] ?? "exact");
      if (kind !== "noise" && !known) throw new RangeError(`no host can follow the rule ${pattern}`);
      if (!probes.has(probe)) probes.set(probe, new RegExp(probe, "u"));
      return { kind, probe: probes.get(probe)!, regex: new RegExp(pattern, "gu"), roles, fixed: set };
    });
  }

  /** The moments of a text in lower case, and the text with everything that was read blanked out. */
  read(text: string, today: number, monthFirst: boolean): [Moment[], string] {
    const found: Moment[] = [];
    const holds = new Map<RegExp, boolean>();
    let rest = text;
    for (const rule of this.rules) {
      if (!holds.has(rule.probe)) holds.set(rule.probe, rule.probe.test(rest));
      for (const match of holds.get(rule.probe) ? [...rest.matchAll(rule.regex)] : []) {
        const [start, end] = [match.index, match.index + match[0].length];
        rest = rest.slice(0, start) + BLANK.repeat(end - start) + rest.slice(end);
        if (rule.kind === "noise") continue;
        const [kind, values, open] = READERS[rule.kind]!(this.said(rule, match), {
          today,
          monthFirst,
          hours: this.hours,
        });
        found.push(new Moment(kind, [...new Set(values)], start, end, open));
      }
    }
    return [found, rest];
  }

  private said({ fixed, roles }: Rule, match: RegExpMatchArray): Said {
    const said = { ...fixed };
    for (const [i, role] of roles.entries()) {
      const word = match[i + 1];
      if (!word) continue;
      const value = /^[0-9]/.test(word) ? Number(word) : this.words[role]?.[word];
      if (value === undefined) throw new Error("the calendar lacks a word");
      said[role] = value;
    }
    return said;
  }
}

function isDay(value: Value): value is number {
  return typeof value === "number";
}

/** A number that a rule's wording has said. */
function number(said: Said, role: string): number {
  const value = said[role];
  if (typeof value !== "number") throw new Error(`the calendar's rule lacks ${role}`);
  return value;
}

function days(year: number, month: number, day: number): number[] {
  const found = dayOf(year, month, day);
  return found === null ? [] : [found];
}

function years(said: Said, { today }: Now): [number[], string] {
  const [year] = partsOf(today);
  if ("year" in said) return [[number(said, "year")], ""];
  if ("years" in said) return [[year + number(said, "years")], ""];
  return [[year - 1, year, year + 1], "year"];
}

function slash(said: Said, now: Now): Read {
  const [found, open] = years(said, now);
  const [first, second] = [number(said, "first"), number(said, "second")];
  const orders: [number, number][] = now.monthFirst
    ? [[first, second]]
    : [
        [first, second],
        [second, first],
      ];
  const readings = orders.map(([month, day]) => found.flatMap((year) => days(year, month, day)));
  const both = readings.every((reading) => reading.length > 0) && orders.length === 2 && first !== second;
  return ["date", readings.flat(), both ? "" : open];
}

/** Last July is another year's for sure only if this year's is not over. */
function monthSide(said: Said, { today }: Now): Read {
  const [year, thisMonth] = partsOf(today);
  const [side, month] = [number(said, "side"), number(said, "month")];
  const found = side && side * (month - thisMonth) > 0 ? [year + side, year] : [year + side];
  return ["month", found.flatMap((one) => days(one, month, 1)), ""];
}

/** What "next Friday" is: the coming one if another week begins before it, on Monday and on Sunday. */
function weekdaySide(said: Said, { today }: Now): Read {
  const side = number(said, "side");
  const monday = weekdayOf(today);
  const sunday = (monday + 1) % 7;
  const ahead = (((number(said, "weekday") - monday) % 7) + 7) % 7;
  if (side === 0) {
    // "this Friday" when Friday is over may be either
    const day = daysOn(today, ahead);
    return ["day", monday + ahead < 7 ? [day] : [daysOn(day, -7), day], ""];
  }
  const step = side > 0 ? ahead || 7 : ahead - 7;
  const nearest = daysOn(today, step);
  const isOtherWeek = [monday, sunday].every((place) => !(place + step >= 0 && place + step < 7));
  return ["day", isOtherWeek ? [nearest] : [nearest, daysOn(nearest, 7 * side)], ""];
}

function clock(said: Said, { hours }: Now): Read {
  const found = hours[String(said["part"])]?.[String(number(said, "hour"))] ?? [];
  const minute = Number(said["minute"] ?? said["half"] ?? 0);
  const two = (part: number) => String(part).padStart(2, "0");
  return ["time", found.map((hour) => `${two(hour)}:${two(minute)}`), ""];
}

const READERS: Record<string, (said: Said, now: Now) => Read> = {
  date: (said, now) => {
    const [found, open] = years(said, now);
    return ["date", found.flatMap((year) => days(year, number(said, "month"), number(said, "day"))), open];
  },
  slash,
  month: (said, now) => {
    const [found, open] = years(said, now);
    return ["month", found.flatMap((year) => days(year, number(said, "month"), 1)), open];
  },
  month_side: monthSide,
  months_on: (said, { today }) => ["month", [firstOfMonth(today, number(said, "shift"))], ""],
  months: (said, { today }) => [
    "month",
    [firstOfMonth(today, number(said, "sign") * number(said, "count"))],
    "",
  ],
  day_of: (said, { today }) => {
    const [year, month] = partsOf(firstOfMonth(today, number(said, "shift")));
    return ["date", days(year, month, number(said, "day")), ""];
  },
  day_alone: (said, { today }) => {
    const firsts = [-1, 0, 1].map((step) => partsOf(firstOfMonth(today, step)));
    return ["date", firsts.flatMap(([year, month]) => days(year, month, number(said, "day"))), "month"];
  },
  days: (said, { today }) => ["day", [daysOn(today, number(said, "days"))], ""],
  counted: (said, { today }) => {
    return ["day", [daysOn(today, number(said, "sign") * number(said, "count") * number(said, "unit"))], ""];
  },
  weekday: (said, { today }) => {
    const day = daysOn(today, number(said, "weekday") - weekdayOf(today));
    if ("shift" in said) return ["day", [daysOn(day, 7 * number(said, "shift"))], ""];
    return ["day", [-7, 0, 7].map((step) => daysOn(day, step)), "week"];
  },
  weekday_side: weekdaySide,
  clock,
};
