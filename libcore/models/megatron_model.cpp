#include "models/megatron_model.h"

#include <algorithm>

#include "base/count_of.h"
#include "formats/nested_tensors.h"
#include "models/foreign_formats.h"
#include "models/megatron_config.h"

namespace mtl {

namespace {

/// A parameter in a rank's file, with its name there.
struct NamedEntry {
  std::string name;
  MegatronName parsed;
  const TorchTensor* tensor;
};

/// Returns the parameters in one model dict.
std::vector<NamedEntry> entries_of(const TorchFile& file, PickleValue model) {
  std::vector<NamedEntry> entries;
  for (NestedTensor& found : nested_tensors(file, model)) {
    if (is_megatron_buffer(found.name)) continue;
    std::optional<MegatronName> parsed = parse_megatron_name(found.name);
    if (!parsed) refuse_tensor(file.path(), found.name, "is not a GPT parameter that mtl supports");
    entries.push_back({std::move(found.name), std::move(*parsed), found.tensor});
  }
  return entries;
}

/// Returns the model chunks in a rank's file: model or, with interleaved stages, model0, model1, ...
std::vector<PickleValue> chunks_of(const TorchFile& file) {
  std::vector<PickleValue> chunks;
  if (const auto model = file.root().find("model")) {
    chunks.push_back(*model);
  } else {
    while (const auto chunk = file.root().find(cat("model", chunks.size()))) chunks.push_back(*chunk);
  }
  if (chunks.empty())
    fail_at(Exit::bad_data, file.path(),
            "the file has no entry 'model', so it is not a Megatron-LM checkpoint in torch format");
  for (PickleValue chunk : chunks) {
    if (!chunk.is(PickleKind::dict))
      fail_at(Exit::bad_data, file.path(), "the model is ", chunk.describe(), " instead of a dict");
  }
  return chunks;
}

/// Throws if the file is of a program that has a dict "model", too.
void refuse_other_program(const TorchFile& file) {
  if (!file.root().find("model_args")) return;
  const ForeignModel program = find_foreign_program("", {"ckpt.pt"});
  fail_at(Exit::bad_data, file.path(), "the file ", program.what, program.remedy);
}

double version_of(const TorchFile& file) {
  const std::optional<PickleValue> version = file.root().find_not_none("checkpoint_version");
  if (!version) return 0;
  const double number = with_where(
      file.path(), [&] { return version->as_number(); }, "checkpoint_version is ");
  if (!(number >= 0 && number < 4))
    fail_at(Exit::bad_data, file.path(), "checkpoint_version is ", number, ", but mtl reads only 0 to 3");
  return number;
}

std::int64_t layers_in(const std::vector<NamedEntry>& entries) {
  std::int64_t layers = 0;
  for (const NamedEntry& entry : entries) layers = std::max(layers, entry.parsed.layer.value_or(-1) + 1);
  return layers;
}

/// Throws if a parameter that only the model's first or last chunk has is in another one.
void check_place(const MegatronModel& model, const TorchFile& file, const NamedEntry& entry, bool is_first,
                 bool is_last) {
  if (entry.parsed.layer) return;
  const bool is_embedding = starts_with(entry.parsed.canonical, "embedding.");
  if (is_embedding ? is_first : is_last) return;
  refuse_tensor(
      file.path(), entry.name, "belongs to the ", is_embedding ? "first" : "last", " of ",
      count_of(model.pipeline_parallel, "pipeline stage"),
      ", so the file is another stage's; give the mp_rank_TT_PPP folders their own names, or copy the checkpoint "
      "again");
}

/// Throws if a rank's file is a copy of another rank's.
void check_no_copy(const MegatronModel& model) {
  RankMatrices matrices;
  for (std::size_t r = 0; r < model.ranks.size(); ++r) {
    for (const std::string& name : model.ranks[r].names())
      add_matrix(matrices, name, model.parameters.at(name), r % model.tensor_parallel);
  }
  matrices.check_no_copy(*model.files.front());
}

/// Adds the parameters of one chunk of a stage from the files of the stage's tensor parallel ranks. Numbers the chunk's
/// layers after those that `model` already has.
void add_stage(MegatronModel& model, std::size_t chunk, std::size_t chunks, int stage) {
  std::int64_t layers = 0;
  for (int tensor_rank = 0; tensor_rank < model.tensor_parallel; ++tensor_rank) {
    MegatronRank& rank = model.ranks[stage * model.tensor_parallel + tensor_rank];
    const std::vector<NamedEntry> entries = entries_of(*rank.file, chunks_of(*rank.file)[chunk]);
    if (tensor_rank == 0) layers = layers_in(entries);
    std::vector<std::string>& names = rank.chunks.emplace_back();
    for (const NamedEntry& entry : entries) {
      const MegatronName& parsed = entry.parsed;
      check_place(model, *rank.file, entry, stage == 0 && chunk == 0,
                  stage + 1 == model.pipeline_parallel && chunk + 1 == chunks);
      std::string name = parsed.canonical;
      if (parsed.layer) name = cat("layers.", model.layers + *parsed.layer, ".", name);
      add_shard(model.parameters[name], tensor_rank, entry.name, parsed.split, *rank.file, *entry.tensor);
      names.push_back(name);
    }
  }
  model.layers += layers;
}

void check_parallel_sizes(const MegatronModel& model) {
  const auto [tensor, pipeline] = megatron_parallel_sizes(model.args());
  const auto check = [&](const char* what, std::int64_t stated, int found) {
    if (stated != 0 && stated != found)
      fail_at(Exit::bad_data, model.files.front()->path(), "the checkpoint was written by ",
              count_of(stated, cat(what, " rank")), ", but there are files of ", found,
              stated > found ? "; load the folder that contains all mp_rank_* folders"
                             : "; remove the mp_rank_* folders that do not belong to this checkpoint");
  };
  check("tensor parallel", tensor, model.tensor_parallel);
  check("pipeline parallel", pipeline, model.pipeline_parallel);
}

}  // namespace

std::vector<std::string> MegatronRank::names() const {
  std::vector<std::string> out;
  for (const std::vector<std::string>& chunk : chunks) out.insert(out.end(), chunk.begin(), chunk.end());
  return out;
}

std::optional<PickleValue> MegatronModel::args() const {
  const std::optional<PickleValue> args = root().find("args");
  return args && args->is(PickleKind::object) ? args : std::nullopt;
}

bool MegatronModel::has_untied_output() const {
  const std::optional<PickleValue> stated = find_in(args(), "untie_embeddings_and_output_weights");
  return stated && stated->is(PickleKind::boolean) && stated->as_bool();
}

MegatronModel read_megatron_model(const MegatronRankFiles& files) {
  MegatronModel model;
  model.tensor_parallel = files.tensor_parallel;
  model.pipeline_parallel = files.pipeline_parallel;
  for (const std::string& path : files.paths) model.files.push_back(std::make_unique<TorchFile>(path));
  refuse_other_program(*model.files.front());
  check_same_checkpoint(model.files);
  check_parallel_sizes(model);
  model.version = version_of(*model.files.front());
  const std::size_t chunks = chunks_of(*model.files.front()).size();
  for (const auto& file : model.files) {
    if (version_of(*file) != model.version || chunks_of(*file).size() != chunks)
      fail_at(Exit::bad_data, file->path(), "the file differs from ", model.files.front()->path(),
              " in checkpoint_version or in the number of model chunks; use files of the same checkpoint");
    model.ranks.push_back({file.get(), {}});
  }
  for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
    for (int stage = 0; stage < model.pipeline_parallel; ++stage) add_stage(model, chunk, chunks, stage);
  }
  model.check_ranks();
  check_no_copy(model);
  return model;
}

}  // namespace mtl
