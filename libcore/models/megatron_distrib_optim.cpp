#include "models/megatron_distrib_optim.h"

#include "base/count_of.h"
#include "base/files.h"
#include "formats/torch_globals.h"
#include "models/canonical.h"
#include "models/megatron_buffers.h"

namespace mtl {

namespace {

constexpr const char* kRemedy =
    "; copy the checkpoint again, or move the distrib_optim.pt files away to use the weights alone";
constexpr const char* kOlderForm =
    "the file has a tensor for each bucket, as before megatron-core 0.7, which mtl does not read; load the checkpoint "
    "with that Megatron-LM and save it without --use-distributed-optimizer, or move the distrib_optim.pt files away to "
    "use the weights alone";

/// Adds the states in one rank's file to the model's optimizer state.
struct DistributedFile : RankStates<MegatronModel> {
  const MegatronRank& rank;
  int stage;

  void read() {
    check_form();
    for (std::size_t chunk = 0; chunk < rank.chunks.size(); ++chunk) read_chunk(chunk);
  }

  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    fail_at(Exit::bad_data, file.path(), parts..., kRemedy);
  }

  /// Checks that the file has one buffer for each chunk, in the form that this class reads.
  void check_form() const {
    const PickleValue root = file.root();
    const std::optional<PickleValue> form = root.find("buckets_coalesced");
    if (!form || !form->is(PickleKind::boolean) || !form->as_bool()) fail_at(Exit::bad_data, file.path(), kOlderForm);
    for (std::size_t i = 0; i < root.size(); ++i) {
      if (!root.key(i).is(PickleKind::integer)) continue;
      const std::int64_t number = root.key(i).as_int();
      if (number < 0 || number >= std::ssize(rank.chunks))
        refuse("the file has a gradient buffer ", number, ", but the model has only ",
               count_of(rank.chunks.size(), "chunk"), " on this rank, and mtl reads one buffer for each");
    }
  }

  /// Returns a chunk's tensors and their number of elements.
  PickleValue buffer_of(std::size_t chunk) const {
    const std::optional<PickleValue> buffer = file.root().find(static_cast<std::int64_t>(chunk));
    if (!buffer || !buffer->is(PickleKind::dict) || buffer->size() != 1)
      refuse("gradient buffer ", chunk, " is ", buffer ? buffer->describe() : "missing",
             "; expected a dict with one pair of dtypes");
    const PickleValue key = buffer->key(0);
    const bool is_pair = key.is(PickleKind::tuple) && key.size() == 2 && dtype_of_torch_global(key.at(0).global()) &&
                         dtype_of_torch_global(key.at(1).global());
    if (!is_pair) refuse("gradient buffer ", chunk, " is for ", key.describe(), " instead of a pair of dtypes");
    const StoredDType dtype = *dtype_of_torch_global(key.at(0).global());
    for (const std::string& name : rank.chunks[chunk]) {
      if (weight(name).dtype != dtype)
        refuse("gradient buffer ", chunk, " is for ", torch_name_of(dtype), ", but '", name, "' is stored as ",
               torch_name_of(weight(name).dtype));
    }
    return buffer->value(0);
  }

  void read_chunk(std::size_t chunk) {
    const PickleValue tensors = buffer_of(chunk);
    const std::optional<PickleValue> stated = tensors.find("numel_unpadded");
    if (!stated || !stated->is(PickleKind::integer))
      refuse("numel_unpadded of gradient buffer ", chunk, " is ", stated ? stated->describe() : "missing");
    const MegatronBuffer buffer = buffer_with(stated->as_int(), chunk);
    add_states("param", tensors, chunk, buffer, out.main);
    add_states("exp_avg", tensors, chunk, buffer, out.exp_avg);
    add_states("exp_avg_sq", tensors, chunk, buffer, out.exp_avg_sq);
  }

  /// Returns the chunk's buffer, with or without alignment. If both have `elements` elements, they are equal.
  MegatronBuffer buffer_with(std::int64_t elements, std::size_t chunk) const {
    std::vector<MegatronBufferParam> params;
    for (const std::string& name : rank.chunks[chunk])
      params.push_back({.elements = weight(name).count(), .has_own_bucket = is_shared(name)});
    std::optional<std::int64_t> bucket_size;
    if (const std::optional<PickleValue> args = model.args()) {
      std::int64_t rank_elements = 0;
      for (const std::string& name : rank.names()) rank_elements += weight(name).count();
      bucket_size = megatron_bucket_size(*args, stage, chunk, rank_elements);
    }
    MegatronBuffer aligned = megatron_buffer(params, bucket_size, kMegatronAlignment);
    if (aligned.elements() == elements) return aligned;
    std::int64_t fewest = 0;
    for (const MegatronBufferParam& param : params) fewest += param.elements;
    if (fewest == elements) return megatron_buffer(params, bucket_size, kMegatronNoAlignment);
    refuse("numel_unpadded of gradient buffer ", chunk, " is ", elements, ", but the model's parameters need ",
           aligned.elements(), ", or ", fewest, " with megatron-core 0.7");
  }

  /// True for the token embedding and its copy, if they are on different stages.
  bool is_shared(const std::string& name) const {
    return is_vocabulary(name) && model.pipeline_parallel > 1 && !model.has_untied_output();
  }

  void add_states(const char* key, PickleValue tensors, std::size_t chunk, const MegatronBuffer& buffer,
                  ShardedParameters& to) {
    const std::optional<PickleValue> value = tensors.find(key);
    const TorchTensor* flat = value ? file.tensor(*value) : nullptr;
    if (flat == nullptr || flat->dtype != StoredDType::f32 || flat->shape != std::vector{buffer.elements()} ||
        !flat->is_contiguous())
      refuse("'", key, "' of gradient buffer ", chunk, " is ",
             flat != nullptr ? cat("a tensor of ", name_of(flat->dtype), " with shape ", shape_text(flat->shape))
                             : (value ? value->describe() : "missing"),
             "; expected a tensor of F32 with ", count_of(buffer.elements(), "element"));
    const std::vector<std::string>& names = rank.chunks[chunk];
    for (std::size_t i = 0; i < names.size(); ++i)
      add(to, names[i], {flat_segment(file, *flat, buffer.ranges[i].begin, weight(names[i]).count())});
  }
};

}  // namespace

bool has_distributed_state(const TorchFile& file) {
  const std::optional<PickleValue> inner = find_in(file.root().find("optimizer"), "optimizer");
  return inner && inner->find("param_groups") && !inner->find("state");
}

std::string distributed_file_of(const TorchFile& file) {
  return cat(parent_folder(file.path()), "/", kDistributedFile);
}

ShardedStates read_distributed_optimizer(const MegatronModel& model) {
  ShardedStates out;
  std::int64_t steps = 0;  // the files do not state it
  for (std::size_t rank = 0; rank < model.ranks.size(); ++rank) {
    const TorchFile& weights = *model.ranks[rank].file;
    const std::string path = distributed_file_of(weights);
    if (!has_distributed_state(weights) || !file_exists(path))
      fail_at(Exit::bad_data, path, "the file is missing, but other ranks have theirs", kRemedy);
    out.files.push_back(std::make_unique<TorchFile>(path));
    DistributedFile{{model, *out.files.back(), rank % model.tensor_parallel, out, steps},
                    model.ranks[rank],
                    static_cast<int>(rank / model.tensor_parallel)}
        .read();
  }
  return out;
}

}  // namespace mtl
