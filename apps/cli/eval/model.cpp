#include "cli/eval/model.h"
#include "ckpt/open_model.h"

#include "base/heartbeat.h"
#include "cli/eval/tokenizer.h"
#include "cli/flags/device_flags.h"
#include "cli/flags/model_flags.h"
#include "cli/run_main.h"
#include "kernels/attention_variant.h"

namespace mtl {

void add_model_flags(Flags& flags, ModelOptions& options) {
  flags.section("Model");
  flags.add("--load", &options.load, "PATH", cat("model: ", loadable_models())).required();
  add_heads_flag(flags, options.num_attention_heads);
  add_hf_config_flag(flags, options.hf_config);
  flags.add("--dtype", &options.dtype, "TYPE", "dtype for computation, weights and key-value cache")
      .one_of({"float32", "bfloat16", "float16"});
}

void add_running_flags(Flags& flags, ModelOptions& options) {
  add_device_flag(flags, options.device);
  add_threads_flag(flags, options.threads);
}

ModelSource open_source(const ModelOptions& options, Console& console) {
  const Heartbeat opening(console, cat("opening ", options.load));
  ModelSupplement given = supplement_of(options.tokenizer, options.num_attention_heads);
  given.hf_config = options.hf_config;
  return open_model(options.load, console, given);
}

Model load_model(const ModelOptions& options, const ModelSource& source, Console& console) {
  const DType dtype = options.dtype == "bfloat16" ? DType::bf16 : options.dtype == "float16" ? DType::f16 : DType::f32;
  const Device device = device_to_use(options.device, console);
  const std::string warning = device == Device::cuda ? scalar_attention_warning(dtype, source.config().head_dim) : "";
  if (!warning.empty()) console.warn(warning);
  const Heartbeat loading(console, cat("loading ", options.load));
  return Model(source, resolve_threads(options.threads), dtype, device);
}

}  // namespace mtl
