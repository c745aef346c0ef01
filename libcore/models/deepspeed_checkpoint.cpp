#include "models/deepspeed_checkpoint.h"

#include <algorithm>
#include <deque>
#include <set>

#include "base/files.h"
#include "base/printable.h"
#include "models/canonical.h"
#include "models/deepspeed_model.h"
#include "models/deepspeed_optimizer.h"
#include "models/mapped_reader.h"
#include "models/megatron_config.h"
#include "models/neox_config.h"

namespace mtl {

namespace {

std::vector<std::byte> elements_of(const FlatShard& shard) {
  std::vector<std::byte> out;
  for (const FlatSegment& segment : shard.segments) {
    const std::span<const std::byte> data = segment.data.first(segment.count * bits_of(shard.dtype) / 8);
    out.insert(out.end(), data.begin(), data.end());
  }
  return out;
}

std::int64_t count_of_shard(const FlatShard& shard) { return whole_slice(shard.shape).count(); }

bool is_equal(const FlatShard& a, const FlatShard& b) {
  return a.shape == b.shape && a.dtype == b.dtype && elements_of(a) == elements_of(b);
}

/// True if the main weights round to the weights, which DeepSpeed stores in one segment.
bool rounds_to_weights(const FlatShard& main, const FlatShard& weights) {
  constexpr std::int64_t kBlock = 1 << 16;
  const std::span<const std::byte> stored = weights.segments.front().data;
  const std::int64_t wide_bytes = bits_of(main.dtype) / 8, bytes = bits_of(weights.dtype) / 8;
  std::int64_t at = 0;  // in `weights`
  for (const FlatSegment& segment : main.segments) {
    for (std::int64_t begin = 0; begin < segment.count; begin += kBlock) {
      const std::int64_t count = std::min(kBlock, segment.count - begin);
      if (!rounds_to(main.dtype, segment.data.subspan(begin * wide_bytes, count * wide_bytes), weights.dtype,
                     stored.subspan((at + begin) * bytes, count * bytes)))
        return false;
    }
    at += segment.count;
  }
  return true;
}

const std::string& path_of(const FlatShard& shard) { return shard.segments.front().file->path(); }

class DeepSpeedReader : public MappedReader {
 public:
  DeepSpeedReader(const std::string& checkpoint, const ModelSupplement& given, Console& console) : path_(checkpoint) {
    const DeepSpeedFiles files = list_deepspeed_files(checkpoint);
    model_ = read_deepspeed_model(files);
    folder = checkpoint;
    DeepSpeedTraining training = read_deepspeed_training(model_, files);
    if (training.optimizer && files.shards.empty()) drop_other_order(training);
    state = std::move(training.state);
    optimizer_problem = std::move(training.problem);
    std::vector<std::string> notes;
    try {
      set_config(files, given, notes);
    } catch (const Error& error) {
      if (error.code() != Exit::bad_data) throw;
      fail_at(Exit::bad_data, checkpoint, error.what());
    }
    if (training.optimizer) main_ = std::move(training.optimizer->main);
    add_kind("param.", main_.empty() ? model_.parameters : main_, notes);
    if (training.optimizer) {
      add_kind("exp_avg.", training.optimizer->exp_avg, notes);
      add_kind("exp_avg_sq.", training.optimizer->exp_avg_sq, notes);
    }
    for (const std::string& note : notes) console.warn(cat(checkpoint, ": ", note));
    check_known();
    check_complete();
  }

  void verify() const override {
    for (const auto& file : model_.files) file->verify();
    for (const auto& [name, parameter] : model_.parameters) check_main(name);
    for (int rank = 0; model_.tied_copy && rank < std::ssize(model_.tied_copy->shards); ++rank) {
      const FlatShard& copy = model_.tied_copy->shards[rank];
      if (!is_equal(copy, model_.parameters.at(kTokenEmbedding).shards[rank]))
        fail_at(Exit::bad_data, path_of(copy), "tensor '", printable_text(model_.tied_copy->name),
                "' differs from the token embedding, to which the output layer is tied; copy the checkpoint again");
    }
    const auto positions = model_.parameters.find(kPositionEmbedding);
    for (int rank = 1; positions != model_.parameters.end() && rank < model_.tensor_parallel; ++rank) {
      if (!is_equal(positions->second.shards[0], positions->second.shards[rank]))
        fail_at(Exit::bad_data, path_of(positions->second.shards[rank]),
                "the position embedding differs from its "
                "copy on tensor parallel rank 0");
    }
  }

