// Architecture presets: `--model gpt2-124m` replaces the flags that describe that model.
#pragma once

#include <string>
#include <vector>

#include "run/architecture.h"

namespace mtl {

struct Preset {
  std::string name;
  std::int64_t layers, hidden_size, heads;
  std::int64_t seq_length;  // tokens per sample, and positions unless `flags` say otherwise
  std::int64_t vocab_size;  // of the tokenizer of the published model, and its padding if it was published so
  double dropout;           // for hidden states and attention
  std::string flags;        // the rest of the architecture, as mtl-train's flags
};

const std::vector<Preset>& presets();
/// Returns the preset with this name. A leading "gpt-" or "gpt2-" may be omitted. If the name is unknown, throws
/// Error(usage) with a list of all names.
const Preset& find_preset(const std::string& name);

/// Fills in absent options with the preset's values, and adds their flags to given.preset_flags, unless a given option
/// excludes them: a different activation, learned positions, or different position scaling. Returns the given options
/// that differ from the preset, each as "--num-layers 6 in place of 12" or "--swiglu in addition".
std::vector<std::string> apply_preset(const Preset& preset, ArchitectureOptions& given);

}  // namespace mtl
