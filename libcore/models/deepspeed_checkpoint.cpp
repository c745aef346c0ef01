#include "models/deepspeed_checkpoint.h"

#include <algorithm>
#include <deque>

#include "base/files.h"
#include "models/deepspeed_model.h"
#include "models/deepspeed_optimizer.h"
#include "models/neox_config.h"
#include "models/sharded_reader.h"

namespace mtl {

namespace {

class DeepSpeedReader : public ShardedReader {
 public:
  DeepSpeedReader(const std::string& checkpoint, const ModelSupplement& given, Console& console)
      : ShardedReader({.described_by = "configuration",
                       .mismatch = ", so that a file *_optim_states.pt is not of this rank and checkpoint; copy the "
                                   "checkpoint again, or move the files *_optim_states.pt away to use the weights "
                                   "alone",
                       .states_divisor = false,
                       .has_rank_folders = false},
                      checkpoint) {
    const DeepSpeedFiles files = list_deepspeed_files(checkpoint);
    model_ = read_deepspeed_model(files);
    folder = checkpoint;
    ShardedTraining training = read_deepspeed_training(model_, files);
    if (training.optimizer && files.shards.empty()) drop_other_order(training);
    state = std::move(training.state);
    optimizer_problem = std::move(training.problem);
    std::vector<std::string> notes;
    with_where(checkpoint, [&] { set_config(files, given, notes); });
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
    for (const auto& [name, parameter] : model_.parameters) check_main(name, parameter);
    for (int rank = 0; model_.tied_copy && rank < std::ssize(model_.tied_copy->shards); ++rank) {
      const StoredShard& copy = model_.tied_copy->shards[rank];
      if (!same_shard(copy, model_.parameters.at(kTokenEmbedding).shards[rank]))
        refuse(*model_.tied_copy, copy,
               "differs from the token embedding, to which the output layer is tied; copy the checkpoint again");
    }
    const ShardedParameter* positions = model_.parameter(kPositionEmbedding);
    for (int rank = 1; positions != nullptr && rank < model_.tensor_parallel; ++rank) {
      if (!same_shard(positions->shards[0], positions->shards[rank]))
        fail_at(Exit::bad_data, positions->shards[rank].path(),
                "the position embedding differs from its copy on tensor parallel rank 0");
    }
  }

 private:
  const ShardedModel& model() const override { return model_; }

  /// Without ZeRO, nothing states the order of an optimizer's parameters, but fp32 weights in another order do not
  /// round to the weights. Then keeps the weights alone.
  void drop_other_order(ShardedTraining& training) const {
    for (const auto& [name, main] : training.optimizer->main) {
      const ShardedParameter& weights = model_.parameters.at(name);
      for (std::size_t rank = 0; rank < main.shards.size(); ++rank) {
        if (rounds_to_weights(main.shards[rank], weights.shards[rank])) continue;
        training.problem =
            cat(main.shards[rank].path(), ": the optimizer's fp32 weights do not round to the weights of '",
                printable_text(weights.name), "', so its parameters have another order, which the file does not state");
        training.optimizer.reset();
        return;
      }
    }
  }

  NeoxShapes neox_shapes() const {
    NeoxShapes out{.common = shapes(),
                   .qkv_rows = extent("layers.0.attention.qkv.weight", 0),
                   .down_columns = extent("layers.0.mlp.down.weight", 1),
                   .has_gate_matrix = has_gate_matrix()};
    out.common.has_stripped_vocabulary = model_.has_stripped_vocabulary;
    out.common.has_norm_bias = model_.parameter("layers.0.norm1.bias") != nullptr;
    return out;
  }

  bool has_gate_matrix() const { return model_.parameter("layers.0.mlp.gate.weight") != nullptr; }

  void set_config(const DeepSpeedFiles& files, const ModelSupplement& given, std::vector<std::string>& notes) {
    const std::optional<PickleValue> args = model_.find("args");
    const NeoxShapes shapes = neox_shapes();
    has_padded_vocabulary = !given.vocab_size && !model_.has_stripped_vocabulary;
    if (model_.is_neox || !files.configs.empty()) {
      const NeoxSettings settings = read_neox_settings(files.configs, args);
      config = neox_config(settings, shapes, given, notes);
      dropout = neox_dropout(settings);
      rows_.has_up_first = config.gated_mlp;
      rows_.has_heads_apart = config.num_query_groups != config.num_heads;
      return;
    }
    constexpr double kVersion = 3;  // of the order of queries, keys and values: GROUP, (queries, key, value)
    const auto namespace_args = args && args->is(PickleKind::object) ? args : std::nullopt;
    config = megatron_config(namespace_args, kVersion, shapes.common, given, notes);
    if (megatron_vocabulary(namespace_args, shapes.common.vocabulary_rows)) has_padded_vocabulary = false;
    dropout = megatron_dropout(namespace_args);
    rows_.has_up_first = config.gated_mlp && namespace_args && namespace_args->find("glu_activation").has_value();
    // Microsoft's releases with this argument (676a482c, December 2024) read a rank's rows so. They cannot train
    // grouped queries, whose order is still the one that their converters from and to transformers use.
    const bool is_recent = namespace_args && namespace_args->find("ds_sequence_parallel_fpdt").has_value();
    rows_.has_heads_apart = is_recent && config.num_query_groups == config.num_heads;
  }