  /// Also compares the main weights in the optimizer's files with the parameter's weights.
  void verify_slice(std::size_t index, const Slice& slice) const override {
    MappedReader::verify_slice(index, slice);
    constexpr std::string_view kKind = "param.";
    const std::string& name = tensors[index].name;
    if (!starts_with(name, kKind)) return;
    const std::string canonical = name.substr(kKind.size());
    check_main(canonical);
    if (const std::size_t up = canonical.find(".mlp.up."); up != std::string::npos)
      check_main(cat(canonical.substr(0, up), ".mlp.gate.", canonical.substr(up + 8)));
  }

  std::string identity() const override {
    std::string lines;
    for (const auto& file : model_.files) {
      Hasher hasher;
      hash_sample(hasher, file->bytes(), 64);
      lines += cat(lines.empty() ? "" : "\n", fs::path(file->path()).filename().string(), ": ", file->bytes().size(),
                   " bytes, ", hash_text(hasher.digest()));
    }
    return lines;
  }

 private:
  /// Without ZeRO, nothing states the order of an optimizer's parameters, but fp32 weights in another order do not
  /// round to the weights. Then keeps the weights alone.
  void drop_other_order(DeepSpeedTraining& training) const {
    for (const auto& [name, main] : training.optimizer->main) {
      const ShardedParameter& weights = model_.parameters.at(name);
      for (std::size_t rank = 0; rank < main.shards.size(); ++rank) {
        if (rounds_to_weights(main.shards[rank], weights.shards[rank])) continue;
        training.problem =
            cat(path_of(main.shards[rank]), ": the optimizer's fp32 weights do not round to the weights of '",
                printable_text(weights.name), "', so its parameters have another order, which the file does not state");
        training.optimizer.reset();
        return;
      }
    }
  }

  const ShardedParameter* find(const std::string& name) const {
    const auto found = model_.parameters.find(name);
    return found == model_.parameters.end() ? nullptr : &found->second;
  }

  /// Returns a parameter's size along an axis, summed over all ranks, or 0 if the parameter or axis does not exist.
  std::int64_t extent(const std::string& name, std::size_t axis) const {
    const ShardedParameter* parameter = find(name);
    if (parameter == nullptr || parameter->shards.front().shape.size() <= axis) return 0;
    const std::int64_t size = parameter->shards.front().shape[axis];
    const bool is_cut = parameter->split == (axis == 0 ? MegatronSplit::rows : MegatronSplit::columns);
    return is_cut ? size * model_.tensor_parallel : size;
  }

  NeoxShapes shapes() const {
    return {.common = {.layers = model_.layers,
                       .vocabulary_rows = extent(kTokenEmbedding, 0),
                       .hidden = extent(kTokenEmbedding, 1),
                       .up_rows = extent("layers.0.mlp.up.weight", 0),
                       .query_norm = extent("layers.0.attention.q_norm.weight", 0),
                       .positions = extent(kPositionEmbedding, 0),
                       .has_stripped_vocabulary = model_.has_stripped_vocabulary,
                       .has_norm_bias = find("layers.0.norm1.bias") != nullptr,
                       .has_head = find(kOutputLayer) != nullptr,
                       .bias = {.qkv = find("layers.0.attention.qkv.bias") != nullptr,
                                .out = find("layers.0.attention.out.bias") != nullptr,
                                .mlp = find("layers.0.mlp.up.bias") != nullptr}},
            .qkv_rows = extent("layers.0.attention.qkv.weight", 0),
            .down_columns = extent("layers.0.mlp.down.weight", 1),
            .has_gate_matrix = find("layers.0.mlp.gate.weight") != nullptr};
  }

