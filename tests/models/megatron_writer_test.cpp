// Megatron-LM checkpoints of an interleaved pipeline, as mtl writes them: which tensors are in which chunk.
#include "models/megatron_writer.h"
#include "ckpt/open_model.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "ckpt/convert_model.h"
#include "formats/torch_file.h"
#include "models/megatron_tensor.h"
#include "models/torch_dist_writer.h"
#include "nn/rotary.h"
#include "tests/ckpt/ckpt_fixtures.h"

using namespace mtl;
using namespace mtl::test;

namespace {

const std::string kChunks = "golden/megatron_chunks";  // 2 stages of 2 chunks

/// A tensor in a rank's file.
struct ChunkTensor {
  std::string rank, chunk, name;  // "mp_rank_00_001", "model0", "decoder.layers.0.mlp.linear_fc2.weight"
  StoredDType dtype;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;
  auto operator<=>(const ChunkTensor&) const = default;
};

/// Returns all tensors of an iteration's files, sorted by rank, chunk and name.
std::vector<ChunkTensor> chunk_tensors_in(const std::string& iteration) {
  std::vector<ChunkTensor> out;
  for (const auto& folder : fs::directory_iterator(iteration)) {
    const TorchFile file((folder.path() / "model_optim_rng.pt").string());
    for (std::size_t i = 0; i < file.root().size(); ++i) {
      const std::string_view chunk = file.root().key(i).as_text();
      if (!starts_with(chunk, "model")) continue;
      const PickleValue dict = file.root().value(i);
      for (std::size_t j = 0; j < dict.size(); ++j) {
        const TorchTensor* tensor = file.tensor(dict.value(j));
        if (tensor == nullptr) continue;  // _extra_state
        std::vector<std::byte> bytes(tensor->count() * bits_of(tensor->dtype) / 8);
        read_elements(*tensor, 0, bytes);
        out.push_back({folder.path().filename().string(), std::string(chunk), std::string(dict.key(j).as_text()),
                       tensor->dtype, tensor->shape, std::move(bytes)});
      }
    }
  }
  std::ranges::sort(out);
  return out;
}

/// Saves a model whose parameters all differ. Returns its checkpoint.
ModelSource save_distinct(const ScratchFolder& scratch, const GptConfig& config) {
  TestParams model(config);
  fill(model.params, 1);
  return open_quietly(save_alone(SaveDirectory(scratch / "saved"), config, model.params, state_at(1)));
}

std::vector<std::byte> whole_tensor(const ModelSource& source, const SavedTensor& tensor) {
  std::vector<std::byte> out(whole_slice(tensor.shape).count() * bits_of(tensor.dtype) / 8);
  source.read(tensor.name, whole_slice(tensor.shape), out);
  return out;
}

GptConfig llama_of_layers(std::int64_t layers, bool is_tied) {
  GptConfig config = llama_of_size({.vocab = 11, .layers = layers, .hidden = 8, .heads = 2, .positions = 5});
  config.tied_embeddings = is_tied;
  return config;
}

/// Writes a Megatron-LM checkpoint into a new folder. Returns the folder.
std::string write_chunks(const ScratchFolder& scratch, const ModelSource& source, const MegatronWriteOptions& options) {
  const std::string folder = scratch / "megatron";
  fs::remove_all(folder);
  make_directories(folder);
  write_megatron(source, folder, options);
  return folder;
}

}  // namespace

