// The stages of a request, one file each, all of one shape: (Case, Runtime) → Case | Decision (edge/stages).
//
// A stage adds what it found to the case, or ends the request's way with a decision. A stage that objects does
// not stop the next ones: what they read is what the hints tell the agent.

import type { Bundle } from "../bundle";
import type { Decision, GuardHit, Reading, Reason, Suggestion } from "../decision";
import type { Query } from "../query";
import type { Router } from "../router";

/** What the stages work with. */
export interface Runtime {
  readonly bundle: Bundle;
  readonly router: Router;
}

/**
 * What is known of a query so far: its reading, the tools of its best topic with their slots as far as the query
 * fills them, and every objection to answering it here. `today` is the day in UTC, YYYY-MM-DD.
 */
export class Case {
  constructor(
    readonly query: Query,
    readonly today: string,
    readonly reading: Reading | null = null,
    readonly tools: readonly Suggestion[] = [],
    readonly objections: readonly GuardHit[] = [],
  ) {}

  /** The case with more objections. */
  add(...hits: readonly GuardHit[]): Case {
    return new Case(this.query, this.today, this.reading, this.tools, [...this.objections, ...hits]);
  }

  /** The case with one more objection that needs no guard. */
  because(reason: Reason, value = ""): Case {
    return this.add({ name: reason, reason, value });
  }

  /** The case with what the router says, and then with the tools of the best topic. */
  with(reading: Reading, tools: readonly Suggestion[] = []): Case {
    return new Case(this.query, this.today, reading, tools, this.objections);
  }
}

export type Stage = (state: Case, runtime: Runtime) => Case | Decision | Promise<Case>;