  void set_config(const DeepSpeedFiles& files, const ModelSupplement& given, std::vector<std::string>& notes) {
    const std::optional<PickleValue> args = model_.find("args");
    has_padded_vocabulary = !given.vocab_size && !model_.has_stripped_vocabulary;
    if (model_.is_neox || !files.configs.empty()) {
      const NeoxSettings settings = read_neox_settings(files.configs, args);
      config = neox_config(settings, shapes(), given, notes);
      dropout = neox_dropout(settings);
      has_up_first_ = config.gated_mlp;
      has_heads_apart_ = config.num_query_groups != config.num_heads;
      return;
    }
    constexpr double kVersion = 3;  // of the order of queries, keys and values: GROUP, (queries, key, value)
    const auto namespace_args = args && args->is(PickleKind::object) ? args : std::nullopt;
    config = megatron_config(namespace_args, kVersion, shapes().common, given, notes);
    if (megatron_vocabulary(namespace_args, shapes().common.vocabulary_rows)) has_padded_vocabulary = false;
    dropout = megatron_dropout(namespace_args);
    has_up_first_ = config.gated_mlp && namespace_args && namespace_args->find("glu_activation").has_value();
    // Microsoft's releases with this argument (676a482c, December 2024) read a rank's rows so. They cannot train
    // grouped queries, whose order is still the one that their converters from and to transformers use.
    const bool is_recent = namespace_args && namespace_args->find("ds_sequence_parallel_fpdt").has_value();
    has_heads_apart_ = is_recent && config.num_query_groups == config.num_heads;
  }

  /// Adds a tensor of this kind for each of the model's parameters.
  void add_kind(const std::string& tensor_kind, const ShardedParameters& parameters, std::vector<std::string>& notes) {
    const std::vector<CanonicalTensor> canonicals = canonical_tensors(config);
    std::int64_t averaged = 0;
    for (const CanonicalTensor& canonical : canonicals) {
      const auto found = parameters.find(canonical.name);
      if (found == parameters.end()) fail_at(Exit::bad_data, path_, "tensor '", canonical.name, "' is missing");
      Places places;
      const StoredDType dtype = found->second.shards.front().dtype;
      if (const std::optional<FlatShard> merged = merge_copies(tensor_kind, canonical, found->second, averaged)) {
        add_shard(places, canonical, found->second, *merged, 0);
      } else {
        const int ranks = found->second.split == MegatronSplit::none ? 1 : model_.tensor_parallel;
        for (int rank = 0; rank < ranks; ++rank)
          add_shard(places, canonical, found->second, found->second.shards[rank], rank);
      }
      const std::size_t up = canonical.name.find(".mlp.up.");
      if (up != std::string::npos && config.gated_mlp) {
        const auto gate =
            parameters.find(cat(canonical.name.substr(0, up), ".mlp.gate.", canonical.name.substr(up + 8)));
        for (int rank = 0; gate != parameters.end() && rank < model_.tensor_parallel; ++rank)
          add_shard(places, canonical, gate->second, gate->second.shards[rank], rank);
      }
      add_tensor({tensor_kind + canonical.name, dtype, canonical.shape}, std::move(places));
    }
    if (averaged > 0)
      notes.push_back(cat(averaged,
                          " of the norms and biases differ between tensor parallel ranks; mtl uses their means, as the "
                          "converters of transformers and GPT-NeoX do"));
  }

