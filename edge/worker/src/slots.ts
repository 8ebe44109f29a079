// Slots of tools, filled from a query's text without an LLM: valid values, or the reason why not (edge/slots.py).

import { type Amount, type AmountData, Amounts, plainNumber } from "./amounts";
import { dayOfIso, firstOfMonth, isoOf } from "./calendar";
import { Decimal, type Filled, type Missing, plain, type SlotValue, type Suggestion } from "./decision";
import { isCalledNoId, looksLikeNoId, ofMoment } from "./doubts";
import { Calendar, type CalendarData, Moment } from "./moments";
import type { Normaliser } from "./normaliser";
import { MAX_CHARACTERS, type Query } from "./query";
import { first, isPrintable, length, lower } from "./unicode";

// What a header can carry: see RFC 9651 for numbers.
const MAX_VALUE_CHARACTERS = 64;
const MAX_INTEGER = 10 ** 15 - 1;
const MAX_NUMBER = 10 ** 12;
const SLOT_NAME = /^[A-Za-z][A-Za-z0-9_]{0,63}$/;
const KINDS = ["pattern", "values", "date", "month", "time", "number", "free", "caller"] as const;
const TYPES = ["string", "integer", "number", "boolean"] as const;
const ISO: Record<string, RegExp> = {
  date: /^[0-9]{4}-[0-9]{2}-[0-9]{2}$/,
  month: /^[0-9]{4}-(?:0[1-9]|1[0-2])$/,
  time: /^(?:[01][0-9]|2[0-3]):[0-5][0-9]$/,
};
// Which moments a slot of a kind takes.
const MOMENTS: Record<string, readonly string[]> = {
  date: ["date", "day"],
  month: ["month", "date"],
  time: ["time"],
};
const HAN = /[\u4e00-\u9fff]/;

/** A slot as the manifest has it. */
interface SlotData {
  readonly name: string;
  readonly kind: (typeof KINDS)[number];
  readonly type: (typeof TYPES)[number];
  readonly required: boolean;
  readonly default: string | number | boolean | null;
  readonly find: string | null;
  readonly pattern: string | null;
  readonly terms: Record<string, string | number | boolean>;
  readonly enum: readonly (string | number | boolean)[];
  readonly unit: string;
  readonly when: string;
  readonly minimum: number | null;
  readonly maximum: number | null;
}

/** A tool as the manifest has it, as far as it is only suggested. */
export interface ToolData {
  readonly name: string;
  readonly scope: string;
  readonly slots: readonly SlotData[];
}

/** The language data of a manifest. */
export type LanguageData = CalendarData & { readonly amounts: AmountData };

/** One input of a tool: see edge/slots.py. */
class Slot {
  readonly name: string;
  readonly find: RegExp | null;
  readonly terms: ReadonlyMap<string, SlotValue>;
  private readonly valid: RegExp | null;

  /** Throws for what would load and then fill a slot with what its tool does not accept. */
  constructor(readonly data: SlotData) {
    const { name, kind, type, when, required, unit, minimum, maximum } = data;
    this.name = name;
    this.find = data.find === null ? null : new RegExp(data.find, "gu");
    this.valid = data.pattern === null ? null : new RegExp(`^(?:${data.pattern})$`, "u");
    this.terms = new Map(Object.entries(data.terms).map(([word, value]) => [word, typed(value)]));
    const sound =
      SLOT_NAME.test(name) &&
      KINDS.includes(kind) &&
      TYPES.includes(type) &&
      ["", "past", "future"].includes(when) &&
      typeof required === "boolean" &&
      typeof unit === "string" &&
      [minimum, maximum].every(
        (limit) => limit === null || (typeof limit === "number" && Math.abs(limit) < MAX_NUMBER),
      ) &&
      !(kind === "pattern" && (this.find === null || this.valid === null)) &&
      !(kind === "values" && (this.find === null || this.terms.size === 0)) &&
      !(kind === "caller" && data.default !== null);
    const known = [...this.terms.values(), ...(data.default === null ? [] : [typed(data.default)])];
    if (!sound || !known.every((value) => this.accepts(value)))
      throw new RangeError(`the slot ${name} is not sound`);
  }

  /** Whether the declaration allows a value, and a header can carry it. */
  accepts(value: SlotValue): boolean {
    const { type, enum: listed, minimum, maximum } = this.data;
    if (!isOfType(value, type)) return false;
    if (listed.length > 0 && !listed.some((item) => plain(item) === plain(value))) return false;
    if (typeof value === "string") {
      const size = length(value);
      if (size === 0 || size > MAX_VALUE_CHARACTERS || !isPrintable(value)) return false;
      return this.valid ? this.valid.test(value) : this.isMoment(value);
    }
    const number = Number(plain(value));
    if (value instanceof Decimal) {
      if (!(Math.abs(number) < MAX_NUMBER && Number(number.toFixed(3)) === number)) return false;
    } else if (Math.abs(number) > MAX_INTEGER) return false;
    return !(minimum !== null && number < minimum) && !(maximum !== null && number > maximum);
  }

