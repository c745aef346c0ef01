#include "models/megatron_writer.h"

#include <algorithm>

#include "base/files.h"
#include "formats/torch_writer.h"
#include "layout/stages.h"
#include "models/companion_files.h"
#include "models/megatron_args.h"
#include "models/megatron_names.h"
#include "models/megatron_tensor.h"
#include "nn/model_params.h"

namespace mtl {

namespace {

/// Returns the tensors of a stage's chunk on tensor parallel rank `tensor`.
std::vector<MegatronTensor> chunk_tensors(const GptConfig& config, const MegatronWriteOptions& options,
                                          std::int64_t tensor, int stage, int chunk) {
  const Layout pipeline = options.pipeline(config.num_layers);
  const LayerRange layers = split_layers(pipeline, config.num_layers)[stage][chunk];
  const bool begins_model = pipeline.places().begins_model({stage, chunk});
  const bool ends_model = pipeline.places().ends_model({stage, chunk});
  const std::int64_t padded =
      padded_vocab_size(config.vocab_size, options.make_vocab_size_divisible_by, options.tensor_parallel);
  std::vector<MegatronTensor> out;
  auto add = [&](const ParamSpec& spec, std::string name) {
    out.push_back(cut_for_rank(spec, std::move(name), tensor, options.tensor_parallel));
  };
  std::optional<ParamSpec> embedding;
  for (ParamSpec& spec : model_params(config)) {
    if (spec.padded_rows > 0) spec.padded_rows = padded;  // only the vocabulary has padding
    std::string name = spec.name;
    if (name == "embedding.tokens.weight") embedding = spec;
    bool is_here = name.starts_with("embedding.") ? begins_model : ends_model;
    if (name.starts_with("layers.")) {  // each chunk numbers its layers from 0
      const std::size_t dot = name.find('.', 7);
      const std::int64_t layer = *parse_int(name.substr(7, dot - 7)) - layers.first;
      is_here = layer >= 0 && layer < layers.count;
      name = cat("layers.", layer, name.substr(dot));
    }
    if (is_here) add(spec, megatron_core_name(name, options.transformer_engine));
  }
  if (config.tied_embeddings && ends_model && !begins_model) add(*embedding, "output_layer.weight");
  return out;
}

/// Writes a rank's file, with the tensors of each of its chunks.
void write_rank(const ModelSource& source, const std::string& path, const MegatronWriteOptions& options,
                const std::vector<std::vector<MegatronTensor>>& chunks) {
  const auto stored_dtype = [&](const MegatronTensor& tensor) { return source.find_tensor(tensor.source)->dtype; };
  const auto dtype_of = [&](const MegatronTensor& tensor) { return options.dtype.value_or(stored_dtype(tensor)); };
  AtomicFile file(path);
  TorchWriter writer(file.out(), "model_optim_rng");
  PickleWriter& pickle = writer.pickle();
  pickle.begin_dict();
  pickle.text("args");
  write_megatron_args(writer, source, options, dtype_of(chunks.front().front()), {});
  pickle.values("checkpoint_version", 3.0, "iteration", 0);
  for (std::size_t chunk = 0; chunk < chunks.size(); ++chunk) {
    pickle.text(chunks.size() == 1 ? "model" : cat("model", chunk));
    pickle.begin_dict();
    for (const MegatronTensor& tensor : chunks[chunk]) {
      pickle.text(tensor.name);
      writer.tensor(dtype_of(tensor), tensor.shape);
    }
    pickle.end_dict();
  }
  pickle.end_dict();
  TensorBlocks blocks(source, options.on_conversion);
  std::vector<std::byte> elements;
  for (const std::vector<MegatronTensor>& tensors : chunks) {
    for (const MegatronTensor& tensor : tensors) {
      read_megatron_elements(blocks, tensor, dtype_of(tensor), elements);
      writer.write_data(elements);
    }
  }
  writer.finish();
  file.commit();
}

}  // namespace

Layout MegatronWriteOptions::pipeline(std::int64_t num_layers) const {
  Layout layout;
  layout.grid = RankGrid({.pipeline = static_cast<int>(pipeline_parallel)});
  if (virtual_stages) layout.chunks = static_cast<int>(*virtual_stages);
  if (layers_per_virtual_stage)
    layout.chunks = static_cast<int>(num_layers / (pipeline_parallel * *layers_per_virtual_stage));
  return layout;
}

void write_megatron(const ModelSource& source, const std::string& folder, const MegatronWriteOptions& options) {
  const GptConfig& config = source.config();
  const std::vector<std::string> problems = megatron_problems(config, options);
  if (!problems.empty()) fail(Exit::usage, "--to megatron: ", join(problems, "; "));
  const std::string release = folder + "/release";
  const Layout pipeline = options.pipeline(config.num_layers);
  for (int stage = 0; stage < pipeline.stages(); ++stage) {
    for (std::int64_t tensor = 0; tensor < options.tensor_parallel; ++tensor) {
      std::string rank = format("mp_rank_%02d", static_cast<int>(tensor));
      if (pipeline.stages() > 1) rank += format("_%03d", stage);
      const std::string rank_folder = cat(release, "/", rank);
      make_directories(rank_folder);
      std::vector<std::vector<MegatronTensor>> chunks;
      for (int chunk = 0; chunk < pipeline.chunks; ++chunk)
        chunks.push_back(chunk_tensors(config, options, tensor, stage, chunk));
      write_rank(source, rank_folder + "/model_optim_rng.pt", options, chunks);
    }
  }
  copy_companion_files(source.folder(), release);
  sync_directory(release);  // write_rank() has synced the rank folders, and the caller syncs `folder`
  write_file_atomic(folder + "/latest_checkpointed_iteration.txt", "release");
}

}  // namespace mtl
