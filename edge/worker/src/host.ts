// What an isolate serves: the pipeline once its bundle is loaded, or the reason why it is not (edge/host.py).

import { type BundleFiles, loadBundle } from "./bundle";
import type { Answering } from "./config";
import { BundleError } from "./errors";
import { Pipeline } from "./pipeline";
import { loadRouter } from "./router";

/** Holds the pipeline. Until `load` has ended well, turns are forwarded as `not_ready`. */
export class Host {
  pipeline: Pipeline | null = null;
  error: string | null = null;
  private loading: Promise<void> | null = null;

  constructor(
    private readonly files: BundleFiles,
    private readonly wasm: WebAssembly.Module,
    private readonly answering: Answering,
  ) {}

  /** `name@version` of the bundle, "" without one. */
  get label(): string {
    return this.pipeline?.runtime.bundle.label ?? "";
  }

  /**
   * Loads the bundle, once an isolate. It waits for nothing outside, so no request can leave it half done; a bad
   * bundle leaves the host forwarding and says so in log and readiness.
   */
  load(): Promise<void> {
    this.loading ??= this.open();
    return this.loading;
  }

  private async open(): Promise<void> {
    try {
      const bundle = await loadBundle(this.files);
      const router = await loadRouter(bundle, this.files, this.wasm);
      this.pipeline = new Pipeline({ bundle, router }, this.answering);
    } catch (error) {
      const said = error instanceof BundleError ? error.message : `The bundle cannot be used (${String(error)}).`;
      this.error = said;
      console.error(`Every turn is forwarded, because the bundle cannot be used. ${said}`);
    }
  }
}
