// Read: one tokenizer call, one router run. Nothing later runs a model.

import { RouterError } from "../errors";
import type { Case, Runtime } from ".";

/** Add the reading; object where the text is too long or the router fails. */
export async function read(state: Case, { bundle, router }: Runtime): Promise<Case> {
  try {
    const reading = state.query.clipped ? null : await router.read(state.query.normal);
    if (reading === null) return state.because("too_long", `more than ${bundle.maxTokens} tokens`);
    return state.with(reading);
  } catch (error) {
    if (!(error instanceof RouterError)) throw error;
    return state.because("not_ready", error.message);
  }
}