  private isMoment(value: string): boolean {
    const { kind } = this.data;
    const form = ISO[kind];
    return form === undefined || (form.test(value) && (kind !== "date" || dayOfIso(value) !== null));
  }
}

/** Fills the slots of tools by the language data of a bundle. */
export class SlotFiller {
  private readonly tools: ReadonlyMap<string, readonly Slot[]>;
  readonly calendar: Calendar;
  readonly amounts: Amounts;

  constructor(
    tools: readonly ToolData[],
    data: LanguageData,
    readonly normaliser: Normaliser,
  ) {
    this.calendar = new Calendar(data);
    this.amounts = new Amounts(data.amounts);
    this.tools = new Map(tools.map((tool) => [tool.name, slotsOf(tool)]));
    if (this.tools.size < tools.length) throw new RangeError("two tools have one name");
  }

  /** Whether a tool is declared. */
  has(name: string): boolean {
    return this.tools.has(name);
  }

  /** Every named tool with its slots as far as the query fills them. `today` is YYYY-MM-DD. */
  suggest(names: readonly string[], query: Query, today: string): Suggestion[] {
    const text = new Text(this, query.typed, dayOfIso(today)!);
    return names.map((tool) => ({ tool, slots: fill(this.tools.get(tool) ?? [], text) }));
  }
}

/** What a text says for a slot: `value` is null where `why` it is none is known. */
interface Candidate {
  readonly value: SlotValue | null;
  readonly start: number;
  readonly end: number;
  readonly why: string;
}

/** A query's text. What moments and amounts it holds is read once, and only if a slot asks for it. */
class Text {
  readonly typed: string;
  readonly lower: string;
  private read: { moments: Moment[]; amounts: Amount[]; rest: string } | null = null;

  constructor(
    private readonly filler: SlotFiller,
    text: string,
    readonly today: number,
  ) {
    this.typed = first(filler.normaliser.typed(text), MAX_CHARACTERS); // one ligature can become 18 letters
    this.lower = lower(this.typed);
  }

  get parts(): { moments: Moment[]; amounts: Amount[]; rest: string } {
    if (this.read === null) {
      const [moments, rest] = this.filler.calendar.read(this.lower, this.today, HAN.test(this.lower));
      this.read = { moments, amounts: this.filler.amounts.read(rest), rest };
    }
    return this.read;
  }

  /** Whether digits belong to a day, a time or an amount with a unit. */
  isSpokenFor(start: number, end: number): boolean {
    const { amounts, rest } = this.parts;
    if (rest.slice(start, end) !== this.lower.slice(start, end)) return true;
    return amounts.some((amount) => amount.unit !== "" && amount.start < end && start < amount.end);
  }

  /** Whether words are but a part of a day: Friday in "next Friday" is not the Friday of a list. */
  cutsAMoment(start: number, end: number): boolean {
    return this.parts.moments.some((m) => m.start <= start && end <= m.end && end - start < m.end - m.start);
  }
}

function slotsOf(tool: ToolData): Slot[] {
  const slots = tool.slots.map((slot) => new Slot(slot));
  const isCallers = slots.some((slot) => slot.data.kind === "caller");
  if (new Set(slots.map((slot) => slot.name)).size < slots.length || (tool.scope !== "user" && isCallers)) {
    throw new RangeError(`the slots of the tool ${tool.name} are not sound`);
  }
  return slots;
}

function fill(slots: readonly Slot[], text: Text): Map<string, Filled | Missing> {
  const found = slots.map((slot) => candidatesOf(slot, text));
  return new Map(
    slots.map((slot, i) => {
      const others = found.flatMap((listed, j) => (i === j ? [] : listed));
      // Words that two slots may mean fill neither: 英镑 alone does not say from which currency to which.
      const isShared = found[i]!.some((c) => others.some((o) => isWithin(c, o) || isWithin(o, c)));
      return [slot.name, choose(slot, found[i]!, text, isShared)];
    }),
  );
}

function isWithin(candidate: Candidate, other: Candidate): boolean {
  return other.start <= candidate.start && candidate.end <= other.end;
}

