#include "models/megatron_checkpoint.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/count_of.h"
#include "base/files.h"
#include "base/printable.h"
#include "models/canonical.h"
#include "models/mapped_reader.h"
#include "models/megatron_config.h"
#include "models/megatron_model.h"
#include "models/megatron_optimizer.h"

namespace mtl {

namespace {

constexpr const char* kTokens = "embedding.tokens.weight";
constexpr const char* kHead = "output.weight";

bool same_elements(const TorchTensor& a, const TorchTensor& b) {
  if (a.shape != b.shape || a.dtype != b.dtype) return false;
  std::vector<std::byte> left(a.count() * bits_of(a.dtype) / 8), right(left.size());
  read_elements(a, 0, left);
  read_elements(b, 0, right);
  return left == right;
}

bool same_shards(const MegatronParameter& a, const MegatronParameter& b) {
  return std::equal(a.shards.begin(), a.shards.end(), b.shards.begin(), b.shards.end(),
                    [](const MegatronShard& x, const MegatronShard& y) { return same_elements(*x.tensor, *y.tensor); });
}

/// Compares main weights with weights in blocks: rounds_to() of all elements.
bool rounds_to_weights(const TorchTensor& main, const TorchTensor& weights) {
  constexpr std::int64_t kBlock = 1 << 16;
  std::vector<std::byte> exact, stored;
  for (std::int64_t begin = 0; begin < main.count(); begin += kBlock) {
    const std::int64_t count = std::min(kBlock, main.count() - begin);
    exact.resize(count * bits_of(main.dtype) / 8);
    stored.resize(count * bits_of(weights.dtype) / 8);
    read_elements(main, begin, exact);
    read_elements(weights, begin, stored);
    if (!rounds_to(main.dtype, exact, weights.dtype, stored)) return false;
  }
  return true;
}

/// The canonical axes that a shard merges into its row axis. Strides are in rows.
struct RowAxes {
  std::vector<std::int64_t> size, stride;
};

/// Returns the canonical axes (G, R + 2, D) for queries, keys and values. Since version 2, files store rows in this
/// order. Version 1 uses (G, D, R + 2), and version 0 uses (R + 2, G, D).
RowAxes qkv_axes(const GptConfig& config, double version, std::int64_t groups) {
  const std::int64_t heads = config.num_heads / config.num_query_groups + 2, dim = config.head_dim;
  const std::vector<std::int64_t> size = {groups, heads, dim};
  if (version >= 2) return {size, {heads * dim, dim, 1}};
  if (version >= 1) return {size, {heads * dim, 1, heads}};
  return {size, {dim, groups * dim, 1}};
}

class MegatronReader : public MappedReader {
 public:
  MegatronReader(const std::string& checkpoint, const ModelSupplement& given, Console& console)
      : model_(read_megatron_model(list_megatron_files(checkpoint))) {
    path_ = checkpoint;
    folder = is_directory(checkpoint) ? checkpoint : parent_folder(checkpoint);
    MegatronTraining training = read_megatron_training(model_);
    optimizer_ = std::move(training.optimizer);
    state = std::move(training.state);
    optimizer_problem = std::move(training.problem);
    drop_head_copy();
    // Every layer has multiple parameters. Reject an absurd number of layers before canonical_tensors() lists them all.
    if (model_.layers > std::ssize(model_.parameters))
      fail(Exit::bad_data, checkpoint, " has ", count_of(model_.parameters.size(), "tensor"),
           ", too few for a model with ", count_of(model_.layers, "layer"));
    std::vector<std::string> notes;
    try {
      config = megatron_config(model_.args(), model_.version, shapes(), given, notes);
      dropout = megatron_dropout(model_.args());
    } catch (const Error& error) {
      if (error.code() != Exit::bad_data) throw;
      fail_at(Exit::bad_data, checkpoint, error.what());
    }
    for (const std::string& note : notes) console.warn(cat(checkpoint, ": ", note));
    has_padded_vocabulary = !given.vocab_size && !megatron_vocabulary(model_.args(), shapes().vocabulary_rows);
    collect_parameters();
    if (optimizer_) collect_optimizer();
    check_complete();
  }

  void verify() const override {
    for (const TorchFile* file : files()) file->verify();
    if (head_copy_ && !same_shards(*head_copy_, model_.parameters.at(kTokens)))
      fail_at(
          Exit::bad_data, head_copy_->shards.front().file->path(), "tensor '", head_copy_->name,
          "' differs from the token embedding, but must equal it, because args.untie_embeddings_and_output_weights is "
          "off; copy the checkpoint again");
    for (const auto& [name, parameter] : model_.parameters) {
      check_replicas(parameter);
      check_main(name, parameter);
    }
    if (head_copy_) check_main(kHead, *head_copy_);
  }

