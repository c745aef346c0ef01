#include "cli/eval/model.h"

#include "base/heartbeat.h"
#include "ckpt/open_model.h"
#include "cli/flags/model_flags.h"
#include "cli/flags/model_tokenizer.h"
#include "cli/flags/tokenizer_flags.h"
#include "cli/run_main.h"
#include "device/device_choice.h"
#include "kernels/attention_variant.h"
#include "text/tokenizer_kinds.h"

namespace mtl {

void add_model_flags(Flags& flags, ModelOptions& options) {
  flags.section("Model");
  flags.add("--load", &options.load, "PATH", cat("model: ", loadable_models()), required);
  add_heads_flag(flags, options.num_attention_heads);
  add_hf_config_flag(flags, options.hf_config);
  flags.add("--dtype", &options.dtype, "TYPE", "dtype for computation, weights and key-value cache",
            one_of({"float32", "bfloat16", "float16"}));
}

void add_running_flags(Flags& flags, ModelOptions& options) {
  add_device_flag(flags, options.device);
  add_threads_flag(flags, options.threads);
}

void check_model_tokenizer_flags(Flags& flags, const TokenizerOptions& given) {
  bool is_chosen = flags.was_given("--tokenizer-type");
  for (const TokenizerKind& kind : tokenizer_kinds()) {
    for (const TokenizerKind::Flag& flag : kind.flags)
      is_chosen = is_chosen || (std::string_view(flag.name) != "--vocab-size" && flags.was_given(flag.name));
  }
  if (is_chosen) check_tokenizer_flags(flags, given);
}

ModelSource open_source(const ModelOptions& options, Console& console) {
  const Heartbeat opening(console, cat("opening ", options.load));
  const TokenizerOptions& given = options.tokenizer;  // a tokenizer that it names has its own vocabulary size
  return open_model(options.load, console,
                    {.vocab_size = given.names_tokenizer() ? std::nullopt : given.vocab_size,
                     .num_attention_heads = options.num_attention_heads,
                     .hf_config = options.hf_config});
}

std::unique_ptr<Tokenizer> tokenizer_of_model(const TokenizerOptions& given, ModelSource& source, Console& console) {
  auto tokenizer = choose_tokenizer(given, source.folder());
  source.trim_vocabulary(tokenizer ? std::optional<std::int64_t>(tokenizer->vocab_size()) : std::nullopt, console);
  const std::int64_t vocabulary = source.config().vocab_size;
  if (!given.names_tokenizer() && given.vocab_size.value_or(vocabulary) != vocabulary)
    fail(Exit::usage, "--vocab-size ", *given.vocab_size, " differs from the vocabulary size ", vocabulary, " of ",
         source.folder(), "; leave the flag out");
  return tokenizer;
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
