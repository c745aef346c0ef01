#include "models/deepspeed_folder.h"

#include <algorithm>
#include <utility>

#include "base/files.h"
#include "base/printable.h"
#include "formats/folder_entries.h"

namespace mtl {

namespace {

constexpr const char* kTracker = "latest";
constexpr const char* kUniversalTracker = "latest_universal";

std::optional<std::vector<int>> shard_numbers(const std::string& name) {
  for (const char* prefix : {"zero_pp_rank_", "bf16_zero_pp_rank_", "fp16_zero_pp_rank_"}) {
    if (auto found = numbers_in(name, {prefix, "_mp_rank_", "_optim_states.pt"})) return found;
  }
  return std::nullopt;
}

/// Returns the numbers of a pipeline module's file, without tensor parallelism (N, 0).
std::optional<std::vector<int>> layer_numbers(const std::string& name) {
  if (auto found = numbers_in(name, {"layer_", "-model_", "-model_states.pt"})) return found;
  auto found = numbers_in(name, {"layer_", "-model_states.pt"});
  if (found) found->push_back(0);
  return found;
}

/// Returns the data-parallel rank and the model-parallel rank of a file with weights that ZeRO-3 partitioned.
std::optional<std::vector<int>> partition_numbers(const std::string& name) {
  return numbers_in(name, {"zero_pp_rank_", "_mp_rank_", "_model_states.pt"});
}

/// Throws if the file belongs to a kind of checkpoint that mtl does not read.
void refuse_kind(const std::string& checkpoint, const std::string& name) {
  const std::string shown = printable_text(name);
  const auto partition = partition_numbers(name);
  const bool is_universal = is_directory(checkpoint + "/zero");
  if (partition && is_universal && partition->back() > 0)
    fail_at(Exit::bad_data, checkpoint, "the universal checkpoint was made from ZeRO-3 with tensor parallelism (",
            shown,
            "), which mtl does not read; load it in the program that trained the model, with ZeRO 1, and use the "
            "checkpoint that the program then saves");
  if (partition && !is_universal)
    fail_at(Exit::bad_data, checkpoint, "ZeRO-3 has partitioned the weights (", shown,
            "), which mtl does not read; merge them with DeepSpeed's ds_to_universal.py, and use the checkpoint that "
            "it writes, or, for a transformers model, merge them with the zero_to_fp32.py beside the checkpoint");
  if (name.find("_expert_") != std::string::npos || starts_with(name, "expert_") || starts_with(name, "expp_rank_"))
    fail_at(Exit::bad_data, checkpoint, "the checkpoint is a mixture of experts (", shown,
            "), which mtl does not support; use a dense model");
}

bool holds_deepspeed(const std::string& path) { return has_mark(kDeepSpeedMarks, path); }

std::vector<std::string> listed(const std::map<int, std::string>& by_number, const std::string& checkpoint,
                                const char* what) {
  std::vector<std::string> out;
  for (const auto& [number, path] : by_number) {
    if (number != std::ssize(out))
      fail_at(Exit::bad_data, checkpoint, "the file of ", what, " ", out.size(),
              " is missing; copy all files of the checkpoint");
    out.push_back(path);
  }
  return out;
}

}  // namespace

bool is_deepspeed_file(std::string_view path) {
  return ends_with(path, "_model_states.pt") || ends_with(path, "_optim_states.pt");
}

std::optional<std::string> current_deepspeed_checkpoint(const std::string& path, Console& console) {
  const std::string tracker = cat(path, "/", kTracker);
  std::string tracked;
  for (const std::string& file : {tracker, cat(path, "/", kUniversalTracker)}) {
    if (!is_regular_file(file)) continue;
    constexpr std::uint64_t kMostBytes = 4096;
    const std::string name = fs::file_size(file) <= kMostBytes ? std::string(trim(read_regular_file(file))) : "";
    if (!is_plain_name(name)) continue;
    if (holds_deepspeed(cat(path, "/", name))) return cat(path, "/", name);
    if (file == tracker) tracked = name;
  }
  const std::optional<std::string> newest = newest_numbered(path, "global_step", holds_deepspeed);
  if (!newest) return std::nullopt;
  const std::string problem =
      tracked.empty() ? " does not name a checkpoint"
                      : cat(" names ", printable_text(tracked), ", which ",
                            file_exists(cat(path, "/", tracked)) ? "is not a checkpoint" : "does not exist");
  console.warn(
      cat(tracker, file_exists(tracker) ? problem : " is missing", "; using ", fs::path(*newest).filename().string()));
  return newest;
}

DeepSpeedFiles list_deepspeed_files(const std::string& checkpoint) {
  std::map<int, std::string> ranks;
  std::map<int, std::map<int, std::string>> layers, shards;
  DeepSpeedFiles out;
  for (const std::string& name : names_in_folder(checkpoint)) {
    const std::string path = cat(checkpoint, "/", name);
    refuse_kind(checkpoint, name);
    if (const auto rank = numbers_in(name, {"mp_rank_", "_model_states.pt"})) ranks[rank->at(0)] = path;
    if (const auto rank = partition_numbers(name); rank && rank->front() == 0) ranks[rank->back()] = path;
    if (const auto layer = layer_numbers(name)) layers[layer->at(0)][layer->at(1)] = path;
    if (const auto shard = shard_numbers(name)) {
      if (!shards[shard->at(1)].emplace(shard->at(0), path).second)
        fail_at(Exit::bad_data, checkpoint, "two files hold the optimizer state of the same rank, one of them ",
                printable_text(name), "; remove the one that does not belong to this checkpoint");
    }
  }
  if (is_directory(checkpoint + "/zero")) {
    for (const std::string& name : names_in_folder(checkpoint + "/zero")) {
      const std::string folder = cat(checkpoint, "/zero/", name);
      if (is_directory(folder)) out.universal[name] = folder;
    }
    if (out.universal.empty())
      fail_at(Exit::bad_data, checkpoint + "/zero", "the folder has no parameters; copy all files of the checkpoint");
  }
  if (is_directory(checkpoint + "/configs")) {
    for (const std::string& name : names_in_folder(checkpoint + "/configs")) {
      if (ends_with(name, ".yml") || ends_with(name, ".yaml") || ends_with(name, ".json"))
        out.configs.push_back(cat(checkpoint, "/configs/", name));
    }
  }
  out.ranks = listed(ranks, checkpoint, "model-parallel rank");
  if (out.ranks.empty())
    fail_at(Exit::bad_data, checkpoint, "the files mp_rank_*_model_states.pt are missing; copy all files");
  for (auto& [number, by_rank] : layers) {
    std::vector<std::string>& files = out.layers[number];
    files = listed(by_rank, checkpoint, cat("tensor parallel rank of layer_", number, ":").c_str());
    if (files.size() != out.layers.begin()->second.size())
      fail_at(Exit::bad_data, checkpoint, "the pipeline's module ", number, " has ", files.size(),
              " files of tensor parallel ranks, but others have ", out.layers.begin()->second.size(),
              "; copy all files of the checkpoint");
  }
  out.tensor_parallel = static_cast<int>(out.layers.empty() ? out.ranks.size() : out.layers.begin()->second.size());
  if (out.ranks.size() % out.tensor_parallel != 0)
    fail_at(Exit::bad_data, checkpoint, "there are files of ", out.ranks.size(),
            " model-parallel ranks, not a multiple ", "of the ", out.tensor_parallel,
            " tensor parallel ranks; copy all files of the checkpoint");
  out.shards = std::move(shards);
  return out;
}

}  // namespace mtl
