// Files of ranks that do not belong together: of different checkpoints, exchanged, or copies of each other. Every pair
// in the golden checkpoints, and models whose ranks may be alike.
#include <doctest/doctest.h>

#include "ckpt/open_model.h"
#include "formats/torch_writer.h"
#include "models/megatron_writer.h"
#include "models/rank_files.h"
#include "tests/ckpt/ckpt_fixtures.h"
#include "tests/ckpt/file_edits.h"

using namespace mtl;
using namespace mtl::test;

namespace {

const std::string kRankFolders = "golden/megatron_ckpt/", kDeepSpeedRanks = "golden/deepspeed/";

ModelSource open_ranks(const std::string& path) {
  Console console = quiet_console();
  return open_model(path, console, {.num_attention_heads = 4});
}

/// Copies a golden folder; returns the path of its only checkpoint.
std::string copy_of(const ScratchFolder& scratch, const std::string& golden) {
  const std::string to = scratch / "ranks";
  fs::remove_all(to);
  fs::copy(golden, to, fs::copy_options::recursive);
  for (const char* name : {"/iter_0000030", "/global_step2"}) {
    if (is_directory(to + name)) return to + name;
  }
  return to;
}

/// Changes the integer of one byte under a key of a file that torch.save() wrote.
void set_integer(const std::string& path, const std::string& key, int from, int to) {
  edit_pickle(path, [&](std::string pickle) {
    const std::size_t found = pickle.find(std::string(1, char(key.size())) + std::string(3, '\0') + key);
    REQUIRE(found != std::string::npos);
    const std::size_t at = pickle.find(std::string("K") + char(from), found + 4 + key.size());
    REQUIRE(at != std::string::npos);
    pickle[at + 1] = char(to);
    return pickle;
  });
}

struct Difference {
  std::string golden, file, key;
  int from, to;
  std::string message;
};

}  // namespace

TEST_CASE("rank files: those of another checkpoint are refused, with both files and what differs") {
  const ScratchFolder scratch;
  const std::string megatron = "mp_rank_01/model_optim_rng.pt", deepspeed = "mp_rank_01_model_states.pt";
  const Difference differences[] = {
      {kRankFolders + "mcore_te_tp2pp1", megatron, "num_attention_heads", 4, 8, "args.num_attention_heads is 8, but 4"},
      {kRankFolders + "mcore_te_tp2pp1", megatron, "tensor_model_parallel_size", 2, 4,
       "args.tensor_model_parallel_size is 4, but 2"},
      {kRankFolders + "mcore_te_tp2pp1", megatron, "iteration", 30, 20, "iteration is 20, but 30"},
      {kRankFolders + "v0_tp2", megatron, "iteration", 30, 20, "iteration is 20, but 30"},
      {kRankFolders + "v2names_tp1pp2", "mp_rank_00_001/model_optim_rng.pt", "iteration", 30, 20,
       "iteration is 20, but 30"},
      {"golden/distrib_optim/llama_tp2", megatron, "num_attention_heads", 4, 2, "args.num_attention_heads is 2, but 4"},
      {kDeepSpeedRanks + "neox_pipeline", deepspeed, "global_steps", 2, 3, "global_steps is 3, but 2"},
      {kDeepSpeedRanks + "neox_pipeline", deepspeed, "num_attention_heads", 4, 2, "args.num_attention_heads is 2, but"},
      {kDeepSpeedRanks + "megatron_llama", deepspeed, "mp_world_size", 2, 4, "mp_world_size is 4, but 2"},
  };
  for (const Difference& difference : differences) {
    CAPTURE(cat(difference.golden, " ", difference.key));
    const std::string path = copy_of(scratch, difference.golden);
    CHECK_NOTHROW(open_ranks(path));
    set_integer(cat(path, "/", difference.file), difference.key, difference.from, difference.to);
    const std::string error = error_of([&] { open_ranks(path); }, Exit::bad_data);
    CHECK(contains(error, cat(difference.file, ": ")));
    CHECK(contains(error, difference.message));
    CHECK(contains(error, cat(path, "/mp_rank_00")));
    CHECK(contains(error, "copy all files of one checkpoint again"));
  }
}

TEST_CASE("rank files: a file that was copied over another rank's is refused") {
  const ScratchFolder scratch;
  const auto error = [&](const std::string& golden, const std::string& from, const std::string& to) {
    const std::string path = copy_of(scratch, golden);
    fs::copy_file(cat(path, "/", from), cat(path, "/", to), fs::copy_options::overwrite_existing);
    return error_of([&] { open_ranks(path); }, Exit::bad_data);
  };
  for (const char* name : {"mcore_te_tp2pp1", "corelegacy_tp2pp1", "v0_tp2"}) {
    CAPTURE(name);
    const std::string first = "mp_rank_00/model_optim_rng.pt", second = "mp_rank_01/model_optim_rng.pt";
    for (const auto& [from, to] : {std::pair(first, second), std::pair(second, first)}) {
      const std::string message = error(kRankFolders + name, from, to);
      CHECK(contains(message, cat("iter_0000030/", second, ": the matrices are those in ")));
      CHECK(contains(message, cat("iter_0000030/", first, ", so one of the two files is a copy of the other")));
    }
  }
  const std::pair<const char*, const char*> layers[] = {
      {"layer_02-model_00", "layer_02-model_01"},   // another tensor parallel rank's
      {"layer_02-model_01", "layer_03-model_01"},   // another layer's
      {"layer_06-model_01", "layer_06-model_00"}};  // without layers
  for (const auto& [from, to] : layers) {
    CAPTURE(to);
    CHECK(contains(error(kDeepSpeedRanks + "neox_stages", cat(from, "-model_states.pt"), cat(to, "-model_states.pt")),
                   "is a copy of the other"));
  }
  CHECK(contains(error(kDeepSpeedRanks + "megatron_llama", "mp_rank_01_model_states.pt", "mp_rank_00_model_states.pt"),
                 "is a copy of the other"));
}

