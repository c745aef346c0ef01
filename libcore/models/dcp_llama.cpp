#include "models/dcp_llama.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "base/printable.h"
#include "base/usage_error.h"
#include "formats/folder_entries.h"
#include "formats/slice_steps.h"
#include "formats/stored_matrix.h"
#include "models/canonical.h"
#include "models/companion_files.h"
#include "models/dcp_reader.h"
#include "models/foreign_formats.h"
#include "models/hf_config.h"

namespace mtl {

namespace {

constexpr const char* kTokensKey = "tok_embeddings.weight";
constexpr const char* kOutputKey = "output.weight";
constexpr const char* kConfigName = "config.json";

/// A stored tensor, and where its elements are in a canonical one.
struct StoredPart {
  std::string key;  // without a prefix
  StoredMatrix matrix;
};

/// Returns the rows of G groups with `heads` heads of D rows each, from head `first` of the group. Rotary heads are
/// interleaved.
StoredMatrix head_rows(const CanonicalTensor& qkv, std::int64_t first, std::int64_t heads, bool is_rotary) {
  const std::int64_t dim = qkv.shape[2];
  StoredMatrix matrix{.origin = {0, first, 0, 0},
                      .factors = {{qkv.shape[0], 0}, {heads, 1}},
                      .column_axis = 3,
                      .columns = qkv.shape[3]};
  if (is_rotary) {
    matrix.factors.push_back({dim / 2, 2});
    matrix.factors.push_back({2, 2, dim / 2});
  } else {
    matrix.factors.push_back({dim, 2});
  }
  return matrix;
}

/// Returns a whole canonical tensor, a vector or a matrix.
StoredMatrix whole_matrix(const std::vector<std::int64_t>& shape) {
  StoredMatrix matrix{.origin = std::vector<std::int64_t>(shape.size(), 0), .factors = {{shape[0], 0}}};
  if (shape.size() == 2) matrix.column_axis = 1, matrix.columns = shape[1];
  return matrix;
}

/// Returns the tensors of torchtitan that make up a canonical tensor.
std::vector<StoredPart> parts_of(const CanonicalTensor& canonical) {
  const std::string& name = canonical.name;
  constexpr std::pair<const char*, const char*> kRenamed[] = {{"embedding.tokens.weight", kTokensKey},
                                                              {"final_norm.weight", "norm.weight"},
                                                              {"norm1.weight", "attention_norm.weight"},
                                                              {"norm2.weight", "ffn_norm.weight"},
                                                              {"attention.out.weight", "attention.wo.weight"},
                                                              {"mlp.down.weight", "feed_forward.w2.weight"},
                                                              {"output.weight", kOutputKey}};
  const std::size_t digits = starts_with(name, "layers.") ? name.find('.', 7) + 1 : 0;
  const std::string layer = name.substr(0, digits), inner = name.substr(digits);
  if (inner == "attention.qkv.weight") {
    const std::int64_t queries = canonical.shape[1] - 2;
    return {{layer + "attention.wq.weight", head_rows(canonical, 0, queries, true)},
            {layer + "attention.wk.weight", head_rows(canonical, queries, 1, true)},
            {layer + "attention.wv.weight", head_rows(canonical, queries + 1, 1, false)}};
  }
  if (inner == "mlp.up.weight") {
    const auto half = [&](std::int64_t index) {
      return StoredMatrix{.origin = {index, 0, 0},
                          .factors = {{canonical.shape[1], 1}},
                          .column_axis = 2,
                          .columns = canonical.shape[2]};
    };
    return {{layer + "feed_forward.w1.weight", half(0)}, {layer + "feed_forward.w3.weight", half(1)}};
  }
  for (const auto& [ours, theirs] : kRenamed) {
    if (inner == ours) return {{layer + theirs, whole_matrix(canonical.shape)}};
  }
  fail(Exit::bad_data, "torchtitan's Llama models have no parameter for '", name,
       "', which the config.json describes; use the config.json of this model");
}

class DcpLlamaReader : public DcpReader {
 public:
  DcpLlamaReader(const std::string& path, const ModelSupplement& given, Console& console) : DcpReader(path) {
    find_prefix();
    read_config(given, console);
    const std::vector<CanonicalTensor> canonical = canonical_tensors(config);
    if (dcp().find(prefix_ + kOutputKey) != nullptr && config.tied_embeddings) check_tied_output();
    for (const CanonicalTensor& one : canonical) {
      State state = read_tensor("param.", one, prefix_, "");
      add_tensor(std::move(state.first), std::move(state.second));
    }
    refuse_other_parameters();
    read_optimizer(canonical);
    check_complete();
  }

