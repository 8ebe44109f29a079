// The path of a query, top to bottom: bypass, exact, read, guard, route (edge/pipeline.py).

import type { Answering } from "./config";
import { type Decision, decision, type Reason } from "./decision";
import type { Query } from "./query";
import { Case, type Runtime, type Stage } from "./stages";
import { bypass } from "./stages/bypass";
import { exact } from "./stages/exact";
import { guard } from "./stages/guard";
import { read } from "./stages/read";
import { route } from "./stages/route";
import type { Spans } from "./telemetry";

const STAGES: readonly [string, Stage][] = Object.entries({ bypass, exact, read, guard, route });

/** Decides queries; pure but for the clock that tells expired answers. */
export class Pipeline {
  constructor(
    readonly runtime: Runtime,
    private readonly answering: Answering,
  ) {}

  /** The decision on a query, after the grey release of answering itself. */
  async decide(query: Query, spans?: Spans): Promise<Decision> {
    return this.release(await this.judge(query, spans), query);
  }

  /** The decision on a query as if answering were fully on. */
  private async judge(query: Query, spans?: Spans): Promise<Decision> {
    let state = new Case(query, new Date().toISOString().slice(0, 10));
    for (const [name, stage] of STAGES) {
      const outcome = await stage(state, this.runtime);
      spans?.mark(name);
      if (!(outcome instanceof Case)) return outcome;
      state = outcome;
    }
    throw new Error("route always decides");
  }

  private async release(decided: Decision, query: Query): Promise<Decision> {
    const { mode, share } = this.answering;
    if (mode === "off") return withhold(decided, "answering_off");
    if (mode === "observe") return withhold(decided, "observe");
    if (decided.answer !== null && share < 1 && (await place(query.identity)) >= share) {
      return withhold(decided, "control_group");
    }
    return decided;
  }
}

/** Where a user stands in [0, 1), the same every time, so that a share is sticky per user. */
export async function place(identity: string): Promise<number> {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(identity));
  return Number(new DataView(digest).getBigUint64(0)) / 2 ** 64;
}

/** A forward in place of a decision, which is kept as what was observed. */
export function withhold(decided: Decision, reason: Reason): Decision {
  const { lang, reading, topic, guards, tools } = decided;
  return decision("agent", reason, { lang, reading, topic, guards, tools, observed: decided });
}
