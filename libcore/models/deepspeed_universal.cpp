// Reads DeepSpeed's universal checkpoints, which its ds_to_universal.py makes of those of ZeRO 1 to 3:
//
//   DIR/latest_universal                                       the tracker: the name of the checkpoint's folder
//   DIR/global_step1000_universal/mp_rank_*_model_states.pt    as before; the weights in them are not used
//   DIR/global_step1000_universal/zero/NAME/{fp32,exp_avg,exp_avg_sq}.pt
//       = {param: fp32 tensor, cat_dim: 0 or 1, param_n_sub_params: 2, vocab_tensor: True}
//
// The tensor parallel ranks' shards of a parameter are joined along cat_dim. With param_n_sub_params, all first halves
// precede all second halves. Without cat_dim, the ranks had equal copies, or the tensor is their mean. With
// vocab_tensor, the padding rows are removed. cat_dim is 0 for all parameters, vectors included, if the program did not
// tell DeepSpeed how it shards them (--inject_missing_state).
//
// Of ZeRO-3 without tensor parallelism, a file NAME/*.pt is the flattened tensor itself. Its shape is in param_shapes
// of the files zero_pp_rank_D_mp_rank_00_model_states.pt, which take the place of mp_rank_00_model_states.pt.
#include <algorithm>

#include "base/files.h"
#include "base/printable.h"
#include "formats/torch_archive.h"
#include "models/deepspeed_model.h"
#include "models/tensor_reader.h"

namespace mtl {

namespace {

/// A parameter's file.
struct MergedTensor {
  const TorchFile* file = nullptr;
  const TorchTensor* tensor = nullptr;
  std::vector<std::int64_t> shape;
  std::optional<std::int64_t> axis;  // cat_dim
  bool has_halves = false, is_vocabulary = false;
};

template <class... Parts>
[[noreturn]] void refuse_file(const MergedTensor& merged, const Parts&... parts) {
  fail_at(Exit::bad_data, merged.file->path(), parts...);
}

/// Returns the shape of a parameter's shard that param_shapes states in the ranks' files, or empty.
std::optional<std::vector<std::int64_t>> stated_shape(const DeepSpeedModel& model, const std::string& name) {
  for (std::size_t rank = 0; rank < model.ranks; ++rank) {
    const TorchFile& file = *model.files[rank];
    const std::optional<PickleValue> groups = file.root().find("param_shapes");
    for (std::size_t g = 0; groups && groups->is(PickleKind::list) && g < groups->size(); ++g) {
      if (const std::optional<PickleValue> shape = groups->at(g).find(name)) return shape_in(file, *shape);
    }
  }
  return std::nullopt;
}

/// Reads the entries of a file that joins the shards of tensor parallel ranks.
void read_entries(MergedTensor& out) {
  const PickleValue root = out.file->root();
  for (std::size_t i = 0; i < root.size(); ++i) {
    const std::string key = root.key(i).is(PickleKind::text) ? std::string(root.key(i).as_text()) : "";
    const PickleValue value = root.value(i);
    const bool is_integer = value.is(PickleKind::integer);
    if (key == "param")
      out.tensor = out.file->tensor(value);
    else if (key == "cat_dim" && is_integer && (value.as_int() == 0 || value.as_int() == 1))
      out.axis = value.as_int();
    else if (key == "param_n_sub_params" && is_integer && value.as_int() == 2)
      out.has_halves = true;
    else if (key == "vocab_tensor" && value.is(PickleKind::boolean))
      out.is_vocabulary = value.as_bool();
    else
      refuse_file(out, "the entry '", printable_text(key), "' is ", value.describe(),
                  ", a way of merging tensor parallel ranks that mtl does not support");
  }
}

MergedTensor open_merged(DeepSpeedModel& model, const std::string& folder, const std::string& name, const char* state) {
  const std::string path = cat(folder, "/", state, ".pt");
  if (!file_exists(path)) fail_at(Exit::bad_data, path, "the file is missing; copy all files of the checkpoint");
  model.files.push_back(std::make_unique<TorchFile>(path, true));
  MergedTensor out;
  out.file = model.files.back().get();
  out.tensor = out.file->tensor(out.file->root());
  const bool is_flat = out.tensor != nullptr;  // made from ZeRO-3
  if (!is_flat) read_entries(out);
  if (out.tensor == nullptr || out.tensor->dtype != StoredDType::f32 || !out.tensor->is_contiguous())
    refuse_file(out, "the entry 'param' is not a contiguous fp32 tensor");
  out.shape = out.tensor->shape;
  if (is_flat) {
    const std::optional<std::vector<std::int64_t>> shape = stated_shape(model, name);
    if (!shape || out.shape.size() != 1 || checked_count(*shape) != out.shape[0])
      refuse_file(out, "the tensor of shape ", shape_text(out.shape), " is a flattened parameter, but param_shapes ",
                  "in the files *_model_states.pt ", shape ? cat("states ", shape_text(*shape)) : "does not state it",
                  "; copy all files of the checkpoint");
    out.shape = *shape;
  }
  if (out.shape.empty() || out.shape.size() > 2)
    refuse_file(out, "the tensor of shape ", shape_text(out.shape), " is neither a vector nor a matrix");
  if (out.axis && *out.axis >= std::ssize(out.shape)) refuse_file(out, "cat_dim is not an axis of the tensor");
  return out;
}

/// Returns the number of tensor parallel ranks whose shards were joined.
std::int64_t ranks_in(const DeepSpeedModel& model, const std::string& name, const MergedTensor& merged) {
  if (const std::optional<std::vector<std::int64_t>> shard = stated_shape(model, name)) {
    const std::int64_t axis = *merged.axis;
    if (shard->size() != merged.shape.size() || (*shard)[axis] == 0 || merged.shape[axis] % (*shard)[axis] != 0)
      refuse_file(merged, "the tensor's shape ", shape_text(merged.shape), " does not consist of shards of shape ",
                  shape_text(*shard), ", which param_shapes states");
    return merged.shape[axis] / (*shard)[axis];
  }
  if (model.ranks > 1)
    refuse_file(merged, "param_shapes in the files mp_rank_*_model_states.pt does not state '", printable_text(name),
                "'; copy all files of the checkpoint");
  return 1;
}

/// Returns the shards of a parameter. Where nothing depends on them, each is the whole tensor, and the split is none.
ShardedParameter shards_of(const MergedTensor& merged, const std::string& name, MegatronSplit split, int ranks) {
  const TorchTensor& tensor = *merged.tensor;
  const auto segment = [&](std::int64_t begin, std::int64_t count) {
    return flat_segment(*merged.file, tensor, begin, count);
  };
  ShardedParameter out{.split = split, .name = name, .shards = {}};
  if (merged.axis != 0 || merged.is_vocabulary) {
    out.split = MegatronSplit::none;
    out.shards.assign(ranks, {merged.shape, tensor.dtype, {segment(0, tensor.count())}});
    return out;
  }
  const std::int64_t parts = merged.has_halves ? 2 : 1, rows = merged.shape[0] / parts / ranks;
  if (rows * parts * ranks != merged.shape[0])
    refuse_file(merged, "the ", merged.shape[0], " rows are not those of ", ranks, " tensor parallel ranks",
                merged.has_halves ? " and two halves" : "");
  const std::int64_t width = rows == 0 ? 0 : tensor.count() / merged.shape[0];
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    StoredShard shard{merged.shape, tensor.dtype, {}};
    shard.shape[0] = rows * parts;
    for (std::int64_t part = 0; part < parts; ++part)
      shard.segments.push_back(segment((part * ranks + rank) * rows * width, rows * width));
    out.shards.push_back(std::move(shard));
  }
  return out;
}

}  // namespace