TEST_CASE("rank files: a copied file that has only an optimizer state leaves the weights, and the reason") {
  const ScratchFolder scratch;
  const std::string path = copy_of(scratch, kDeepSpeedRanks + "neox_stages");
  fs::copy_file(path + "/mp_rank_03_model_states.pt", path + "/mp_rank_02_model_states.pt",
                fs::copy_options::overwrite_existing);
  const ModelSource source = open_ranks(path);
  CHECK(!source.has_optimizer());
  CHECK(contains(source.optimizer_problem(), "is a copy of the other"));
}

TEST_CASE("rank files: files of exchanged stages are refused by their tensors, or by the rank in their arguments") {
  const ScratchFolder scratch;
  const auto exchange = [](const std::string& a, const std::string& b) {
    fs::rename(a, a + ".moved");
    fs::rename(b, a);
    fs::rename(a + ".moved", b);
  };
  const std::pair<const char*, const char*> cases[] = {
      {"v2names_tp1pp2", "mp_rank_00_"}, {"legacy_tp2pp2", "mp_rank_01_"}, {"mcore_local_tp2pp2", "mp_rank_01_"}};
  for (const auto& [name, rank] : cases) {
    CAPTURE(name);
    const std::string path = copy_of(scratch, cat(kRankFolders, name));
    exchange(cat(path, "/", rank, "000"), cat(path, "/", rank, "001"));
    const std::string error = error_of([&] { open_ranks(path); }, Exit::bad_data);
    CHECK(contains(error, cat(rank, "00")));
    CHECK(contains(error, " of 2 pipeline stages, so the file is another stage's"));
  }
  std::string path = copy_of(scratch, kRankFolders + "mcore_local_pp2_chunks2");  // states the ranks
  exchange(path + "/mp_rank_00_000", path + "/mp_rank_00_001");
  CHECK(contains(error_of([&] { open_ranks(path); }, Exit::bad_data), "args.rank is 0, but 1 in"));
  // Tensor parallel ranks have the same kinds of tensors.
  path = copy_of(scratch, kRankFolders + "mcore_te_tp2pp1");
  const std::string first = path + "/mp_rank_00/model_optim_rng.pt", second = path + "/mp_rank_01/model_optim_rng.pt";
  set_integer(second, "rank", 0, 1);
  CHECK_NOTHROW(open_ranks(path));
  exchange(first, second);
  const std::string error = error_of([&] { open_ranks(path); }, Exit::bad_data);
  CHECK(contains(error, cat(second, ": args.rank is 0, but 1 in ", first, ", which is of a lower rank by its name")));
}

TEST_CASE("rank files: equal matrices of one value and repeated layers of a new model are no sign of a copy") {
  const ScratchFolder scratch;
  GptConfig config = tiny_config(2);
  config.vocab_size = 12;
  TestParams model(config);
  for (int i = 0; i < model.params.size();
       ++i) {  // both layers and all other parameters are equal, but not of one value
    Tensor values = model.params.row_part(i, kValues);
    for (std::int64_t j = 0; j < values.numel(); ++j) values.data<float>()[j] = float(j);
  }
  const auto write = [&](const MegatronWriteOptions& options) {
    fs::remove_all(scratch / "saved");
    const std::string saved = save_alone(SaveDirectory(scratch / "saved"), config, model.params, state_at(1));
    const std::string folder = scratch / "megatron";
    fs::remove_all(folder);
    make_directories(folder);
    write_megatron(open_quietly(saved), folder, options);
    return folder;
  };
  CHECK_NOTHROW(open_quietly(write({.pipeline_parallel = 2, .make_vocab_size_divisible_by = 12})));
  for (int i = 0; i < model.params.size(); ++i) {
    Tensor values = model.params.row_part(i, kValues);
    std::fill_n(values.data<float>(), values.numel(), 0.5f);
  }
  CHECK_NOTHROW(open_quietly(write({.tensor_parallel = 2, .make_vocab_size_divisible_by = 6})));
}

TEST_CASE("rank files: equal layers on two stages are a copy if more than one iteration is stated") {
  const ScratchFolder scratch;
  const std::vector<float> values = {1, 2};
  for (const std::int64_t iteration : {1, 2}) {  // converters state 1
    std::vector<std::unique_ptr<TorchFile>> stages;
    for (const char* name : {"a.pt", "b.pt"}) {
      OutputFile out(scratch / name);
      TorchWriter writer(out, "stage");
      writer.pickle().begin_dict();
      writer.pickle().text("iteration"), writer.pickle().integer(iteration);
      writer.pickle().end_dict();
      writer.finish();
      out.close();
      stages.push_back(std::make_unique<TorchFile>(scratch / name));
    }
    RankMatrices matrices;
    for (const auto& stage : stages)
      matrices.add(*stage, *stage, {.data = std::as_bytes(std::span(values)), .element = 4, .is_table = false});
    const std::string error = error_of([&] { matrices.check_no_copy(*stages[0]); });
    CHECK(contains(error, "is a copy of the other") == (iteration == 2));
  }
}