  /// Also compares main weights in a distrib_optim.pt with the parameter's weights.
  void verify_slice(std::size_t index, const Slice& slice) const override {
    MappedReader::verify_slice(index, slice);
    const std::string& name = tensors[index].name;
    if (!starts_with(name, "param.")) return;
    const std::string canonical = name.substr(6);
    if (const MegatronParameter* parameter = find(canonical)) check_main(canonical, *parameter);
  }

  std::string identity() const override {
    std::string lines;
    for (const TorchFile* file : files()) {
      const fs::path path(file->path());
      Hasher hasher;
      hash_sample(hasher, file->bytes(), 64);
      lines += cat(lines.empty() ? "" : "\n", path.parent_path().filename().string(), "/", path.filename().string(),
                   ": ", file->bytes().size(), " bytes, ", hash_text(hasher.digest()));
    }
    return lines;
  }

 private:
  std::vector<const TorchFile*> files() const {
    std::vector<const TorchFile*> out;
    for (const auto& file : model_.files) out.push_back(file.get());
    if (!optimizer_) return out;
    for (const auto& file : optimizer_->files) out.push_back(file.get());
    return out;
  }

  const MegatronParameter* find(const std::string& name) const {
    const auto found = model_.parameters.find(name);
    return found == model_.parameters.end() ? nullptr : &found->second;
  }

  /// If the output layer is tied, moves the last stage's copy of the token embedding to head_copy_. Keeps an untied
  /// output layer's weight.
  void drop_head_copy() {
    const MegatronParameter *head = find(kHead), *tokens = find(kTokens);
    if (head == nullptr) return;
    bool is_copy = true;
    if (model_.args()) {
      is_copy = !model_.has_untied_output();
    } else {
      is_copy = model_.pipeline_parallel > 1 && tokens != nullptr && same_shards(*head, *tokens);
    }
    if (!is_copy) return;
    head_copy_ = *head;
    model_.parameters.erase(kHead);
  }

  /// Returns a parameter's size along an axis, summed over all ranks, or 0 if the parameter or axis does not exist.
  std::int64_t extent(const std::string& name, std::size_t axis) const {
    const MegatronParameter* parameter = find(name);
    if (parameter == nullptr || parameter->shards.front().tensor->shape.size() <= axis) return 0;
    const std::int64_t size = parameter->shards.front().tensor->shape[axis];
    const bool is_cut = parameter->split == (axis == 0 ? MegatronSplit::rows : MegatronSplit::columns);
    return is_cut ? size * model_.tensor_parallel : size;
  }

  MegatronShapes shapes() const {
    return {.layers = model_.layers,
            .vocabulary_rows = extent(kTokens, 0),
            .hidden = extent(kTokens, 1),
            .up_rows = extent("layers.0.mlp.up.weight", 0),
            .query_norm = extent("layers.0.attention.q_norm.weight", 0),
            .positions = extent("embedding.positions.weight", 0),
            .has_norm_bias = find("final_norm.bias") != nullptr,
            .has_head = find(kHead) != nullptr,
            .bias = {.qkv = find("layers.0.attention.qkv.bias") != nullptr,
                     .out = find("layers.0.attention.out.bias") != nullptr,
                     .mlp = find("layers.0.mlp.up.bias") != nullptr}};
  }

  void collect_parameters() {
    for (const CanonicalTensor& canonical : canonical_tensors(config)) {
      const MegatronParameter* parameter = find(canonical.name);
      if (parameter == nullptr) fail_at(Exit::bad_data, path_, "tensor '", canonical.name, "' is missing");
      const bool has_main = optimizer_ && !optimizer_->main.empty();
      add_parameter("param.", canonical, has_main ? optimizer_->main.at(canonical.name) : *parameter);
    }
    if (tensors.size() == model_.parameters.size()) return;
    for (const auto& [name, parameter] : model_.parameters) {
      const std::string expected = "param." + name;
      const bool is_known =
          std::ranges::any_of(tensors, [&](const SavedTensor& tensor) { return tensor.name == expected; });
      if (!is_known)
        fail_at(Exit::bad_data, parameter.shards.front().file->path(), "tensor '", printable_text(parameter.name),
                "' does not fit the model that the checkpoint's args and other tensors describe; copy the checkpoint "
                "again, or use another one");
    }
  }

  /// Adds Adam's moments for every parameter.
  void collect_optimizer() {
    for (const CanonicalTensor& canonical : canonical_tensors(config)) {
      add_parameter("exp_avg.", canonical, optimizer_->exp_avg.at(canonical.name));
      add_parameter("exp_avg_sq.", canonical, optimizer_->exp_avg_sq.at(canonical.name));
    }
  }