  /// Merges the copies of a vector that all tensor parallel ranks hold, if their elements are not simply rank 0's.
  /// Returns their sum or mean, in fp32 rounded to their dtype.
  std::optional<FlatShard> merge_copies(const std::string& tensor_kind, const CanonicalTensor& canonical,
                                        const ShardedParameter& parameter, std::int64_t& averaged) {
    const FlatShard& first = parameter.shards.front();
    if (parameter.split != MegatronSplit::none || model_.tensor_parallel == 1 || first.shape.size() != 1 ||
        tensor_kind != "param.")
      return std::nullopt;
    const bool is_linear = ends_with(canonical.name, ".out.bias") || ends_with(canonical.name, ".down.bias");
    const bool is_sum = config.parallel_residual && is_linear;
    const bool is_same = std::ranges::all_of(parameter.shards, [&](const FlatShard& s) { return is_equal(s, first); });
    if (is_same && !is_sum) return std::nullopt;
    if (!is_sum) ++averaged;
    std::vector<float> sum(count_of_shard(first)), elements(sum.size());
    for (const FlatShard& shard : parameter.shards) {
      if (shard.dtype != first.dtype || shard.shape != first.shape) refuse(parameter, shard, "differs between ranks");
      to_float(shard.dtype, elements_of(shard), elements);
      std::ranges::transform(sum, elements, sum.begin(), std::plus());
    }
    if (!is_sum) std::ranges::transform(sum, sum.begin(), [&](float x) { return x / float(model_.tensor_parallel); });
    merged_.emplace_back(sum.size() * bits_of(first.dtype) / 8);
    convert_elements(StoredDType::f32, std::as_bytes(std::span(sum)), first.dtype, merged_.back());
    const FlatSegment& origin = first.segments.front();
    return FlatShard{first.shape, first.dtype, {{origin.file, origin.record, merged_.back(), std::ssize(sum)}}};
  }

  template <class... Parts>
  [[noreturn]] void refuse(const ShardedParameter& parameter, const FlatShard& shard, const Parts&... parts) const {
    fail_at(Exit::bad_data, path_of(shard), "tensor '", printable_text(parameter.name), "' ", parts...);
  }

  /// Adds the pieces of a rank's shard.
  void add_shard(Places& places, const CanonicalTensor& canonical, const ShardedParameter& parameter,
                 const FlatShard& shard, int rank) {
    if (shard.dtype != parameter.shards.front().dtype)
      refuse(parameter, shard, "is stored as ", name_of(shard.dtype), ", but by rank 0 as ",
             name_of(parameter.shards.front().dtype));
    const std::vector<Slice> boxes = boxes_of(canonical, parameter, shard, rank);
    const std::int64_t element = bits_of(shard.dtype) / 8;
    std::int64_t box_begin = 0;  // in the flattened shard
    for (const Slice& box : boxes) {
      std::int64_t segment_begin = 0;
      for (const FlatSegment& segment : shard.segments) {
        const std::int64_t first = std::max(box_begin, segment_begin);
        const std::int64_t last = std::min(box_begin + box.count(), segment_begin + segment.count);
        std::int64_t at = first - segment_begin;
        for (const Slice& part :
             first < last ? split_range(box, first - box_begin, last - box_begin) : std::vector<Slice>()) {
          TensorPiece piece = dense_piece(0, part);
          places.add(std::move(piece), segment.data.subspan(at * element), segment.file, segment.record,
                     parameter.name);
          at += part.count();
        }
        segment_begin += segment.count;
      }
      box_begin += box.count();
    }
  }

