// The application: one host and one set of endpoints an isolate, made of its variables at the first request.

import type { BundleFiles } from "./bundle";
import { loadSettings } from "./config";
import { Endpoints } from "./endpoints";
import { ConfigError, errorJson, RequestError } from "./errors";
import { Host } from "./host";

/** What Workers call. `files` are the bundle's, `wasm` is onnxruntime-web's plain build. */
export function createApp(
  files: BundleFiles,
  wasm: WebAssembly.Module,
): ExportedHandler<Record<string, unknown>> {
  let endpoints: Endpoints | null = null;
  return {
    async fetch(request, env, context) {
      try {
        if (endpoints === null) {
          const settings = loadSettings(env);
          endpoints = new Endpoints(settings, new Host(files, wasm, settings.answering));
        }
      } catch (error) {
        if (!(error instanceof ConfigError)) throw error;
        console.error(error.message);
        const told = new RequestError("A setting of this server is wrong; its log says which.", {
          code: "bad_config",
        });
        return new Response(errorJson(told), {
          status: 500,
          headers: { "content-type": "application/json" },
        });
      }
      const response = endpoints.handle(request, context);
      context.waitUntil(response); // also where the client leaves meanwhile, which the log shall tell
      return response;
    },
  };
}