  void add_parameter(const char* tensor_kind, const CanonicalTensor& canonical, const MegatronParameter& parameter) {
    Places places;
    const StoredDType dtype = parameter.shards.front().tensor->dtype;
    for (int rank = 0; rank < model_.tensor_parallel; ++rank) {
      const MegatronShard& shard = parameter.shards[rank];
      if (!is_model_dtype(dtype))
        refuse_shard(parameter, rank, "is stored as ", name_of(dtype), ", but mtl reads only F16, BF16, F32 and F64");
      if (shard.tensor->dtype != dtype)
        refuse_shard(parameter, rank, "is stored as ", name_of(shard.tensor->dtype), ", but by rank 0 as ",
                     name_of(dtype));
      if (rank > 0 && parameter.split == MegatronSplit::none) continue;
      places.add(piece_of(canonical, parameter, rank), shard.tensor->data, shard.file, shard.tensor->record,
                 parameter.name);
    }
    add_tensor({tensor_kind + canonical.name, dtype, canonical.shape}, std::move(places));
  }

  template <class... Parts>
  [[noreturn]] void refuse_shard(const MegatronParameter& parameter, int rank, const Parts&... parts) const {
    fail_at(Exit::bad_data, parameter.shards[rank].file->path(), "tensor '", printable_text(parameter.name), "' ",
            parts...);
  }

  /// Returns where a rank's shard belongs in the canonical tensor. A shard is a vector or a matrix; its row axis may
  /// merge multiple canonical axes.
  TensorPiece piece_of(const CanonicalTensor& canonical, const MegatronParameter& parameter, int rank) const {
    const TorchTensor& shard = *parameter.shards[rank].tensor;
    const std::int64_t parts = parameter.split == MegatronSplit::none ? 1 : model_.tensor_parallel;
    const bool is_columns = parameter.split == MegatronSplit::columns;
    const bool is_vocabulary = canonical.name == kTokens || canonical.name == kHead;
    const bool is_qkv = canonical.name.find(".attention.qkv.") != std::string::npos;
    const bool is_gated = config.gated_mlp && canonical.name.find(".mlp.up.") != std::string::npos;
    const std::size_t cut_axis = is_columns || is_gated ? 1 : 0;
    TensorPiece piece;
    piece.box = whole_slice(canonical.shape);
    std::int64_t& cut = piece.box.size.at(cut_axis);
    if (is_vocabulary) cut = extent(canonical.name, 0);  // includes padding rows
    if (cut % parts != 0)
      refuse_shard(parameter, rank, "has ", parts, " shards along an axis of ", cut, ", not a multiple of ", parts);
    cut /= parts;
    piece.box.offset.at(cut_axis) = parts > 1 ? rank * cut : 0;
    RowAxes rows{{piece.box.size[0]}, {1}};
    if (is_qkv) rows = qkv_axes(config, model_.version, piece.box.size[0]);
    if (is_gated) rows = {{2, cut}, {cut, 1}};
    std::vector<std::int64_t> expected = {whole_slice(rows.size).count()};
    expected.insert(expected.end(), piece.box.size.begin() + std::ssize(rows.size), piece.box.size.end());
    if (shard.shape != expected)
      refuse_shard(parameter, rank, "has shape ", shape_text(shard.shape), ", but the model needs ",
                   shape_text(expected));
    for (std::int64_t stride : rows.stride) piece.file_strides.push_back(stride * shard.strides[0]);
    if (shard.strides.size() > 1) piece.file_strides.push_back(shard.strides[1]);
    piece.box.end = whole_slice(piece.box.size).count();
    return piece;
  }

  void check_replicas(const MegatronParameter& parameter) const {
    if (parameter.split != MegatronSplit::none) return;
    for (int rank = 1; rank < model_.tensor_parallel; ++rank) {
      if (!same_elements(*parameter.shards[0].tensor, *parameter.shards[rank].tensor))
        refuse_shard(parameter, rank, "differs from its copy on tensor parallel rank 0");
    }
  }

  /// Throws Error(bad_data) if main weights from a distrib_optim.pt do not round to the weights of the same rank: then
  /// the two files are of different checkpoints or ranks, and so are the moments.
  void check_main(const std::string& name, const MegatronParameter& parameter) const {
    if (!optimizer_ || optimizer_->files.empty() || !checked_main_.insert(name).second) return;
    const MegatronParameter& main = optimizer_->main.at(name);
    for (int rank = 0; rank < model_.tensor_parallel; ++rank) {
      if (!rounds_to_weights(*main.shards[rank].tensor, *parameter.shards[rank].tensor))
        refuse_shard(main, rank, "does not round to the weights in ",
                     fs::path(parameter.shards[rank].file->path()).filename().string(),
                     ", so that the two files are not of the same rank and checkpoint; copy the checkpoint again, or "
                     "move the distrib_optim.pt files away to use the weights alone");
    }
  }

  MegatronModel model_;
  std::string path_;
  mutable std::set<std::string> checked_main_;  // names
  std::optional<MegatronParameter> head_copy_;
  std::optional<MegatronOptimizer> optimizer_;
};

}  // namespace

std::unique_ptr<TensorReader> open_megatron(const std::string& checkpoint, const ModelSupplement& given,
                                            Console& console) {
  return std::make_unique<MegatronReader>(checkpoint, given, console);
}

}  // namespace mtl