TEST_CASE("megatron writer: the tensors of each chunk, and the parameters that they contain") {
  const ScratchFolder scratch;
  const ModelSource source = save_distinct(scratch, llama_of_layers(4, true));
  const std::string folder =
      write_chunks(scratch, source, {.pipeline_parallel = 2, .virtual_stages = 2, .make_vocab_size_divisible_by = 11});
  std::string found, place;
  for (const ChunkTensor& tensor : chunk_tensors_in(folder + "/release")) {
    const auto same = std::ranges::find_if(source.tensors(), [&](const SavedTensor& saved) {
      return starts_with(saved.name, "param.") && whole_tensor(source, saved) == tensor.bytes;
    });
    REQUIRE(same != source.tensors().end());
    if (const std::string its = cat(tensor.rank, " ", tensor.chunk, "\n"); its != place) found += place = its;
    found += cat("  ", tensor.name, " = ", same->name.substr(6), "\n");
  }
  CHECK(found == R"(mp_rank_00_000 model0
  decoder.layers.0.mlp.linear_fc1.layer_norm_weight = layers.0.norm2.weight
  decoder.layers.0.mlp.linear_fc1.weight = layers.0.mlp.up.weight
  decoder.layers.0.mlp.linear_fc2.weight = layers.0.mlp.down.weight
  decoder.layers.0.self_attention.linear_proj.weight = layers.0.attention.out.weight
  decoder.layers.0.self_attention.linear_qkv.layer_norm_weight = layers.0.norm1.weight
  decoder.layers.0.self_attention.linear_qkv.weight = layers.0.attention.qkv.weight
  embedding.word_embeddings.weight = embedding.tokens.weight
mp_rank_00_000 model1
  decoder.layers.0.mlp.linear_fc1.layer_norm_weight = layers.2.norm2.weight
  decoder.layers.0.mlp.linear_fc1.weight = layers.2.mlp.up.weight
  decoder.layers.0.mlp.linear_fc2.weight = layers.2.mlp.down.weight
  decoder.layers.0.self_attention.linear_proj.weight = layers.2.attention.out.weight
  decoder.layers.0.self_attention.linear_qkv.layer_norm_weight = layers.2.norm1.weight
  decoder.layers.0.self_attention.linear_qkv.weight = layers.2.attention.qkv.weight
mp_rank_00_001 model0
  decoder.layers.0.mlp.linear_fc1.layer_norm_weight = layers.1.norm2.weight
  decoder.layers.0.mlp.linear_fc1.weight = layers.1.mlp.up.weight
  decoder.layers.0.mlp.linear_fc2.weight = layers.1.mlp.down.weight
  decoder.layers.0.self_attention.linear_proj.weight = layers.1.attention.out.weight
  decoder.layers.0.self_attention.linear_qkv.layer_norm_weight = layers.1.norm1.weight
  decoder.layers.0.self_attention.linear_qkv.weight = layers.1.attention.qkv.weight
mp_rank_00_001 model1
  decoder.final_layernorm.weight = final_norm.weight
  decoder.layers.0.mlp.linear_fc1.layer_norm_weight = layers.3.norm2.weight
  decoder.layers.0.mlp.linear_fc1.weight = layers.3.mlp.up.weight
  decoder.layers.0.mlp.linear_fc2.weight = layers.3.mlp.down.weight
  decoder.layers.0.self_attention.linear_proj.weight = layers.3.attention.out.weight
  decoder.layers.0.self_attention.linear_qkv.layer_norm_weight = layers.3.norm1.weight
  decoder.layers.0.self_attention.linear_qkv.weight = layers.3.attention.qkv.weight
  output_layer.weight = embedding.tokens.weight
)");
}

TEST_CASE("megatron writer: the arguments state the chunks per stage and the layers per chunk") {
  using Stated = std::pair<std::optional<std::int64_t>, std::optional<std::int64_t>>;
  const ScratchFolder scratch;
  const ModelSource source = save_distinct(scratch, llama_of_layers(6, true));
  const auto stated = [&](const MegatronWriteOptions& options) {
    const TorchFile file(write_chunks(scratch, source, options) + "/release/mp_rank_00_001/model_optim_rng.pt");
    const auto integer = [&](const char* name) {
      const std::optional<PickleValue> value = file.root().find("args")->find(name);
      return value && !value->is(PickleKind::none) ? std::optional(value->as_int()) : std::nullopt;
    };
    return Stated(integer("virtual_pipeline_model_parallel_size"), integer("num_layers_per_virtual_pipeline_stage"));
  };
  CHECK((stated({.pipeline_parallel = 2}) == Stated()));
  CHECK((stated({.pipeline_parallel = 2, .virtual_stages = 1}) == Stated()));
  CHECK((stated({.pipeline_parallel = 2, .virtual_stages = 3}) == Stated(3, 1)));
  CHECK((stated({.pipeline_parallel = 2, .layers_per_virtual_stage = 1}) == Stated(3, 1)));
}

