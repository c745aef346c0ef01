#include "models/dcp_llama.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/printable.h"
#include "base/usage_error.h"
#include "formats/folder_entries.h"
#include "formats/slice_steps.h"
#include "formats/whole_number.h"
#include "models/canonical.h"
#include "models/companion_files.h"
#include "models/dcp_reader.h"
#include "models/foreign_formats.h"
#include "models/hf_config.h"
#include "models/hf_names.h"

namespace mtl {

namespace {

constexpr const char* kTokensKey = "tok_embeddings.weight";
constexpr const char* kOutputKey = "output.weight";
constexpr const char* kConfigName = "config.json";

/// torchtitan's names, in the form of a family of Hugging Face models.
const HfFamily& torchtitan_names() {
  static const HfFamily names = [] {
    HfFamily out{};
    out.prefix = "";
    out.output = "output";
    out.modules = {{"embedding.tokens", "tok_embeddings"}, {"final_norm", "norm"}};
    out.layer_modules = {{"norm1", "attention_norm"},
                         {"norm2", "ffn_norm"},
                         {"attention.qkv", "attention.wq", HfPart::queries},
                         {"attention.qkv", "attention.wk", HfPart::keys},
                         {"attention.qkv", "attention.wv", HfPart::values},
                         {"attention.out", "attention.wo"},
                         {"mlp.up", "feed_forward.w1", HfPart::gate},
                         {"mlp.up", "feed_forward.w3", HfPart::up},
                         {"mlp.down", "feed_forward.w2"}};
    return out;
  }();
  return names;
}

/// Returns how a tensor is stored. The rows of rotary heads are interleaved.
StoredMatrix matrix_of(const HfTensor& tensor) {
  StoredMatrix matrix = merged_rows(tensor.piece.box, tensor.shape.size() > 1);
  if (!ends_with(tensor.name, ".wq.weight") && !ends_with(tensor.name, ".wk.weight")) return matrix;
  const std::int64_t half = matrix.factors.back().size / 2;
  matrix.factors.back() = {half, 2};
  matrix.factors.push_back({2, 2, half});
  return matrix;
}

class DcpLlamaReader : public DcpReader {
 public:
  DcpLlamaReader(const std::string& path, const ModelSupplement& given, Console& console) : DcpReader(path) {
    find_prefix();
    read_config(given, console);
    const std::vector<CanonicalTensor> canonical = canonical_tensors(config);
    if (dcp().find(prefix_ + kOutputKey) != nullptr && config.tied_embeddings) check_tied_output();
    for (const CanonicalTensor& one : canonical) add_tensor(read_tensor("param.", one, prefix_, ""));
    refuse_other_parameters();
    read_optimizer(canonical);
    check_complete();
  }

 private:
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
      throw UsageError("--num-attention-heads",
                       "is required, because the folder has no config.json; or use --hf-config PATH");
    config = GptConfig{};
    config.num_heads = *given.num_attention_heads;
    config.hidden_size = extent(kTokensKey, 1);
    while (dcp().find(cat(prefix_, "layers.", config.num_layers, ".attention.wq.weight")) != nullptr)
      ++config.num_layers;
    config.head_dim = extent("layers.0.attention.wq.weight", 0) / config.num_heads;
    if (config.head_dim < 1 || config.head_dim * config.num_heads != extent("layers.0.attention.wq.weight", 0))
      throw UsageError(cat(given.heads_flag, " ", config.num_heads),
                       cat("does not divide the ", extent("layers.0.attention.wq.weight", 0),
                           " rows of layers.0.attention.wq.weight; use its model's number"));
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
        refuse_tensor(
            folder, key,
            "is not a parameter of the Llama model that the configuration describes; use its config.json, and a "
            "checkpoint of a Llama model");
    }
  }

  /// Throws unless the stored output layer, which the configuration ties, equals the token embedding. Then it is
  /// ignored.
  void check_tied_output() {
    const std::vector<std::int64_t> shape = {config.vocab_size, config.hidden_size};
    const State tokens = read_tensor("param.", {kTokenEmbedding, shape}, prefix_, "");
    const State output = read_tensor("param.", {kOutputLayer, shape}, prefix_, "");
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
      refuse_tensor(folder, cat(prefix_, kOutputKey),
                    "differs from the token embedding, but config.json sets tie_word_embeddings; set it to false");
  }

