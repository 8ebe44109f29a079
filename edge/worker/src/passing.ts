// A response body on its way from the upstream to the client.

import { ClientLeft, errorJson, UpstreamTimeout, UpstreamUnreachable } from "./errors";
import { EventReader } from "./sse";
import type { Relayed } from "./telemetry";
import { SSE_DONE } from "./wire";

/** The upstream's bytes, what closes its connection, and what tells that the client is gone. Seconds. */
export interface Source {
  readonly body: ReadableStream<Uint8Array>;
  readonly abort: AbortController;
  readonly client: AbortSignal;
  readonly idleTimeout: number;
}

/** Pass the bytes on as they come until either side ends; `relayed` tells how it went. */
export async function passOn(
  source: Source,
  to: WritableStream<Uint8Array>,
  relayed: Relayed,
): Promise<void> {
  const [reader, writer] = [source.body.getReader(), to.getWriter()];
  const events = new EventReader();
  try {
    for (;;) {
      const chunk = await next(reader, source);
      if (!(chunk instanceof Uint8Array)) {
        await end(chunk);
        return;
      }
      await writer.write(chunk);
      if (relayed.stream) listen(events, chunk, relayed);
    }
  } catch {
    relayed.outcome = "client_left"; // nothing else makes writing fail
  } finally {
    source.abort.abort();
    await reader.cancel().catch(() => undefined);
  }

  async function end(how: End): Promise<void> {
    if (source.client.aborted) throw new ClientLeft("The client closed the connection.");
    if (how === "end" || relayed.done) return writer.close();
    relayed.outcome = "upstream_failed";
    // Where the answer can carry no error, only a cut connection tells the client.
    if (!relayed.stream) return writer.abort(new Error("The upstream broke off its answer."));
    await writer.write(brokenOff(events, how));
    return writer.close();
  }
}

type End = "end" | "broken" | "idle";

async function next(
  reader: ReadableStreamDefaultReader<Uint8Array>,
  { abort, idleTimeout }: Source,
): Promise<Uint8Array | End> {
  let isIdle = false;
  const timer = setTimeout(() => {
    isIdle = true;
    abort.abort();
  }, idleTimeout * 1000);
  try {
    const { done, value } = await reader.read();
    return done ? "end" : value;
  } catch {
    return isIdle ? "idle" : "broken";
  } finally {
    clearTimeout(timer);
  }
}

function listen(events: EventReader, chunk: Uint8Array, relayed: Relayed): void {
  for (const bytes of events.feed(chunk)) {
    const data = new TextDecoder().decode(bytes);
    if (data === "[DONE]") relayed.done = true;
    else if (data.includes('"usage"'))
      relayed.completionTokens = completionTokens(data) ?? relayed.completionTokens;
  }
}

function completionTokens(data: string): number | null {
  try {
    const tokens = JSON.parse(data)?.usage?.completion_tokens;
    return Number.isInteger(tokens) ? tokens : null;
  } catch {
    return null;
  }
}

/** What ends a stream that the upstream broke off: close a half event, say so, be done. */
function brokenOff(events: EventReader, how: End): Uint8Array {
  const error =
    how === "idle"
      ? new UpstreamTimeout("The upstream stopped sending; try again.")
      : new UpstreamUnreachable("The upstream broke off its answer.", { code: "upstream_reset" });
  const start = events.midEvent ? "\n\n" : "";
  return new TextEncoder().encode(`${start}data: ${errorJson(error)}\n\n${SSE_DONE}`);
}
