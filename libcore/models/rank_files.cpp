#include "models/rank_files.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <ranges>
#include <string>

#include "base/error.h"
#include "base/printable.h"

namespace mtl {

namespace {

/// What is the same in the files of all ranks: entries of the root dict, and of its args, which are a Namespace or
/// GPT-NeoX's dict.
constexpr const char* kRootFacts[] = {"iteration", "global_steps", "global_samples", "mp_world_size", "dp_world_size"};
constexpr const char* kArgFacts[] = {
    // the model
    "num_layers", "hidden_size", "ffn_hidden_size", "num_attention_heads", "num_query_groups", "num_key_value_heads",
    "kv_channels", "max_position_embeddings", "seq_length", "padded_vocab_size", "normalization", "swiglu",
    "rotary_base", "rope_theta", "rotary_percent", "layernorm_epsilon", "norm_epsilon", "add_bias_linear",
    "untie_embeddings_and_output_weights", "params_dtype",
    // the layout
    "world_size", "tensor_model_parallel_size", "pipeline_model_parallel_size", "model_parallel_size",
    "virtual_pipeline_model_parallel_size", "data_parallel_size",
    // the run
    "iteration", "consumed_train_samples", "seed", "lr", "min_lr", "weight_decay", "adam_beta1", "adam_beta2",
    "micro_batch_size", "global_batch_size", "train_iters", "train_samples"};

/// Returns a value as text to compare. Empty for kinds that we do not compare.
std::optional<std::string> fact_of(PickleValue value) {
  switch (value.kind()) {
    case PickleKind::none:
      return "None";
    case PickleKind::boolean:
      return value.as_bool() ? "True" : "False";
    case PickleKind::integer:
      return cat(value.as_int());
    case PickleKind::real:
      return cat(value.as_number());
    case PickleKind::text:
      return std::string(value.as_text());
    case PickleKind::global:
      return value.global();
    default:
      return std::nullopt;
  }
}

std::optional<std::string> fact_in(const std::optional<PickleValue>& dict, const char* name) {
  const std::optional<PickleValue> value = find_in(dict, name);
  return value ? fact_of(*value) : std::nullopt;
}

/// Throws if both dicts state the fact, and differently.
void compare_fact(const TorchFile& file, const std::optional<PickleValue>& dict, const TorchFile& first,
                  const std::optional<PickleValue>& first_dict, const char* prefix, const char* name) {
  const std::optional<std::string> fact = fact_in(dict, name), expected = fact_in(first_dict, name);
  if (fact && expected && *fact != *expected)
    fail_at(Exit::bad_data, file.path(), prefix, name, " is ", printable_text(fact->substr(0, 100)), ", but ",
            printable_text(expected->substr(0, 100)), " in ", first.path(),
            ", so the files are of different checkpoints; copy all files of one checkpoint again");
}

std::optional<std::int64_t> rank_in(const TorchFile& file) {
  const std::optional<PickleValue> rank = find_in(file.root().find("args"), "rank");
  return rank && rank->is(PickleKind::integer) ? std::optional(rank->as_int()) : std::nullopt;
}

/// Throws if the ranks that the files state have another order than the files. Ranks of one tensor parallel group are
/// consecutive, and those of later stages are higher. Converters let all files state one rank, or repeat some: then
/// nothing follows.
void check_rank_order(const std::vector<std::unique_ptr<TorchFile>>& files) {
  std::vector<std::int64_t> ranks;
  for (const auto& file : files) {
    const std::optional<std::int64_t> rank = rank_in(*file);
    if (!rank) return;
    ranks.push_back(*rank);
  }
  std::vector<std::int64_t> sorted = ranks;
  std::ranges::sort(sorted);
  if (std::ranges::adjacent_find(sorted) != sorted.end()) return;
  for (std::size_t i = 1; i < ranks.size(); ++i) {
    if (ranks[i] < ranks[i - 1])
      fail_at(Exit::bad_data, files[i]->path(), "args.rank is ", ranks[i], ", but ", ranks[i - 1], " in ",
              files[i - 1]->path(),
              ", which is of a lower rank by its name; give the files their own names, or copy the checkpoint again");
  }
}

/// True if the file states more than one iteration. Megatron-LM's converters state 0 or 1.
bool is_trained(const TorchFile& file) {
  for (const char* name : {"iteration", "global_steps"}) {
    const std::optional<PickleValue> value = file.root().find(name);
    if (value && value->is(PickleKind::integer)) return value->as_int() > 1;
  }
  return false;
}

bool same_bytes(const RankMatrices::Matrix& a, const RankMatrices::Matrix& b) {
  return a.data.size() == b.data.size() && std::memcmp(a.data.data(), b.data.data(), a.data.size()) == 0;
}

/// True if an element differs from the next one.
bool has_many_values(const RankMatrices::Matrix& matrix) {
  const std::size_t bytes = matrix.data.size();
  return bytes > matrix.element &&
         std::memcmp(matrix.data.data(), matrix.data.data() + matrix.element, bytes - matrix.element) != 0;
}

}  // namespace

void check_same_checkpoint(const std::vector<std::unique_ptr<TorchFile>>& files) {
  const TorchFile& first = *files.front();
  const std::optional<PickleValue> first_args = first.root().find("args");
  for (const auto& file : files) {
    const std::optional<PickleValue> args = file->root().find("args");
    for (const char* name : kRootFacts) compare_fact(*file, file->root(), first, first.root(), "", name);
    for (const char* name : kArgFacts) compare_fact(*file, args, first, first_args, "args.", name);
  }
  check_rank_order(files);
}

void RankMatrices::add(const TorchFile& file, const TorchFile& first, Matrix matrix) {
  auto found = std::ranges::find(files_, &file, &File::file);
  if (found == files_.end()) found = files_.insert(found, {&file, &first, {}});
  found->matrices.push_back(matrix);
}

void RankMatrices::check_no_copy(const TorchFile& stated) const {
  const bool has_trained_layers = is_trained(stated);
  for (auto file = files_.begin(); file != files_.end(); ++file) {
    for (auto other = files_.begin(); other != file; ++other) {
      const bool is_same_stage = file->first == other->first;
      if (!is_same_stage && !has_trained_layers) continue;
      const auto counts = [&](const Matrix& matrix) { return is_same_stage || !matrix.is_table; };
      auto matrices = file->matrices | std::views::filter(counts);
      if (!std::ranges::equal(matrices, other->matrices | std::views::filter(counts), same_bytes) ||
          !std::ranges::any_of(matrices, has_many_values))
        continue;
      fail_at(Exit::bad_data, file->file->path(), "the matrices are those in ", other->file->path(),
              ", so one of the two files is a copy of the other; copy both from the checkpoint again");
    }
  }
}

}  // namespace mtl