 private:
  using State = std::pair<SavedTensor, Places>;

  /// Finds the prefix of all keys. Throws if the folder has other keys.
  void find_prefix() {
    for (const char* prefix : {"", "model."}) {
      if (dcp().find(cat(prefix, kTokensKey)) == nullptr) continue;
      prefix_ = prefix;
      return;
    }
    const ForeignModel program = find_foreign_program("", {fs::path(folder).filename().string()});
    if (!program.what.empty()) fail_at(Exit::bad_data, folder, "the folder ", program.what, program.remedy);
    std::vector<std::string> first;
    for (const auto& [key, tensor] : dcp().tensors()) {
      if (first.size() < 4) first.push_back(cat("'", printable_text(key.substr(0, 100)), "'"));
    }
    fail_at(Exit::bad_data, folder, "the folder has tensors ", join(first, ", "),
            ", but of PyTorch's distributed checkpoints mtl reads only Megatron-LM's, with metadata.json, and "
            "torchtitan's of Llama models; convert it with torch.distributed.checkpoint.format_utils.dcp_to_torch_save "
            "and put the state dict under pytorch_model.bin next to the config.json of its model");
  }

  std::int64_t extent(const std::string& key, std::size_t axis) const {
    const DcpTensor* tensor = dcp().find(prefix_ + key);
    return tensor != nullptr && axis < tensor->shape.size() ? tensor->shape[axis] : 0;
  }

  void read_config(const ModelSupplement& given, Console& console) {
    const std::string path = given.hf_config.empty() ? cat(folder, "/", kConfigName) : given.hf_config;
    if (given.hf_config.empty() && !file_exists(path)) return assume_config(given, console);
    HfDescription described = read_hf_description(path);
    config = described.config;
    dropout = described.dropout;
    hf_config = std::move(described.hf_config);
    if (!has_architecture(*find_hf_family("llama"), config))
      fail(Exit::bad_data, described.path, ": the configuration is not that of a Llama model, whose checkpoint ",
           folder, " is; use the config.json of that model");
    if (config.num_layers > std::ssize(dcp().tensors()))
      fail(Exit::bad_data, folder, " has too few tensors for the ", config.num_layers, " layers in ", described.path);
  }

  /// Derives the configuration from the tensors and torchtitan's defaults.
  void assume_config(const ModelSupplement& given, Console& console) {
    constexpr double kBase = 500000, kEpsilon = 1e-5;
    constexpr std::int64_t kPositions = 131072;
    if (!given.num_attention_heads)
      throw UsageError(std::vector<Problem>{
          {"--num-attention-heads", "is required, because the folder has no config.json; or use --hf-config PATH"}});
    config = GptConfig{};
    config.num_heads = *given.num_attention_heads;
    config.hidden_size = extent(kTokensKey, 1);
    while (dcp().find(cat(prefix_, "layers.", config.num_layers, ".attention.wq.weight")) != nullptr)
      ++config.num_layers;
    config.head_dim = extent("layers.0.attention.wq.weight", 0) / config.num_heads;
    if (config.head_dim < 1 || config.head_dim * config.num_heads != extent("layers.0.attention.wq.weight", 0))
      throw UsageError(std::vector<Problem>{{cat(given.heads_flag, " ", config.num_heads),
                                             cat("does not divide the ", extent("layers.0.attention.wq.weight", 0),
                                                 " rows of layers.0.attention.wq.weight; use its model's number")}});
    config.num_query_groups = extent("layers.0.attention.wk.weight", 0) / config.head_dim;
    config.ffn_hidden_size = extent("layers.0.feed_forward.w1.weight", 0);
    config.vocab_size = given.vocab_size.value_or(extent(kTokensKey, 0));
    config.max_positions = kPositions;
    config.norm = Norm::rmsnorm;
    config.norm_eps = kEpsilon;
    config.gated_mlp = true;
    config.activation = Activation::silu;
    config.bias = {};
    config.bias.qkv = config.bias.out = config.bias.mlp = false;
    config.position_embedding = PositionEmbedding::rotary;
    config.rotary.base = kBase;
    config.tied_embeddings = dcp().find(prefix_ + kOutputKey) == nullptr;
    has_padded_vocabulary = !given.vocab_size;
    const std::vector<std::string> problems = config.problems();
    if (!problems.empty()) fail_at(Exit::bad_data, folder, join(problems, "; "));
    console.warn(cat(folder, " has no config.json; mtl assumes torchtitan's defaults for Llama 3: rotary base ", kBase,
                     " without scaling, epsilon ", kEpsilon, ", ", kPositions,
                     " positions; use --hf-config PATH for a model with other values"));
  }

