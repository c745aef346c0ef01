// Reads torchtitan's checkpoints of Llama models, which are DCP folders (dcp_folder.h) named step-N:
//
//   tok_embeddings.weight, norm.weight, output.weight
//   layers.N.attention.{wq,wk,wv,wo}.weight, layers.N.feed_forward.{w1,w2,w3}.weight,
//   layers.N.{attention_norm,ffn_norm}.weight
//   optimizer.state.KEY.{exp_avg,exp_avg_sq,step}
//   train_state.step
//
// Keys may have the prefix "model.". w1 is the gate, w3 the up projection. The rows of wq and wk are in the order of
// interleaved rotary positions: within a head of D rows, row 2 i + j is row i + j D / 2 of a Hugging Face Llama.
//
// The files do not contain the configuration. It comes from a config.json, which the user names or which is in the
// folder, or otherwise from the tensors' shapes, the number of heads and torchtitan's defaults.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/console.h"
#include "models/format_marks.h"
#include "models/model_source.h"
#include "models/tensor_reader.h"

namespace mtl {

inline constexpr std::string_view kDcpWhat = "is a distributed checkpoint of Megatron-LM or PyTorch",
                                  kNoIndexRemedy =
                                      " without .metadata; copy all of its files (names that start with a dot are "
                                      "easily missed)";
inline constexpr FormatMark kDcpMarks[] = {{".metadata", kDcpWhat, kReadRemedy},
                                           {"*.distcp", kDcpWhat, kNoIndexRemedy}};

/// If `path` is a folder of DCP folders step-N, returns the one with the largest N. Otherwise returns empty.
std::optional<std::string> current_dcp_step(const std::string& path, Console& console);

/// Opens a folder with these marks. Warns about each value that the files do not state, and that we
/// assume. Throws Error(bad_data), with a remedy, if the keys are not those of such a model. Throws UsageError if there
/// is no config.json and the number of heads is unknown.
std::unique_ptr<TensorReader> open_dcp_llama(const std::string& path, const ModelSupplement& given, Console& console);

}  // namespace mtl