  State read_tensor(const std::string& kind, const CanonicalTensor& canonical, const std::string& prefix,
                    const std::string& suffix) {
    if (!ends_with(canonical.name, ".weight"))
      fail(Exit::bad_data, "torchtitan's Llama models have no parameter for '", canonical.name,
           "', which the config.json describes; use the config.json of this model");
    TensorMap map;
    std::optional<StoredDType> dtype;
    for (const HfTensor& part : hf_tensors_of(canonical, torchtitan_names())) {
      const auto found = dcp().tensors().find(cat(prefix, part.name, suffix));
      if (found == dcp().tensors().end()) refuse_tensor(folder, cat(prefix, part.name, suffix), "is missing");
      const auto& [key, tensor] = *found;
      check_shape(canonical, part.shape, key, tensor);
      used_.insert(key);
      if (dtype.value_or(tensor.dtype) != tensor.dtype)
        refuse_tensor(folder, key, "is stored as ", name_of(tensor.dtype),
                      ", but other parts of the same parameter as ", name_of(*dtype));
      dtype = tensor.dtype;
      StoredMatrix matrix = matrix_of(part);
      if (matrix.factors.size() == 1) matrix.factors[0].size = tensor.shape[0];  // with padding rows
      for (const DcpBox& box : tensor.boxes)
        add_box(matrix, {.key = &key, .tensor = &tensor, .box = &box}, std::nullopt, map);
    }
    return {SavedTensor{kind + canonical.name, *dtype, canonical.shape}, std::move(map)};
  }

  /// Throws unless a tensor has this shape. The token embedding and the output layer may have padding rows.
  void check_shape(const CanonicalTensor& canonical, const std::vector<std::int64_t>& expected, const std::string& key,
                   const DcpTensor& tensor) const {
    if (tensor.shape == expected) return;
    const bool is_padded = hf_config.is_null() && is_vocabulary(canonical.name) && tensor.shape.size() == 2 &&
                           tensor.shape[0] > expected[0] && tensor.shape[1] == expected[1];
    if (is_padded) return;
    refuse_tensor(folder, key, "has shape ", shape_text(tensor.shape), ", but the configuration needs ",
                  shape_text(expected), "; use the config.json or the number of heads of this model");
  }

  /// Adds Adam's moments and the training state, if the folder has them.
  void read_optimizer(const std::vector<CanonicalTensor>& canonical) {
    std::string prefix = "optimizer.state.";
    if (dcp().find(cat(prefix, kTokensKey, ".exp_avg")) == nullptr) prefix += "model.";
    if (dcp().find(cat(prefix, kTokensKey, ".exp_avg")) == nullptr) return;
    std::vector<State> moments;
    optimizer_problem = data_problem([&] {
      for (const CanonicalTensor& one : canonical) {
        for (const char* kind : {"exp_avg", "exp_avg_sq"})
          moments.push_back(read_tensor(cat(kind, "."), one, prefix, cat(".", kind)));
      }
      TrainState read;
      const std::int64_t steps = read_step(cat(prefix, kTokensKey, ".step"));
      read.iteration = dcp().find("train_state.step") != nullptr ? read_step("train_state.step") : steps;
      with_where(folder, [&] { set_optimizer_steps(read, steps); });
      read.extra.set("consumed_samples_unknown", true);
      state = std::move(read);
    });
    if (!optimizer_problem.empty()) return;
    for (State& one : moments) add_tensor(std::move(one));
  }

  /// Reads a number of steps, a tensor of one element.
  std::int64_t read_step(const std::string& key) const {
    const DcpTensor* tensor = dcp().find(key);
    if (tensor == nullptr || tensor->boxes.size() != 1 || tensor->boxes[0].slice.count() != 1)
      fail_at(Exit::bad_data, folder, "there is no tensor '", key, "' with one element");
    const DcpFolder::OpenBox box = dcp().open_box(key, *tensor, tensor->boxes[0]);
    const std::int64_t steps = whole_number(*box.tensor).value_or(-1);
    const bool is_rounded = is_model_dtype(tensor->dtype) && (tensor->dtype != StoredDType::f32 || steps >= 1e9);
    if (steps < 0 || is_rounded) refuse_tensor(folder, key, "is not a number of steps");
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