  /// Throws if a layer, or the model, has a tensor that was not read.
  void refuse_other_parameters() const {
    for (const auto& [key, tensor] : dcp().tensors()) {
      if (!starts_with(key, prefix_) || used_.contains(key)) continue;
      const std::string name = key.substr(prefix_.size());
      const bool is_parameter = !prefix_.empty() || starts_with(name, "layers.") || name == kOutputKey;
      if (is_parameter && name != "freqs_cis")  // an older release's table of rotary factors
        fail_at(Exit::bad_data, folder, "tensor '", printable_text(key),
                "' is not a parameter of the Llama model that the configuration describes; use its config.json, and a "
                "checkpoint of a Llama model");
    }
  }

  /// Throws unless the stored output layer, which the configuration ties, equals the token embedding. Then it is
  /// ignored.
  void check_tied_output() {
    const std::vector<std::int64_t> shape = {config.vocab_size, config.hidden_size};
    const State tokens = read_tensor("param.", {"embedding.tokens.weight", shape}, prefix_, "");
    const State output = read_tensor("param.", {"output.weight", shape}, prefix_, "");
    const StoredDType dtype = tokens.first.dtype;
    bool is_equal = output.first.dtype == dtype;
    std::vector<std::byte> a, b;
    for_each_step(whole_slice(shape), bits_of(dtype) / 8, kStepBytes, [&](const Slice& part, std::int64_t) {
      if (!is_equal) return;
      a.resize(part.count() * bits_of(dtype) / 8), b.resize(a.size());
      gather(tokens.second, dtype, part, a);
      gather(output.second, dtype, part, b);
      is_equal = a == b;
    });
    if (!is_equal)
      fail_at(Exit::bad_data, folder, "tensor '", prefix_, kOutputKey,
              "' differs from the token embedding, but config.json sets tie_word_embeddings; set it to false");
  }

  State read_tensor(const std::string& kind, const CanonicalTensor& canonical, const std::string& prefix,
                    const std::string& suffix) {
    Places places;
    std::optional<StoredDType> dtype;
    for (const StoredPart& part : parts_of(canonical)) {
      const auto found = dcp().tensors().find(cat(prefix, part.key, suffix));
      if (found == dcp().tensors().end())
        fail_at(Exit::bad_data, folder, "tensor '", prefix, part.key, suffix, "' is missing");
      const auto& [key, tensor] = *found;
      check_shape(canonical, part.matrix, key, tensor);
      used_.insert(key);
      if (dtype.value_or(tensor.dtype) != tensor.dtype)
        fail_at(Exit::bad_data, folder, "tensor '", key, "' is stored as ", name_of(tensor.dtype),
                ", but other parts of the same parameter as ", name_of(*dtype));
      dtype = tensor.dtype;
      for (const DcpChunk& chunk : tensor.chunks)
        add_chunk(part.matrix, {.key = &key, .tensor = &tensor, .chunk = &chunk}, places);
    }
    return {SavedTensor{kind + canonical.name, *dtype, canonical.shape}, std::move(places)};
  }

  /// Throws unless a tensor has the matrix's shape. The token embedding and the output layer may have padding rows.
  void check_shape(const CanonicalTensor& canonical, const StoredMatrix& matrix, const std::string& key,
                   const DcpTensor& tensor) const {
    std::vector<std::int64_t> expected = {matrix.rows()};
    if (matrix.column_axis >= 0) expected.push_back(matrix.columns);
    if (tensor.shape == expected) return;
    const bool is_vocabulary = canonical.name == "embedding.tokens.weight" || canonical.name == "output.weight";
    const bool is_padded = hf_config.is_null() && is_vocabulary && tensor.shape.size() == 2 &&
                           tensor.shape[0] > expected[0] && tensor.shape[1] == expected[1];
    if (is_padded) return;
    fail_at(Exit::bad_data, folder, "tensor '", printable_text(key), "' has shape ", shape_text(tensor.shape),
            ", but the configuration needs ", shape_text(expected),
            "; use the config.json or the number of heads of this model");
  }

