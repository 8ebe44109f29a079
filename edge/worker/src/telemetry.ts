// What happened, as data: the spans of one request, and how its forward went (edge/telemetry.py).

/** Where the time of one request went: (stage, milliseconds), in order. Deployed, only waits show. */
export class Spans {
  readonly spent: [string, number][] = [];
  private readonly start = performance.now();
  private last = this.start;

  /** Book the time since the last mark to `name`. */
  mark(name: string): void {
    const now = performance.now();
    this.spent.push([name, now - this.last]);
    this.last = now;
  }

  /** Milliseconds since the request came. */
  total(): number {
    return performance.now() - this.start;
  }

  /** The `server-timing` header value so far. */
  serverTiming(): string {
    return this.spent.map(([name, ms]) => `${name};dur=${ms.toFixed(3)}`).join(", ");
  }
}

/** How a forward went; filled in as it goes, so that it tells the truth when it breaks off. */
export class Relayed {
  status = 0;
  started = false;
  outcome = "ok";
  stream = false;
  done = false;
  completionTokens: number | null = null;
}
