// How long a request may take until its first byte (edge/budget.py). Deployed, the clock stands still while code runs.

/** A deadline on the isolate's clock, in milliseconds. */
export class Budget {
  private readonly deadline: number;

  constructor(
    readonly total: number,
    now = performance.now(),
  ) {
    this.deadline = now + total;
  }

  /** What is left, in milliseconds; never below 0. */
  remaining(now = performance.now()): number {
    return Math.max(0, this.deadline - now);
  }
}
