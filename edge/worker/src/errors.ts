// Every error of the isolate, and the one place where an error becomes OpenAI-shaped JSON (edge/errors.py).

/** A variable or secret is wrong; the message says which and what would be accepted. */
export class ConfigError extends Error {}

/** The bundle is missing, half written, altered, or of another schema. */
export class BundleError extends Error {}

/** The graph gave numbers that no reading can be made of. */
export class RouterError extends Error {}

/** The client closed the connection. */
export class ClientLeft extends Error {}

interface Told {
  readonly param?: string | null;
  readonly code?: string;
  readonly allow?: string;
  readonly repeatable?: boolean;
}

/** An error that the client sees. `repeatable`: the same request may be sent again: the agent has not begun. */
export class RequestError extends Error {
  readonly status: number = 500;
  readonly type: string = "server_error";
  readonly param: string | null;
  readonly code: string;
  readonly allow: string | null;
  readonly repeatable: boolean;

  constructor(message: string, { param, code, allow, repeatable }: Told = {}, usual = "internal_error") {
    super(message);
    this.param = param ?? null;
    this.code = code ?? usual;
    this.allow = allow ?? null;
    this.repeatable = repeatable ?? false;
  }
}

/** The request itself cannot be read. */
export class BadRequest extends RequestError {
  override readonly status = 400;
  override readonly type = "invalid_request_error";

  constructor(message: string, told: Told = {}) {
    super(message, told, "invalid_request");
  }
}

/** Nobody knows the caller. */
export class Unauthorized extends RequestError {
  override readonly status = 401;
  override readonly type = "invalid_request_error";

  constructor(message: string) {
    super(message, {}, "invalid_api_key");
  }
}

/** The body is over the configured limit. */
export class RequestTooLarge extends RequestError {
  override readonly status = 413;
  override readonly type = "invalid_request_error";

  /** `read`: what of the body was received before that was known; `rest`: what is to come. */
  constructor(
    message: string,
    readonly read: readonly Uint8Array[] = [],
    readonly rest: ReadableStreamDefaultReader<Uint8Array> | null = null,
  ) {
    super(message, {}, "request_too_large");
  }
}

/** No such path here. */
export class NotFound extends RequestError {
  override readonly status = 404;
  override readonly type = "not_found_error";

  constructor(message: string) {
    super(message, {}, "not_found");
  }
}

/** The path exists, the method does not. */
export class MethodNotAllowed extends RequestError {
  override readonly status = 405;
  override readonly type = "invalid_request_error";

  constructor(message: string, allow: string) {
    super(message, { allow }, "method_not_allowed");
  }
}

/** The bundle is not loaded, so a question that needs it cannot be answered. */
export class NotReady extends RequestError {
  override readonly status = 503;

  constructor(message: string) {
    super(message, { repeatable: true }, "not_ready");
  }
}

/** A turn has to go to the agent, and no agent is configured. */
export class UpstreamUnset extends RequestError {
  override readonly status = 503;

  constructor(message: string) {
    super(message, {}, "upstream_unset");
  }
}

/** The agent could not be connected to, or broke off before its first byte. */
export class UpstreamUnreachable extends RequestError {
  override readonly status = 502;

  constructor(message: string, told: Told = {}) {
    super(message, told, "upstream_unavailable");
  }
}

/** The agent sent no first byte in time. */
export class UpstreamTimeout extends RequestError {
  override readonly status = 504;
  override readonly type = "timeout";

  constructor(message: string) {
    super(message, {}, "upstream_timeout");
  }
}

/** The OpenAI error envelope of an error. */
export function errorJson(error: RequestError): string {
  const { message, type, param, code } = error;
  return JSON.stringify({ error: { message, type, param, code } });
}