TEST_CASE("megatron writer: the files of a release, their entries, and padding rows of zeros") {
  const ScratchFolder scratch;
  const ModelSource source = save_distinct(scratch, llama_of_layers(1, false));
  write_text(source.folder() + "/tokenizer.json", "{}");
  const std::string folder = write_chunks(scratch, source, {.make_vocab_size_divisible_by = 16});
  std::vector<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) files.push_back(entry.path().string().substr(folder.size() + 1));
  }
  std::ranges::sort(files);
  CHECK(join(files, " ") ==
        "latest_checkpointed_iteration.txt release/mp_rank_00/model_optim_rng.pt release/tokenizer.json");
  fs::remove(folder + "/release/tokenizer.json");
  CHECK(read_file(folder + "/latest_checkpointed_iteration.txt") == "release");
  const TorchFile file(folder + "/release/mp_rank_00/model_optim_rng.pt");
  std::string keys;
  for (std::size_t i = 0; i < file.root().size(); ++i) keys += cat(file.root().key(i).as_text(), " ");
  CHECK(keys == "args checkpoint_version iteration model ");
  CHECK(file.root().find("checkpoint_version")->as_number() == 3);
  CHECK(file.root().find("iteration")->as_int() == 0);
  int padded = 0;
  for (const ChunkTensor& tensor : chunk_tensors_in(folder + "/release")) {
    if (tensor.shape != std::vector<std::int64_t>{16, 8}) continue;
    CAPTURE(tensor.name);
    const auto is_zero = [](std::byte byte) { return byte == std::byte{0}; };
    const auto padding = tensor.bytes.begin() + 11 * 8 * 4;
    CHECK(std::all_of(padding, tensor.bytes.end(), is_zero));
    CHECK(!std::all_of(padding - 4, padding, is_zero));
    ++padded;
  }
  CHECK(padded == 2);
}

TEST_CASE("megatron writer: padding is zero in a buffer that had other elements") {
  const ScratchFolder scratch;
  const ModelSource source = save_distinct(scratch, llama_of_layers(1, true));
  TensorBlocks blocks(source, {});
  const MegatronTensor tensor{
      .name = "x", .source = "param.embedding.tokens.weight", .slice = whole_slice({11, 8}), .shape = {12, 8}};
  std::vector<std::byte> expected = whole_tensor(source, *source.find_tensor(tensor.source)), out(999, std::byte{1});
  expected.resize(12 * 8 * 4);
  read_megatron_elements(blocks, tensor, StoredDType::f32, out);
  CHECK(out == expected);
}

TEST_CASE("megatron writer: chunks on all ranks make up the model") {
  struct Pipeline {
    std::int64_t stages, chunks;
  };
  for (const auto [stages, chunks] : {Pipeline{2, 2}, Pipeline{2, 3}, Pipeline{4, 2}}) {
    for (const std::int64_t tensor : {1, 2}) {
      for (const bool is_tied : {true, false}) {
        CAPTURE(stages);
        CAPTURE(chunks);
        CAPTURE(tensor);
        CAPTURE(is_tied);
        const ScratchFolder scratch;
        GptConfig config = llama_of_layers(2 * stages * chunks, is_tied);
        config.qk_norm = is_tied;
        const ModelSource source = save_distinct(scratch, config);
        MegatronWriteOptions options{
            .tensor_parallel = tensor, .pipeline_parallel = stages, .layers_per_virtual_stage = 2};
        const std::string folder = write_chunks(scratch, source, options);
        Console console = quiet_console();
        const ModelSource written = open_model(folder, console, {11, {}});
        CHECK(written.config() == source.config());
        for (const SavedTensor& saved : source.tensors()) {
          if (!starts_with(saved.name, "param.")) continue;
          CAPTURE(saved.name);
          const SavedTensor* found = written.find_tensor(saved.name);
          REQUIRE(found != nullptr);
          CHECK(found->shape == saved.shape);
          CHECK(whole_tensor(written, *found) == whole_tensor(source, saved));
        }
        // Both ways to give the number of chunks write the same files.
        const auto by_layers = chunk_tensors_in(folder + "/release");
        options.layers_per_virtual_stage.reset();
        options.virtual_stages = chunks;
        CHECK(chunk_tensors_in(write_chunks(scratch, source, options) + "/release") == by_layers);
      }
    }
  }
}

TEST_CASE("megatron writer: a checkpoint of megatron-core is written again as it was") {
  const ScratchFolder scratch;
  Console console = quiet_console();
  ConvertOptions options;
  options.load = kChunks;
  options.save = scratch / "mtl";
  options.to = "mtl";
  options.given.vocab_size = 12;
  convert_model(options, console);
  options.load = options.save;
  options.save = scratch / "megatron";
  options.to = "megatron";
  options.megatron = {
      .pipeline_parallel = 2, .virtual_stages = 2, .make_vocab_size_divisible_by = 12, .transformer_engine = false};
  convert_model(options, console);
  CHECK(chunk_tensors_in(options.save + "/release") == chunk_tensors_in(kChunks + "/iter_0000030"));
}