  void add_chunk(StoredMatrix matrix, DcpSource source, Places& places) const {
    const std::vector<std::int64_t>&at = source.chunk->box.offset, &size = source.chunk->box.size;
    const bool has_columns = matrix.column_axis >= 0;
    if (matrix.factors.size() == 1) matrix.factors[0].size = source.tensor->shape[0];  // with padding rows
    const Rectangle rectangle{.row_begin = at[0],
                              .row_end = at[0] + size[0],
                              .column_begin = has_columns ? at[1] : 0,
                              .column_end = has_columns ? at[1] + size[1] : 1};
    add_rectangle(matrix, rectangle, places.sources.size(), 0, has_columns ? size[1] : 1, places.pieces);
    places.sources.push_back(source);
  }

  /// Adds Adam's moments and the training state, if the folder has them.
  void read_optimizer(const std::vector<CanonicalTensor>& canonical) {
    std::string prefix = "optimizer.state.";
    if (dcp().find(cat(prefix, kTokensKey, ".exp_avg")) == nullptr) prefix += "model.";
    if (dcp().find(cat(prefix, kTokensKey, ".exp_avg")) == nullptr) return;
    std::vector<State> moments;
    try {
      for (const CanonicalTensor& one : canonical) {
        for (const char* kind : {"exp_avg", "exp_avg_sq"})
          moments.push_back(read_tensor(cat(kind, "."), one, prefix, cat(".", kind)));
      }
      TrainState read;
      read.optimizer_steps = read_step(cat(prefix, kTokensKey, ".step"));
      read.iteration = dcp().find("train_state.step") != nullptr ? read_step("train_state.step") : read.optimizer_steps;
      if (read.optimizer_steps > read.iteration)
        fail_at(Exit::bad_data, folder, "the optimizer has taken ", read.optimizer_steps, " steps in ", read.iteration,
                " iterations");
      read.skipped_iterations = read.iteration - read.optimizer_steps;
      read.extra.set("consumed_samples_unknown", true);
      state = std::move(read);
    } catch (const Error& error) {
      if (error.code() != Exit::bad_data) throw;
      optimizer_problem = error.what();
      return;
    }
    for (State& one : moments) add_tensor(std::move(one.first), std::move(one.second));
  }

  /// Reads a number of steps, a tensor of one element.
  std::int64_t read_step(const std::string& key) const {
    const DcpTensor* tensor = dcp().find(key);
    if (tensor == nullptr || tensor->chunks.size() != 1 || tensor->chunks[0].box.count() != 1)
      fail_at(Exit::bad_data, folder, "there is no tensor '", key, "' with one element");
    const DcpFolder::OpenChunk chunk = dcp().open_chunk(key, *tensor, tensor->chunks[0]);
    const std::byte* data = chunk.tensor->data.data();
    std::int64_t steps = -1;
    if (tensor->dtype == StoredDType::i64) {
      std::memcpy(&steps, data, sizeof steps);
    } else if (tensor->dtype == StoredDType::i32) {
      std::int32_t value = 0;
      std::memcpy(&value, data, sizeof value);
      steps = value;
    } else if (tensor->dtype == StoredDType::f32) {
      float value = 0;
      std::memcpy(&value, data, sizeof value);
      if (value >= 0 && value < 1e9F) steps = static_cast<std::int64_t>(value);
    }
    if (steps < 0) fail_at(Exit::bad_data, folder, "tensor '", key, "' is not a number of steps");
    return steps;
  }

  std::string prefix_;
  std::set<std::string> used_;  // keys of tensors that were read
};

}  // namespace

std::optional<std::string> current_dcp_step(const std::string& path, Console&) {
  return newest_numbered(path, "step-", [](const std::string& folder) { return has_mark(kDcpMarks, folder); });
}

std::unique_ptr<TensorReader> open_dcp_llama(const std::string& path, const ModelSupplement& given, Console& console) {
  return std::make_unique<DcpLlamaReader>(path, given, console);
}

}  // namespace mtl
