// Bypass: what the request itself says against a local answer, before any of it is read.

import { byCodePoint } from "../unicode";
import type { Case, Runtime } from ".";

/** Object to client tools, unusual options, attachments and unknown system prompts. */
export function bypass(state: Case, { bundle }: Runtime): Case {
  const { query } = state;
  if (query.clientTools) state = state.because("client_tools");
  if (query.options.size > 0 || !query.lastIsUser) {
    state = state.because("client_options", [...query.options].sort(byCodePoint).join(",") || "last_role");
  }
  if (query.attachment) state = state.because("attachment");
  if (query.system !== null && bundle.systemPrompts !== null && !bundle.systemPrompts.has(query.system)) {
    state = state.because("system_prompt", query.system);
  }
  return state;
}
