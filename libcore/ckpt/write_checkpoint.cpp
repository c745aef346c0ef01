#include "ckpt/write_checkpoint.h"

#include <utility>

#include "ckpt/checkpoint.h"
#include "comm/groups.h"
#include "models/companion_files.h"
#include "models/tensor_blocks.h"

namespace mtl {

namespace {

/// Records the rounded dtype in the run's precision, so that a run that needs unrounded main parameters refuses to
/// resume.
void record_rounded_weights(TrainState& state, StoredDType dtype) {
  const Json* record = state.extra.find("precision");
  const bool trained_here =
      record != nullptr || state.extra.find("seed") != nullptr;  // fp32 runs do not record a precision
  if (!trained_here) return;
  Json precision = record != nullptr ? *record : Json::object();
  precision.set("main_params", torch_name_of(dtype));
  state.extra.set("precision", std::move(precision));
}

}  // namespace

void read_tensor(const ModelSource& source, const SavedTensor& tensor, StoredDType dtype, std::vector<std::byte>& out,
                 const ConversionHook& on_conversion) {
  const Slice whole = whole_slice(tensor.shape);
  out.resize(whole.count() * bits_of(dtype) / 8);
  TensorBlocks(source, on_conversion).read({tensor.name, tensor.name, dtype}, whole, out);
}

StoredDType target_dtype(const SavedTensor& tensor, std::optional<StoredDType> dtype) {
  return starts_with(tensor.name, "param.") ? dtype.value_or(tensor.dtype) : tensor.dtype;
}

void write_checkpoint(const ModelSource& source, const std::string& folder, const ModelWriteOptions& options) {
  TrainState state = source.state().value_or(TrainState{});
  if (Json config = source.hf_config(); !config.is_null()) state.extra.set("hf_config", std::move(config));
  if (source.dropout()) state.extra.set("dropout", dropout_to_json(*source.dropout()));
  if (options.dtype) record_rounded_weights(state, *options.dtype);
  std::vector<TensorToSave> tensors;
  std::vector<std::byte> buffer;
  for (const SavedTensor& tensor : source.tensors()) {
    StoredDType target = target_dtype(tensor, options.dtype);
    tensors.push_back({{tensor.name, target, tensor.shape}, whole_slice(tensor.shape), [&, tensor, target] {
                         read_tensor(source, tensor, target, buffer, options.on_conversion);
                         return std::span<const std::byte>(buffer);
                       }});
  }
  SaveOptions save;
  save.command_line = options.command_line;
  save.add_files = [&](const std::string& to) { copy_companion_files(source.folder(), to); };
  SelfCommunicator alone;
  const auto no_warning = [](const std::string&) {};  // a new folder has no older checkpoints
  commit_checkpoint(folder, {source.config(), state, [&] { return std::move(tensors); }}, save, alone, no_warning);
}

}  // namespace mtl
