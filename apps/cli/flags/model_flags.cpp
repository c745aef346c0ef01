#include "cli/flags/model_flags.h"

#include "cli/flags/tokenizer_flags.h"

namespace mtl {

void add_heads_flag(Flags& flags, std::optional<std::int64_t>& heads) {
  flags.add("--num-attention-heads", &heads, "N", "attention heads of a checkpoint that does not state them",
            within({1, INT32_MAX}));
}

void add_hf_config_flag(Flags& flags, std::string& path, const Flags::Rule& rule) {
  flags.add("--hf-config", &path, "PATH",
            "config.json of the model, or its folder, for a checkpoint without its configuration: torchtitan's, NeMo's",
            rule);
}

void add_supplement_flags(Flags& flags, ModelSupplement& given) {
  add_vocab_size_flag(flags, given.vocab_size,
                      "vocabulary size of a Megatron-LM checkpoint; further rows of its token embedding are padding");
  add_heads_flag(flags, given.num_attention_heads);
  add_hf_config_flag(flags, given.hf_config);
}

}  // namespace mtl