void read_universal_weights(DeepSpeedModel& model, const DeepSpeedFiles& files) {
  std::vector<std::string> names;
  for (const auto& [name, folder] : files.universal) names.push_back(name);
  number_blocks(model, names, files.universal.begin()->second);
  std::map<std::string, MergedTensor> tensors;
  std::optional<std::int64_t> ranks;
  for (const auto& [name, folder] : files.universal) {
    const MergedTensor& merged = tensors.emplace(name, open_merged(model, folder, name, "fp32")).first->second;
    model.has_stripped_vocabulary = model.has_stripped_vocabulary || merged.is_vocabulary;
    if (!merged.axis || merged.is_vocabulary) continue;
    const std::int64_t joined = ranks_in(model, name, merged);
    if (ranks && joined != *ranks)
      refuse_file(merged, "the tensor has shards of ", joined, " tensor parallel ranks, but others have ", *ranks);
    ranks = joined;
  }
  if (ranks.value_or(1) > std::int64_t(model.ranks))
    fail_at(Exit::bad_data, files.universal.begin()->second, "the tensors have shards of ", *ranks,
            " tensor parallel ranks, but there are files of ", model.ranks, "; copy all files of the checkpoint");
  model.tensor_parallel = static_cast<int>(ranks.value_or(1));
  for (const auto& [name, merged] : tensors) {
    const DeepSpeedName parsed = *parse_deepspeed_name(name);
    model.is_neox = model.is_neox || parsed.is_neox;
    const std::string canonical = *model.canonical_name(name);
    if (!model.parameters.emplace(canonical, shards_of(merged, name, parsed.split, model.tensor_parallel)).second)
      refuse_file(merged, "the parameter is stored twice, as '", printable_text(name), "' and '",
                  printable_text(model.parameters.at(canonical).name), "'");
  }
}

ShardedParameters read_universal_state(DeepSpeedModel& model, const DeepSpeedFiles& files, const char* state) {
  ShardedParameters out;
  for (const auto& [canonical, weights] : model.parameters) {
    const MergedTensor merged = open_merged(model, files.universal.at(weights.name), weights.name, state);
    const MegatronSplit split = parse_deepspeed_name(weights.name)->split;
    ShardedParameter parameter = shards_of(merged, weights.name, split, model.tensor_parallel);
    if (parameter.split != weights.split || parameter.shards.front().shape != weights.shards.front().shape ||
        parameter.shards.front().segments.size() != weights.shards.front().segments.size())
      refuse_file(merged, "the tensor's shape ", shape_text(merged.shape),
                  " or its shards differ from those in fp32.pt");
    out.emplace(canonical, std::move(parameter));
  }
  return out;
}

}  // namespace mtl
