// Faults in one rank or its file: all ranks report them, no save is partly committed, and nothing is lost.
#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>

#include "ckpt/manifest.h"
#include "ckpt/open_model.h"
#include "formats/safetensors.h"
#include "rank_fixtures.h"

using namespace mtl;
using namespace mtl::test;

namespace {

const TestLayout& kTensor = kTestLayouts[1];
const TestLayout& kTensorSharded = kTestLayouts[7];

/// Loads into all ranks of a layout; returns each rank's error.
std::vector<std::string> load_errors(const TestLayout& layout, const std::string& folder) {
  return load_into(layout, folder, [](int, const ParamMemory&, const ModelSource&) {});
}

/// Returns the file offset of a tensor's data.
std::uint64_t position_of(const std::string& path, const std::string& tensor) {
  SafetensorsFile file(path);
  return static_cast<std::uint64_t>(file.data(*file.find(tensor)).data() - file.bytes().data());
}

/// Saves iteration 2. Writes the error, which must be the same on all ranks, to the file DIRECTORY.error and throws it.
void save_second(const std::string& directory, Writes writes) {
  const std::vector<std::string> errors =
      save_from(kTensorSharded, directory, 2, {}, layouts_config(), kPrecisionFp32, writes);
  for (const std::string& error : errors) {
    if (error != errors[0]) std::_Exit(3);
  }
  std::ofstream(cat(directory, ".error")) << errors[0];
  if (!errors[0].empty()) throw Error(Exit::io, errors[0]);
}

}  // namespace

TEST_CASE("rank faults: if one rank's write fails, all ranks name it, and the previous checkpoint loads") {
  int by_rank[4] = {}, failed = 0;
  for (const char* kind : {"eio", "enospc", "short", "eintr", "kill"}) {
    for (int at = 3; at < 240; at += 13) {
      const Writes writes = at % 2 == 0 ? Writes::behind : Writes::in_finish;
      CAPTURE(kind);
      CAPTURE(at);
      ScratchFolder scratch;
      std::string directory = scratch / "s";
      save_from(kTensor, directory, 1);
      int code = run_under_fault(cat(kind, ":", at), [&] { save_second(directory, writes); });
      bool is_committed = file_exists(directory + "/iter_0000002");
      CHECK(wrong_after_load(kTensorSharded, directory, is_committed ? 2 : 1) == 0);
      if (code == 0) CHECK(is_committed);
      if (kind == std::string("kill") || code == 0) continue;
      CHECK(code == 74);
      ++failed;
      std::string error = read_file(directory + ".error");
      for (int rank = 0; rank < 4; ++rank) {
        if (!starts_with(error, cat("on rank ", rank, ": "))) continue;
        ++by_rank[rank];
        CHECK(contains(error, cat("shard_0000", rank, ".safetensors: cannot ")));
        CHECK_FALSE(is_committed);
        for (const auto& entry : fs::directory_iterator(directory))
          CHECK_FALSE(contains(entry.path().string(), ".tmp."));
      }
    }
  }
  CHECK(failed > 10);
  CHECK(by_rank[0] + by_rank[1] + by_rank[2] + by_rank[3] > 10);
}

TEST_CASE("rank faults: the ranks that need a damaged block name it, and the other ranks load") {
  ScratchFolder scratch;
  SaveOptions options;
  options.block_bytes = 64;
  save_from(kTensor, scratch / "s", 1, options);
  std::string folder = scratch / "s/iter_0000001", shard = folder + "/shard_00001.safetensors";
  std::string content = read_file(shard);
  for (std::string tensor : {"param.layers.2.mlp.up.weight", "exp_avg_sq.layers.0.attention.qkv.weight"}) {
    flip_bit(shard, position_of(shard, tensor) + 70);
    std::vector<std::string> errors = load_errors(kTensor, folder);
    CHECK(errors[0].empty());
    CHECK(contains(errors[1],
                   cat(shard, " does not match its hash in the manifest (tensor '", tensor, "', bytes 64 to 127); ")));
    CHECK(load_errors(kOneRank, folder) == std::vector{errors[1]});
    Console console = quiet_console();
    CHECK(contains(error_of([&] { open_model(folder, console).verify(); }), cat("(tensor '", tensor, "')")));
    write_text(shard, content);
  }
}

TEST_CASE("rank faults: damage found in the last tensor leaves every value unchanged") {
  ScratchFolder scratch;
  save_from(kTensorSharded, scratch / "s", 1);
  std::string shard = scratch / "s/iter_0000001/shard_00003.safetensors";
  std::string last;
  SafetensorsFile file(shard);
  for (const StoredTensor& tensor : file.tensors()) {
    if (starts_with(tensor.name, "param.")) last = tensor.name;
  }
  flip_bit(shard, position_of(shard, last));
  RankGrid grid = kTensor.grid();
  run_ranks(grid, [&](int rank, const ProcessGroups&) {
    RankModel model(kTensor, grid, rank);
    fill_true(model.params, 9);
    Console console = quiet_console();
    std::string error = error_of([&] { open_model(scratch / "s", console).load_values(model.params); });
    CHECK((rank == 0 || contains(error, last)));  // in the second tensor-parallel rank's part
    if (!error.empty()) CHECK(count_wrong(model.params, 9) == 0);
  });
}

TEST_CASE("rank faults: a shard missing, extra, or of another checkpoint is named") {
  ScratchFolder scratch;
  save_from(kTensor, scratch / "s", 1);
  save_from(kTensor, scratch / "s", 2);
  std::string folder = scratch / "s/iter_0000002", shard = folder + "/shard_00001.safetensors";
  std::string content = read_file(shard);
  auto expect_on_every_rank = [&](const std::string& message) {
    for (const std::string& error : load_errors(kTensor, folder)) CHECK(contains(error, message));
  };
  fs::remove(shard);
  expect_on_every_rank(shard + " is missing; it contains ");
  write_text(shard, content);
  write_text(folder + "/shard_00002.safetensors", content);
  expect_on_every_rank(folder + "/shard_00002.safetensors is not in the manifest");
  fs::remove(folder + "/shard_00002.safetensors");
  fs::copy_file(scratch / "s/iter_0000001/shard_00001.safetensors", shard, fs::copy_options::overwrite_existing);
  std::vector<std::string> errors = load_errors(kTensor, folder);
  CHECK(errors[0].empty());
  CHECK(contains(errors[1], shard + " does not match its hash in the manifest (tensor 'param."));
  write_text(shard, content);
  fs::rename(folder + "/shard_00000.safetensors", folder + "/x");
  fs::rename(shard, folder + "/shard_00000.safetensors");
  fs::rename(folder + "/x", shard);
  expect_on_every_rank("shard_0000");
  CHECK(wrong_after_load(kTensor, scratch / "s", 1) == 0);  // the file size reveals the damage; the previous one loads
}
