// The stages of a request, one file each, all of one shape: (Case, Runtime) → Case | Decision (edge/stages).
//
// A stage adds what it found to the case, or ends the request's way with a decision. A stage that objects does
// not stop the next ones: what they read is what the hints tell the agent.

import type { Bundle } from "../bundle";
import type { Decision, GuardHit, Reading, Reason } from "../decision";
import type { Query } from "../query";
import type { Router } from "../router";

/** What the stages work with. */
export interface Runtime {
  readonly bundle: Bundle;
  readonly router: Router;
}

/** What is known of a query so far: its reading, and every objection to answering it here. */
export class Case {
  constructor(
    readonly query: Query,
    /** The day in UTC, YYYY-MM-DD. */
    readonly today: string,
    readonly reading: Reading | null = null,
    readonly objections: readonly GuardHit[] = [],
  ) {}

  /** The case with more objections. */
  add(...hits: readonly GuardHit[]): Case {
    return new Case(this.query, this.today, this.reading, [...this.objections, ...hits]);
  }

  /** The case with one more objection that needs no guard. */
  because(reason: Reason, value = ""): Case {
    return this.add({ name: reason, reason, value });
  }

  /** The case with the router's reading. */
  read(reading: Reading): Case {
    return new Case(this.query, this.today, reading, this.objections);
  }
}

export type Stage = (state: Case, runtime: Runtime) => Case | Decision | Promise<Case>;