TEST_CASE("megatron writer: sizes that do not divide the layers are problems") {
  const GptConfig config = llama_of_layers(6, true);
  auto problems = [&](MegatronWriteOptions options) { return join(megatron_problems(config, options), "; "); };
  CHECK(problems({.pipeline_parallel = 2, .virtual_stages = 3}).empty());
  CHECK(problems({.pipeline_parallel = 1, .virtual_stages = 1}).empty());
  CHECK(problems({.pipeline_parallel = 4}) ==
        "the number of layers 6 is not a multiple of --pipeline-model-parallel-size 4");
  CHECK(problems({.pipeline_parallel = 2, .virtual_stages = 2}) ==
        "the number of layers 6 is not a multiple of --pipeline-model-parallel-size 2 x "
        "--num-virtual-stages-per-pipeline-rank 2");
  CHECK(problems({.pipeline_parallel = 2, .layers_per_virtual_stage = 2}) ==
        "the number of layers 6 is not a multiple of --pipeline-model-parallel-size 2 x "
        "--num-layers-per-virtual-pipeline-stage 2");
  CHECK(problems({.layers_per_virtual_stage = 3}) ==
        "--pipeline-model-parallel-size 1 has no other stage to interleave 2 chunks with");
}

TEST_CASE("megatron writer: yarn's arguments are read back; rotary positions that Megatron-LM lacks are problems") {
  using Scaling = RotaryOptions::Scaling;
  GptConfig config = llama_of_layers(1, true);
  config.head_dim = 8;
  for (const double attention_factor : {yarn_attention_factor(4), 1.25, 1.0}) {
    config.rotary = {.base = 500000,
                     .scaling = Scaling::yarn,
                     .factor = 4,
                     .beta_fast = 16,
                     .beta_slow = 2,
                     .round_pairs = false,
                     .attention_factor = attention_factor,
                     .original_positions = 64};
    CHECK(megatron_problems(config, {}).empty());
    const ScratchFolder scratch;
    Console console = quiet_console();
    GptConfig read = open_model(write_chunks(scratch, save_distinct(scratch, config), {}), console, {11, {}}).config();
    CHECK(std::abs(read.rotary.attention_factor - attention_factor) < 1e-15);
    read.rotary.attention_factor = attention_factor;
    CHECK(read == config);
  }
  const auto problem = [&](const RotaryOptions& rotary) {
    GptConfig other = config;
    other.rotary = rotary;
    return join(megatron_problems(other, {}), "; ");
  };
  CHECK(contains(problem({.percent = 0.5, .scaling = Scaling::yarn}), "rotates the halves of entire heads"));
  CHECK(contains(problem({.interleaved = true, .scaling = Scaling::yarn}), "rotates the halves of entire heads"));
  CHECK(contains(problem({.scaling = Scaling::yarn, .attention_factor = 1.5}), "no attention factor such as 1.5"));
  for (const Scaling scaling : {Scaling::longrope, Scaling::dynamic})
    CHECK(contains(problem({.scaling = scaling}), "depend on the length of the sequence"));
}

namespace {

/// Saves a model at iteration 4 with 8 samples skipped, and writes it as torch_dist. Returns the folder.
std::string write_dist(const ScratchFolder& scratch) {
  TestParams model(tiny_config());
  fill(model.params, 1);
  TrainState state = state_at(4);
  state.optimizer_steps = 3;
  state.extra.set("skipped_samples", 8);
  const std::string saved = save_alone(SaveDirectory(scratch / "saved"), tiny_config(), model.params, state);
  const std::string folder = scratch / "dist";
  make_directories(folder);
  write_torch_dist(open_quietly(saved), folder, {});
  return folder;
}

}  // namespace

TEST_CASE("torch_dist writer: the schedule does not count the samples of skipped iterations") {
  const ScratchFolder scratch;
  const ModelSource source = open_quietly(write_dist(scratch));
  CHECK(source.optimizer_problem().empty());
  REQUIRE(source.state());
  CHECK(source.state()->consumed_samples == 32);
  CHECK(source.state()->extra.int_or("skipped_samples", -1) == 8);
}

TEST_CASE("torch_dist writer: a file that shrinks while it is read back is not read as zeros") {
  const ScratchFolder scratch;
  const std::string folder = write_dist(scratch), file = folder + "/iter_0000004/__0_0.distcp";
  const ModelSource source = open_quietly(folder);
  const SavedTensor& tensor = source.tensors().front();
  const auto read = [&] { elements_of(source, tensor.name, whole_slice(tensor.shape)); };
  CHECK_NOTHROW(read());
  fs::resize_file(file, fs::file_size(file) - 4);
  CHECK(contains(error_of(read), "__0_0.distcp was truncated while"));
}
