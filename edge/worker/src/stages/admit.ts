// Admit: the size of a request, before anything of it is interpreted. Its framing is workerd's business.

import { ClientLeft, RequestTooLarge } from "../errors";

/** The whole body. Throws RequestTooLarge over `limit` bytes, ClientLeft if the client goes. */
export async function readBody(request: Request, limit: number): Promise<Uint8Array> {
  const message = `The body is larger than ${limit} bytes; send a shorter conversation.`;
  const reader = request.body?.getReader() ?? null;
  const told = request.headers.get("content-length") ?? "";
  if (/^[0-9]+$/.test(told) && Number(told) > limit) throw new RequestTooLarge(message, [], reader);
  const chunks: Uint8Array[] = [];
  let size = 0;
  while (reader !== null) {
    const { done, value } = await reader.read().catch(() => {
      throw new ClientLeft("The client closed the connection.");
    });
    if (done) break;
    chunks.push(value);
    size += value.length;
    if (size > limit) throw new RequestTooLarge(message, chunks, reader);
  }
  return joined(chunks, size);
}

function joined(chunks: readonly Uint8Array[], size: number): Uint8Array {
  const body = new Uint8Array(size);
  let end = 0;
  for (const chunk of chunks) {
    body.set(chunk, end);
    end += chunk.length;
  }
  return body;
}
