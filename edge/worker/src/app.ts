import { type BundleFiles } from "./bundle";
import { classify } from "./classify";
import { loadSettings } from "./config";
import { Host } from "./host";
import { bodyText, parseObject } from "./wire";

export function createApp(files: BundleFiles, wasm: WebAssembly.Module) {
  let host: Host | null = null;
  return {
    async fetch(request: Request, env: Record<string, unknown>): Promise<Response> {
      host ??= new Host(files, wasm, loadSettings(env).answering);
      await host.load();
      if (!host.pipeline) return new Response(host.error, { status: 503 });
      const rows = await classify(host.pipeline, parseObject(bodyText(new Uint8Array(await request.arrayBuffer()))));
      return Response.json({ data: rows, bundle: host.label });
    },
  };
}
