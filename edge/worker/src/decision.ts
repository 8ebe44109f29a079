// What the router says of a query, and what is decided: path, reason, evidence (edge/decision.py).

import type { Lang } from "./normaliser";

/** Where a turn goes. The isolate calls no tools and keeps no cache. */
export type Path = "faq" | "agent" | "error";

/** Why a turn takes its path. They are checked in this order; the first that applies wins. */
export const REASONS = [
  "bypass",
  "answering_off",
  "observe",
  "client_tools",
  "client_options",
  "attachment",
  "system_prompt",
  "not_ready",
  "too_long",
  "exact",
  "unsupported_language",
  "multi_request",
  "needs_context",
  "re_ask",
  "out_of_scope",
  "low_confidence",
  "low_margin",
  "negation_mismatch",
  "number_mismatch",
  "entity_mismatch",
  "unproven",
  "topic_forwards",
  "answer_expired",
  "no_answer_in_language",
  "slot_missing",
  "tool_failed",
  "over_budget",
  "unverified_caller",
  "control_group",
  "matched",
] as const;
export type Reason = (typeof REASONS)[number];

const KNOWN: ReadonlySet<string> = new Set(REASONS);

/** A reason that data names. Throws where no host knows it: it could not object to anything. */
export function reasonOf(value: unknown): Reason {
  if (typeof value !== "string" || !KNOWN.has(value)) throw new TypeError(`${String(value)} is no reason`);
  return value as Reason;
}

/** A topic and the calibrated probability that it is the right one. */
export interface Candidate {
  readonly topic: string;
  readonly confidence: number;
}

/**
 * What the router says of one text. Probabilities in [0, 1], as float32 gives them; at least one candidate,
 * best first. `unread`: the letters that it has no token for; what an unknown token hides was not read.
 */
export class Reading {
  constructor(
    readonly candidates: readonly Candidate[],
    readonly inScope: number,
    readonly needsContext: number,
    readonly exit: number,
    readonly tokens: number,
    readonly unread = "",
  ) {}

  get topic(): string {
    return this.candidates[0]!.topic;
  }

  /** P(the best topic is right). */
  get confidence(): number {
    return this.candidates[0]!.confidence;
  }

  /** How far the best topic's confidence lies above the second's. */
  get margin(): number {
    return this.confidence - (this.candidates[1]?.confidence ?? 0);
  }
}

/** A guard that spoke, and the value it saw: `negation`, `weekday:saturday`, … */
export interface GuardHit {
  readonly name: string;
  readonly reason: Reason;
  readonly value: string;
}

/** A curated text of one topic in one language. `tokens`: its length in router tokens. */
export interface Answer {
  readonly topic: string;
  readonly lang: Lang;
  readonly text: string;
  readonly tokens: number;
}

/** A number that Python holds as a float: 12.0 is another header than 12. */
export class Decimal {
  constructor(readonly value: number) {}

  toJSON(): number {
    return this.value;
  }
}

export type SlotValue = string | number | boolean | Decimal;

/** A slot's value, valid by its declaration, and what of the text said it ("" for a default). */
export interface Filled {
  readonly value: SlotValue;
  readonly text: string;
}

/** A slot without a value; `missing` is the reason: docs/desk.md lists them. */
export interface Missing {
  readonly missing: string;
  readonly required: boolean;
}

/** A tool that the topic names, and its slots as far as the query fills them. Nothing is called. */
export interface Suggestion {
  readonly tool: string;
  readonly slots: ReadonlyMap<string, Filled | Missing>;
}

/** Whether nothing is missing but what the caller's identity fills, and what need not be said and was not. */
export function isComplete({ slots }: Suggestion): boolean {
  return [...slots.values()].every(
    (slot) =>
      "value" in slot ||
      slot.missing === "caller" ||
      (!slot.required && (slot.missing === "not_said" || slot.missing === "free_text")),
  );
}

/**
 * Path, reason and evidence. `answer` is set exactly where the turn is answered here. `observed` holds what
 * would have been decided where answering is off, observed or withheld from this user.
 */
export interface Decision {
  readonly path: Path;
  readonly reason: Reason;
  readonly lang: Lang | null;
  readonly reading: Reading | null;
  readonly topic: string | null;
  readonly guards: readonly GuardHit[];
  readonly answer: Answer | null;
  readonly unproven: boolean;
  readonly tools: readonly Suggestion[];
  readonly observed: Decision | null;
}

/** A decision; what is not given is empty. */
export function decision(path: Path, reason: Reason, rest: Partial<Decision> = {}): Decision {
  return {
    lang: null,
    reading: null,
    topic: null,
    guards: [],
    answer: null,
    unproven: false,
    tools: [],
    observed: null,
    ...rest,
    path,
    reason,
  };
}

/** The calibrated confidence; 1 for an exact match; null where nothing was read. */
export function confidenceOf(decided: Decision): number | null {
  return decided.reason === "exact" ? 1 : (decided.reading?.confidence ?? null);
}

/** The filled slots of all tools by name, without those that two of the tools read differently. */
export function slotsOf(decided: Decision): Map<string, SlotValue> {
  const read = new Map<string, (Filled | Missing)[]>();
  for (const tool of decided.tools) {
    for (const [name, slot] of tool.slots) read.set(name, [...(read.get(name) ?? []), slot]);
  }
  const filled = new Map<string, SlotValue>();
  for (const [name, [first, ...others]] of read) {
    if (first && "value" in first && others.every((slot) => isSame(slot, first))) {
      filled.set(name, first.value);
    }
  }
  return filled;
}

function isSame(slot: Filled | Missing, first: Filled): boolean {
  return "value" in slot && slot.text === first.text && plain(slot.value) === plain(first.value);
}

/** A slot's value as one to compare: in Python 12 and 12.0 are equal, and so are 1 and True. */
export function plain(value: SlotValue): string | number {
  if (value instanceof Decimal) return value.value;
  return typeof value === "boolean" ? Number(value) : value;
}
