// How much a forwarded turn asks of the agent, as far as the decision tells (edge/complexity.py).

import type { Decision, Reason } from "./decision";

const SHORT_TOKENS = 16;
// These tell why the edge does not answer a turn, and nothing of how hard it is.
const EASY = new Set<Reason>([
  "topic_forwards",
  "unproven",
  "answer_expired",
  "no_answer_in_language",
  "slot_missing",
]);

/** `length` is that of the last user turn; null where nothing is known of it, as for `tier`. */
export interface Complexity {
  readonly requests: "single" | "multi";
  readonly length: "short" | "medium" | "long" | null;
  readonly tier: "small" | "large" | null;
}

/** The complexity of a turn whose topic declares `tools`. */
export function complexityOf({ guards, reading, topic }: Decision, tools: readonly string[]): Complexity {
  const reasons = new Set(guards.map((hit) => hit.reason));
  const isHard = [...reasons].some((reason) => !EASY.has(reason)) || tools.length > 1;
  const read = reading && (reading.tokens <= SHORT_TOKENS ? "short" : "medium");
  return {
    requests: reasons.has("multi_request") ? "multi" : "single",
    length: reasons.has("too_long") ? "long" : read,
    tier: isHard ? "large" : topic === null ? null : "small",
  };
}