  /// Returns the boxes in the canonical tensor of which a rank's shard consists, in the order of its elements.
  std::vector<Slice> boxes_of(const CanonicalTensor& canonical, const ShardedParameter& parameter,
                              const FlatShard& shard, int rank) const {
    const std::int64_t parts = parameter.split == MegatronSplit::none ? 1 : model_.tensor_parallel;
    const bool is_gated = config.gated_mlp && canonical.name.find(".mlp.up.") != std::string::npos;
    const bool is_qkv = canonical.name.find(".attention.qkv.") != std::string::npos;
    const std::size_t axis = parameter.split == MegatronSplit::columns || is_gated ? 1 : 0;
    Slice box = whole_slice(canonical.shape);
    if (canonical.name == kTokenEmbedding || canonical.name == kOutputLayer)
      box.size[0] = extent(canonical.name, 0);  // with padding
    if (box.size.at(axis) % parts != 0)
      refuse(parameter, shard, "has ", parts, " shards along an axis of ", box.size[axis]);
    box.size[axis] /= parts;
    box.offset[axis] = parts > 1 ? rank * box.size[axis] : 0;
    std::vector<Slice> boxes;
    const auto add = [&](std::size_t at, std::int64_t begin, std::int64_t count) {
      Slice part = box;
      part.offset[at] += begin;
      part.size[at] = count;
      part.end = whole_slice(part.size).count();
      boxes.push_back(std::move(part));
    };
    const bool has_own_gate = is_gated && find("layers.0.mlp.gate.weight") != nullptr;
    const std::int64_t queries = canonical.shape.size() > 1 ? canonical.shape[1] - 2 : 0;
    if (has_own_gate) {
      add(0, parameter.name.find("w1") != std::string::npos ? 0 : 1, 1);
    } else if (is_gated && has_up_first_) {
      add(0, 1, 1), add(0, 0, 1);
    } else if (is_qkv && has_heads_apart_) {
      add(1, 0, queries), add(1, queries, 1), add(1, queries + 1, 1);
    } else {
      add(axis, 0, box.size[axis]);
    }
    std::int64_t expected = 0;
    for (const Slice& part : boxes) expected += part.count();
    const std::int64_t width =
        shard.shape.size() > 1 ? canonical.shape.back() / (axis == 1 && !is_gated ? parts : 1) : 1;
    std::vector<std::int64_t> shape = {expected / width};
    if (shard.shape.size() > 1) shape.push_back(width);
    const bool is_matrix = canonical.shape.size() > 1 && ends_with(canonical.name, ".weight");
    if (shard.shape != shape || is_matrix != (shard.shape.size() > 1))
      refuse(parameter, shard, "has shape ", shape_text(shard.shape), ", but the model needs ", shape_text(shape));
    return boxes;
  }

  /// Throws Error(bad_data) if a parameter's main weights do not round to the weights of the same rank: then a file of
  /// the optimizer is of another rank or checkpoint, and so are its moments. Does nothing for a name without main
  /// weights, and for one that an earlier call has checked.
  void check_main(const std::string& name) const {
    const auto main = main_.find(name);
    if (main == main_.end() || !checked_main_.insert(name).second) return;
    const ShardedParameter& weights = model_.parameters.at(name);
    for (int rank = 0; rank < model_.tensor_parallel; ++rank) {
      if (!rounds_to_weights(main->second.shards[rank], weights.shards[rank]))
        refuse(main->second, main->second.shards[rank], "does not round to the weights in ",
               fs::path(path_of(weights.shards[rank])).filename().string(),
               ", so that a file *_optim_states.pt is not of this rank and checkpoint; copy the checkpoint again, or "
               "move the files *_optim_states.pt away to use the weights alone");
    }
  }

  /// Throws if a parameter in the files is not part of the model that the configuration describes.
  void check_known() const {
    for (const auto& [name, parameter] : model_.parameters) {
      const std::size_t gate = name.find(".mlp.gate.");
      const std::string expected =
          "param." + (gate == std::string::npos ? name : cat(name.substr(0, gate), ".mlp.up.", name.substr(gate + 10)));
      const bool is_known =
          std::ranges::any_of(tensors, [&](const SavedTensor& tensor) { return tensor.name == expected; });
      if (!is_known)
        refuse(parameter, parameter.shards.front(),
               "does not fit the model that the checkpoint's configuration and "
               "other tensors describe; copy the checkpoint again, or use another one");
    }
  }

  DeepSpeedModel model_;
  ShardedParameters main_;  // fp32 weights in the optimizer's files; empty: none
  mutable std::set<std::string> checked_main_;
  std::string path_;
  bool has_up_first_ = false;                  // a rank's rows of a gated MLP are [up | gate]
  bool has_heads_apart_ = false;               // a rank's rows of the attention are [queries | keys | values]
  std::deque<std::vector<std::byte>> merged_;  // vectors that differ between ranks
};

}  // namespace

std::unique_ptr<TensorReader> open_deepspeed(const std::string& checkpoint, const ModelSupplement& given,
                                             Console& console) {
  return std::make_unique<DeepSpeedReader>(checkpoint, given, console);
}

}  // namespace mtl
