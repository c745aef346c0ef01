// Answers to the keys of a DeepSpeed configuration, ds_config.json, which mtl-train does not read: the flags to use
// instead, or why there is nothing to set.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace mtl {

/// Keys with the same answer. The first row that fits a key and its value applies.
struct DeepSpeedKeys {
  std::string_view section;  // the path of the object that contains the keys, as "optimizer.params"; "": the whole file
  /// Separated by blanks; "device=cpu" is a key with one value. A value of false or null, or an object with `"enabled":
  /// false`, needs no row.
  std::string_view keys;
  /// A text with code in backticks. One that consists of code is flags, which are ready to be copied. VALUE stands for
  /// the key's value, COUNT for a whole number, and VALUE[0] for the first item of an array.
  std::string_view answer;
};

std::span<const DeepSpeedKeys> deepspeed_keys();

/// Returns lines of a message, each after a line end: a line for each key in the file with the answer to it, and all
/// flags together; or one line that says why the file cannot be read.
std::string explain_deepspeed_config(const std::string& path);

}  // namespace mtl
