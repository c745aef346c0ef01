// Reads the settings of a YAML file, in the two styles of GPT-NeoX's configurations:
//
//   { "num-layers": 2, "optimizer": {"lr": 1e-4,}, }      a flow mapping: JSON with comments and trailing commas
//   num_layers: 2                                         a block mapping: one setting per line
//
// Reads only the top level, which has the settings of the model. Anchors, tags, multi-line text and other features of
// YAML are errors there.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace mtl {

struct YamlSetting {
  std::string text;        // a scalar without quotes; of a nested value, its text without comments
  bool is_quoted = false;  // a quoted scalar is text, even if it looks like a number
  bool is_nested = false;  // a list or a mapping
};

/// Returns the settings by name, with '-' in names replaced by '_'. If a name occurs several times, the last one wins.
/// Throws Error(bad_data) "line N: what".
std::map<std::string, YamlSetting> parse_yaml_settings(std::string_view text);

}  // namespace mtl