  /// Adds a tensor of this kind for each of the model's parameters.
  void add_kind(const std::string& tensor_kind, const ShardedParameters& parameters, std::vector<std::string>& notes) {
    std::int64_t averaged = 0;
    for (const CanonicalTensor& canonical : canonical_tensors(config)) {
      const ShardedParameter& parameter = required(parameters, canonical.name);
      TensorMap map;
      if (const std::optional<StoredShard> merged = merge_copies(tensor_kind, canonical, parameter, averaged))
        add_pieces(map, canonical, parameter, *merged, 0, rows_);
      else
        add_pieces(map, canonical, parameter, rows_of(parameter));
      const auto gate = parameters.find(gate_name(canonical.name));
      if (gate != parameters.end() && canonical.row_axes() == 2)
        add_pieces(map, canonical, gate->second, rows_of(gate->second));
      add_tensor({tensor_kind + canonical.name, parameter.shards.front().dtype, canonical.shape}, std::move(map));
    }
    if (averaged > 0)
      notes.push_back(cat(averaged,
                          " of the norms and biases differ between tensor parallel ranks; mtl uses their means, as the "
                          "converters of transformers and GPT-NeoX do"));
  }

  /// Merges the copies of a vector that all tensor parallel ranks hold, if their elements are not simply rank 0's.
  /// Returns their sum or mean, in fp32 rounded to their dtype.
  std::optional<StoredShard> merge_copies(const std::string& tensor_kind, const CanonicalTensor& canonical,
                                          const ShardedParameter& parameter, std::int64_t& averaged) {
    const StoredShard& first = parameter.shards.front();
    if (parameter.split != MegatronSplit::none || model_.tensor_parallel == 1 || first.shape.size() != 1 ||
        tensor_kind != "param.")
      return std::nullopt;
    const bool is_linear = ends_with(canonical.name, ".out.bias") || ends_with(canonical.name, ".down.bias");
    const bool is_sum = config.parallel_residual && is_linear;
    const bool is_same =
        std::ranges::all_of(parameter.shards, [&](const StoredShard& s) { return same_shard(s, first); });
    if (is_same && !is_sum) return std::nullopt;
    if (!is_sum) ++averaged;
    std::vector<float> sum(first.count()), elements(sum.size());
    for (const StoredShard& shard : parameter.shards) {
      if (shard.dtype != first.dtype || shard.shape != first.shape) refuse(parameter, shard, "differs between ranks");
      to_float(shard.dtype, elements_of(shard), elements);
      std::ranges::transform(sum, elements, sum.begin(), std::plus());
    }
    if (!is_sum) std::ranges::transform(sum, sum.begin(), [&](float x) { return x / float(model_.tensor_parallel); });
    merged_.emplace_back(sum.size() * bits_of(first.dtype) / 8);
    convert_elements(StoredDType::f32, std::as_bytes(std::span(sum)), first.dtype, merged_.back());
    StoredShard merged = first;
    merged.segments.resize(1);
    merged.segments[0].elements = {first.dtype, first.shape, {1}, merged_.back(), first.segments[0].elements.record};
    return merged;
  }

  /// Returns the order of the rows in a parameter's shards.
  MegatronRows rows_of(const ShardedParameter& parameter) const {
    MegatronRows rows = rows_;
    if (has_gate_matrix()) rows.half = parameter.name.find("w1") != std::string::npos ? 0 : 1;
    return rows;
  }

  DeepSpeedModel model_;
  MegatronRows rows_;
  std::deque<std::vector<std::byte>> merged_;  // vectors that differ between ranks
};

}  // namespace

std::unique_ptr<TensorReader> open_deepspeed(const std::string& checkpoint, const ModelSupplement& given,
                                             Console& console) {
  return std::make_unique<DeepSpeedReader>(checkpoint, given, console);
}

}  // namespace mtl
