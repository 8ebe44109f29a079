// onnxruntime-web's plain WASM build inside an isolate, on one thread.

import * as ort from "onnxruntime-web/wasm";

export { InferenceSession, Tensor } from "onnxruntime-web/wasm";

/**
 * Makes a session of a model. An isolate may not compile WASM from bytes, which is what onnxruntime-web asks
 * for, so it is given the module that was compiled at deployment.
 */
export async function createSession(
  wasm: WebAssembly.Module,
  model: ArrayBuffer,
): Promise<ort.InferenceSession> {
  ort.env.wasm.numThreads = 1;
  ort.env.wasm.wasmBinary = new ArrayBuffer(0); // so that nothing is fetched
  const instantiate = WebAssembly.instantiate;
  const compiled = async (_: unknown, imports?: WebAssembly.Imports) => ({
    module: wasm,
    instance: new WebAssembly.Instance(wasm, imports),
  });
  WebAssembly.instantiate = compiled as unknown as typeof instantiate;
  try {
    return await ort.InferenceSession.create(new Uint8Array(model), {
      executionProviders: ["wasm"],
      // Measured: optimising the graph takes a third of the load and saves nothing of a run.
      graphOptimizationLevel: "disabled",
      logSeverityLevel: 3,
    });
  } finally {
    WebAssembly.instantiate = instantiate;
  }
}
