#include "models/megatron_checkpoint.h"

#include <algorithm>
#include <iterator>

#include "base/count_of.h"
#include "base/files.h"
#include "models/megatron_model.h"
#include "models/megatron_optimizer.h"
#include "models/sharded_reader.h"

namespace mtl {

namespace {

bool same_shards(const ShardedParameter& a, const ShardedParameter& b) {
  return std::ranges::equal(a.shards, b.shards, same_shard);
}

class MegatronReader : public ShardedReader {
 public:
  MegatronReader(const std::string& checkpoint, const ModelSupplement& given, Console& console)
      : ShardedReader({.described_by = "args",
                       .mismatch = ", so that the two files are not of the same rank and checkpoint; copy the "
                                   "checkpoint again, or move the distrib_optim.pt files away to use the weights alone",
                       .states_divisor = true,
                       .has_rank_folders = true},
                      checkpoint),
        model_(read_megatron_model(list_megatron_files(checkpoint))) {
    folder = is_directory(checkpoint) ? checkpoint : parent_folder(checkpoint);
    ShardedTraining training = read_megatron_training(model_);
    state = std::move(training.state);
    optimizer_problem = std::move(training.problem);
    drop_head_copy();
    // Every layer has multiple parameters. Reject an absurd number of layers before canonical_tensors() lists them all.
    if (model_.layers > std::ssize(model_.parameters))
      fail(Exit::bad_data, checkpoint, " has ", count_of(model_.parameters.size(), "tensor"),
           ", too few for a model with ", count_of(model_.layers, "layer"), "; copy all files of the checkpoint");
    read_megatron_args(*this, checkpoint, model_.args(), model_.version, shapes(), given, console);
    // Since version 2, files store queries, keys and values in the canonical order (G, R + 2, D). Version 1 uses
    // (G, D, R + 2), and version 0 uses (R + 2, G, D).
    if (model_.version < 2) rows_.qkv_axes = {0, 2, 1};
    if (model_.version < 1) rows_.qkv_axes = {1, 0, 2};
    training.optimizer ? add_training(std::move(*training.optimizer)) : add_parameters(model_.parameters);
    check_complete();
  }

  void verify() const override {
    for (const auto& file : model_.files) file->verify();
    if (head_copy_ && !same_shards(*head_copy_, model_.parameters.at(kTokenEmbedding)))
      refuse_tensor(
          head_copy_->shards.front().path(), head_copy_->name,
          "differs from the token embedding, but must equal it, because args.untie_embeddings_and_output_weights is "
          "off; copy the checkpoint again");
    for (const auto& [name, parameter] : model_.parameters) {
      check_copies(parameter);
      check_main(name, parameter);
    }
    if (head_copy_) check_main(kOutputLayer, *head_copy_);
  }

 private:
  const ShardedModel& model() const override { return model_; }

  /// If the output layer is tied, moves the last stage's copy of the token embedding to head_copy_. Keeps an untied
  /// output layer's weight.
  void drop_head_copy() {
    const ShardedParameter *head = model_.parameter(kOutputLayer), *tokens = model_.parameter(kTokenEmbedding);
    if (head == nullptr) return;
    const bool is_copy = model_.args()
                             ? !model_.has_untied_output()
                             : model_.pipeline_parallel > 1 && tokens != nullptr && same_shards(*head, *tokens);
    if (!is_copy) return;
    head_copy_ = *head;
    model_.parameters.erase(kOutputLayer);
  }

  /// Adds all parameters, with the elements in `stored`: the weights, or the optimizer's main weights.
  void add_parameters(const ShardedParameters& stored) {
    for (const CanonicalTensor& canonical : canonical_tensors(config)) {
      required(model_.parameters, canonical.name);
      add_parameter("param.", canonical, stored.at(canonical.name));
    }
    check_known();
  }

  /// Adds all parameters, and Adam's moments for each.
  void add_training(ShardedStates optimizer) {
    add_parameters(optimizer.main.empty() ? model_.parameters : optimizer.main);
    for (const CanonicalTensor& canonical : canonical_tensors(config)) {
      add_parameter("exp_avg.", canonical, optimizer.exp_avg.at(canonical.name));
      add_parameter("exp_avg_sq.", canonical, optimizer.exp_avg_sq.at(canonical.name));
    }
    if (!optimizer.files.empty()) main_ = std::move(optimizer.main);
    std::ranges::move(optimizer.files, std::back_inserter(model_.files));
  }

  void add_parameter(const char* tensor_kind, const CanonicalTensor& canonical, const ShardedParameter& parameter) {
    TensorMap map;
    add_pieces(map, canonical, parameter, rows_);
    for (const StoredShard& copy : parameter.shards) check_dtype(parameter, copy);
    add_tensor({tensor_kind + canonical.name, parameter.shards.front().dtype, canonical.shape}, std::move(map));
  }

  static void check_copies(const ShardedParameter& parameter) {
    if (parameter.split != MegatronSplit::none) return;
    for (std::size_t rank = 1; rank < parameter.shards.size(); ++rank) {
      if (!same_shard(parameter.shards[0], parameter.shards[rank]))
        refuse(parameter, parameter.shards[rank],
               "differs from its copy on tensor parallel rank 0; use files of the same checkpoint");
    }
  }

  MegatronModel model_;
  MegatronRows rows_;
  std::optional<ShardedParameter> head_copy_;
};

}  // namespace

std::unique_ptr<TensorReader> open_megatron(const std::string& checkpoint, const ModelSupplement& given,
                                            Console& console) {
  return std::make_unique<MegatronReader>(checkpoint, given, console);
}

}  // namespace mtl
