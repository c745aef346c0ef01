// The options of a program that runs a model, their flags, and how to load the model and its tokenizer.
#pragma once

#include "cli/flags.h"
#include "eval/model.h"
#include "text/tokenizer.h"

namespace mtl {

/// A model to run, and how.
struct ModelOptions {
  std::string load;
  std::optional<std::int64_t> num_attention_heads;  // for model files that do not say
  std::string hf_config;                            // likewise
  std::string dtype = "float32";                    // for computation, weights and key-value cache
  TokenizerOptions tokenizer;
  std::string device = "auto";
  std::int64_t threads = 0;
};

/// Adds the section Model: --load, --num-attention-heads, --hf-config and --dtype.
void add_model_flags(Flags& flags, ModelOptions& options);
/// Adds --device and --threads.
void add_running_flags(Flags& flags, ModelOptions& options);
/// For Flags::check: calls check_tokenizer_flags if any tokenizer flag other than --vocab-size was given.
void check_model_tokenizer_flags(Flags& flags, const TokenizerOptions& given);

/// Opens the model's files.
ModelSource open_source(const ModelOptions& options, Console& console);
/// Loads the tokenizer that flags name, or else the one stored with the model. Returns null if there is none. The
/// tokenizer may have ids that the model lacks. Throws Error(usage) if --vocab-size contradicts the model. If the
/// model's files do not state the vocabulary size, drops embedding rows beyond the tokenizer's ids; without a
/// tokenizer, warns that some rows may be padding.
std::unique_ptr<Tokenizer> tokenizer_of_model(const TokenizerOptions& given, ModelSource& source, Console& console);
/// Loads the weights, and reports the device.
Model load_model(const ModelOptions& options, const ModelSource& source, Console& console);

}  // namespace mtl