function choose(
  slot: Slot,
  candidates: readonly Candidate[],
  text: Text,
  isShared: boolean,
): Filled | Missing {
  const { kind, required, default: usual } = slot.data;
  const reason = whyNot(slot, candidates, isShared);
  const [first] = candidates;
  if (reason === "") {
    if (first?.value != null && slot.accepts(first.value)) {
      return { value: first.value, text: text.typed.slice(first.start, first.end) };
    }
    return { missing: "invalid", required };
  }
  if (usual !== null && reason === "not_said" && kind !== "caller") return { value: typed(usual), text: "" };
  return { missing: reason, required };
}

/** Why the candidates of a slot are no value, "" where they are one. */
function whyNot({ data: { kind } }: Slot, candidates: readonly Candidate[], isShared: boolean): string {
  if (kind === "caller") return "caller";
  if (kind === "free") return "free_text";
  if (candidates.length === 0) return "not_said";
  const bad = candidates.find((candidate) => candidate.why !== "");
  if (bad) return bad.why;
  const values = new Set(candidates.map(({ value }) => (value === null ? value : plain(value))));
  return values.size > 1 || isShared ? "ambiguous" : "";
}

function candidatesOf(slot: Slot, text: Text): Candidate[] {
  const { kind, unit } = slot.data;
  if (kind === "values" && slot.find !== null) return byValues(slot.find, slot.terms, text);
  if (kind === "pattern" && slot.find !== null) return byPattern(slot.find, text);
  if (kind === "number") {
    const amounts = text.parts.amounts.filter((amount) => unit === "" || amount.unit === unit);
    return amounts.map((amount) => ofAmount(slot, amount));
  }
  const moments = MOMENTS[kind];
  if (moments === undefined) return [];
  return text.parts.moments.filter((m) => moments.includes(m.kind)).map((m) => ofOneMoment(slot, m, text));
}

function byValues(find: RegExp, terms: ReadonlyMap<string, SlotValue>, text: Text): Candidate[] {
  const found: Candidate[] = [];
  for (const { 0: word, index: start } of text.lower.matchAll(find)) {
    const value = terms.get(word);
    if (value === undefined) continue;
    const end = start + word.length;
    found.push({ value, start, end, why: text.cutsAMoment(start, end) ? "invalid" : "" });
  }
  return found;
}

/** As typed, or in upper or lower case; but then words alone are no value: THE is no airport. */
function byPattern(find: RegExp, text: Text): Candidate[] {
  const found = new Map<string, Candidate>();
  const upper = text.typed.replace(/[a-z]/g, (letter) => letter.toUpperCase());
  const small = text.typed.replace(/[A-Z]/g, (letter) => letter.toLowerCase());
  for (const form of new Set([text.typed, upper, small])) {
    for (const { 0: value, index: start } of form.matchAll(find)) {
      const end = start + value.length;
      const isDigits = /^[0-9]+$/.test(value);
      const isOther = isDigits && (text.isSpokenFor(start, end) || isCalledNoId(text.lower, start, end));
      const place = `${start}-${end}`;
      if ((form !== text.typed && !/[0-9]/.test(value)) || isOther || found.has(place)) continue;
      found.set(place, { value, start, end, why: isDigits && looksLikeNoId(value) ? "ambiguous" : "" });
    }
  }
  return [...found.values()];
}

function ofAmount({ data: { type } }: Slot, { value, start, end }: Amount): Candidate {
  const number = value === null ? null : plainNumber(value);
  const found = type !== "integer" ? value : number !== null && Number.isInteger(number) ? number : null;
  return { value: found, start, end, why: found === null ? "invalid" : "" };
}

function ofOneMoment({ data: { kind, when } }: Slot, moment: Moment, text: Text): Candidate {
  const { start, end, open } = moment;
  const isDoubtful = (moment.kind === "date" || moment.kind === "month") && ofMoment(text.lower, start, end);
  if (kind === "month" && moment.kind === "date") {
    const firsts = moment.values.flatMap((day) => (typeof day === "number" ? [firstOfMonth(day)] : []));
    moment = new Moment("month", [...new Set(firsts)], start, end, open);
  }
  const value = moment.value(text.today, when);
  if (value === null) {
    const why = moment.left(text.today, when).length > 0 ? "ambiguous" : "invalid";
    return { value: null, start, end, why };
  }
  if (isDoubtful) return { value: null, start, end, why: "ambiguous" };
  const said = typeof value === "string" ? value : isoOf(value).slice(0, kind === "month" ? 7 : 10);
  return { value: said, start, end, why: "" };
}

/** A value of the manifest: what is no whole number is a fraction to Python. */
function typed(value: string | number | boolean): SlotValue {
  return typeof value === "number" && !Number.isInteger(value) ? new Decimal(value) : value;
}

function isOfType(value: SlotValue, type: SlotData["type"]): boolean {
  if (type === "string" || type === "boolean") return typeof value === type;
  return typeof value === "number" || (type === "number" && value instanceof Decimal);
}
