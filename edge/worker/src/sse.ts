// A side parser of server-sent events: reads what passes, changes nothing, holds little (edge/sse.py).

const [CR, LF, COLON, SPACE] = [13, 10, 58, 32];
const DATA = [100, 97, 116, 97];
const BOM = [0xef, 0xbb, 0xbf]; // one at the start of a stream is no part of it

/** Gives the `data` of each event as bytes; an event over `limit` bytes is passed over. */
export class EventReader {
  /** What has come of the line, in pieces. */
  private line: Uint8Array[] = [];
  private data: Uint8Array[] = [];
  private size = 0;
  private tooLong = false;
  private afterCr = false;
  private begun = false;

  constructor(private readonly limit = 1 << 20) {}

  /** Whether something of an event has come that no blank line has closed yet. */
  get midEvent(): boolean {
    return this.size > 0;
  }

  /** The events that this chunk completes. */
  *feed(chunk: Uint8Array): Generator<Uint8Array> {
    let start = 0;
    if (this.afterCr && chunk.length > 0) {
      this.afterCr = false;
      if (chunk[0] === LF) start = 1;
    }
    while (start < chunk.length) {
      const end = lineEnd(chunk, start);
      this.add(chunk.subarray(start, end));
      if (end === chunk.length) return;
      start = end + 1;
      if (chunk[end] === CR) {
        if (start === chunk.length) this.afterCr = true;
        else if (chunk[start] === LF) start += 1;
      }
      const event = this.endLine();
      if (event !== null) yield event;
    }
  }

  private add(part: Uint8Array): void {
    if (part.length === 0) return;
    this.size += part.length;
    if (this.size > this.limit) {
      this.tooLong = true;
      this.data = [];
      this.line = [Uint8Array.of(COLON)]; // only whether the line is blank still matters
    } else this.line.push(part.slice());
  }

  private endLine(): Uint8Array | null {
    let line = joined(this.line);
    this.line = [];
    if (!this.begun) {
      this.begun = true;
      if (startsWith(line, BOM)) line = line.subarray(BOM.length);
    }
    if (line.length > 0) {
      if (startsWith(line, DATA) && !this.tooLong) {
        if (line[4] === COLON) this.data.push(line.subarray(line[5] === SPACE ? 6 : 5));
        else if (line.length === DATA.length) this.data.push(new Uint8Array());
      }
      return null;
    }
    const event = this.tooLong || this.data.length === 0 ? null : joined(this.data, LF);
    this.data = [];
    this.size = 0;
    this.tooLong = false;
    return event;
  }
}

/** The index of the first CR or LF from `start` on, or the length. */
function lineEnd(chunk: Uint8Array, start: number): number {
  const lf = chunk.indexOf(LF, start);
  const line = lf < 0 ? chunk.length : lf;
  const cr = chunk.subarray(start, line).indexOf(CR);
  return cr < 0 ? line : start + cr;
}

function startsWith(bytes: Uint8Array, start: readonly number[]): boolean {
  return start.every((byte, i) => bytes[i] === byte);
}

/** The parts as one, with a byte between each two where one is given. */
function joined(parts: readonly Uint8Array[], between?: number): Uint8Array {
  if (parts.length === 1) return parts[0]!;
  const gap = between === undefined ? 0 : 1;
  const size = parts.reduce((sum, part) => sum + part.length + gap, -gap);
  const whole = new Uint8Array(Math.max(0, size)).fill(between ?? 0);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length + gap;
  }
  return whole;
}
