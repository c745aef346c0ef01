// Saves that threads write from copies while the parameters change: the checkpoint is the same, failures of threads are
// agreed on, and a save that is never finished loses nothing. Faults at every operation: faults_test.cpp.
#include <doctest/doctest.h>

#include <limits>

#include "ckpt/checkpoint_folder.h"
#include "ckpt/manifest.h"
#include "optim/precision_presets.h"
#include "rank_fixtures.h"

using namespace mtl;
using namespace mtl::test;

namespace {

const TestLayout& kSharded = kTestLayouts[7];  // four ranks, each of which writes

/// Returns a manifest's text without the time and the checksum.
std::string untimed_manifest(const std::string& folder) {
  Manifest manifest = read_sound_manifest(folder);
  manifest.provenance = Json();
  return manifest_text(manifest);
}

std::vector<std::string> save_behind(const TestLayout& layout, const std::string& directory, int iteration,
                                     const Precision& precision = kPrecisionFp32) {
  return save_from(layout, directory, iteration, {}, layouts_config(), precision, Writes::behind);
}

}  // namespace

TEST_CASE("pending save: in every layout, the checkpoint is the one that a save without a copy writes") {
  for (const TestLayout& layout : kTestLayouts) {
    for (const Precision& precision : {kPrecisionFp32, find_precision("bf16")}) {
      CAPTURE(layout.name);
      ScratchFolder scratch;
      for (const std::string& error : save_from(layout, scratch / "a", 1, {}, layouts_config(), precision))
        CHECK(error.empty());
      for (const std::string& error : save_behind(layout, scratch / "b", 1, precision)) CHECK(error.empty());
      const std::string expected = scratch / "a/iter_0000001", found = scratch / "b/iter_0000001";
      int shards = 0;
      for (const auto& entry : fs::directory_iterator(expected)) {
        const std::string name = entry.path().filename().string();
        if (name == kManifestName) continue;
        CHECK(read_file(found + "/" + name) == read_file(entry.path().string()));
        ++shards;
      }
      CHECK(shards > 0);
      CHECK(untimed_manifest(found) == untimed_manifest(expected));
    }
  }
}

TEST_CASE("pending save: steps may change the parameters while it writes, and it is committed only by finish") {
  ScratchFolder scratch;
  const SaveDirectory save(scratch / "s");
  TestParams model(tiny_config());
  SelfCommunicator alone;
  std::vector<std::byte> copy = memory_for_copy(model.params);
  fill(model.params, 7);
  const auto pending = save.begin(tiny_config(), model.params, state_at(1), {}, alone, copy);
  fill(model.params, 8);
  while (pending->is_writing()) std::this_thread::yield();
  CHECK(list_iterations(scratch / "s").empty());
  CHECK(save.finish(*pending, alone) == scratch / "s/iter_0000001");
  TestParams expected(tiny_config()), loaded(tiny_config());
  fill(expected.params, 7);
  const ModelSource source = open_quietly(scratch / "s");
  source.load_values(loaded.params);
  source.load_optimizer(loaded.params);
  CHECK(same_tensors(expected.params, loaded.params));
}

TEST_CASE("pending save: NaN in one rank's copy is an error on all ranks, which names the rank and the tensor") {
  ScratchFolder scratch;
  CHECK(save_behind(kSharded, scratch / "s", 1)[0].empty());
  const RankGrid grid = kSharded.grid();
  std::vector<std::string> errors(grid.world());
  run_ranks(grid, [&](int rank, const ProcessGroups& groups) {
    RankModel model(kSharded, grid, rank);
    fill_true(model.params, 2);
    for (int param = 0; rank == 2 && param < model.params.size(); ++param) {
      const Tensor owned = model.params.owned(param, kFirstState);
      if (owned.numel() > 0) owned.data<float>()[0] = std::numeric_limits<float>::quiet_NaN();
    }
    SaveDirectory save = open_save(rank, scratch / "s");
    errors[rank] = error_of([&] {
      save_as(Writes::behind, save, layouts_config(), model.params, state_at(2), {}, groups.world(),
              [&] { fill_true(model.params, 3); });
    });
  });
  CHECK(starts_with(errors[0], cat("on rank 2: ", scratch / "s", ": iteration 2 was not saved, because tensor '")));
  for (const std::string& error : errors) CHECK(error == errors[0]);
  CHECK(list_iterations(scratch / "s") == std::vector<std::int64_t>{1});
  CHECK(list_leftovers(scratch / "s").empty());
}

TEST_CASE("pending save: one that is never finished leaves nothing but what the next save removes") {
  ScratchFolder scratch;
  CHECK(save_behind(kOneRank, scratch / "s", 1)[0].empty());
  TestParams model(tiny_config());
  SelfCommunicator alone;
  std::vector<std::byte> copy = memory_for_copy(model.params);
  fill(model.params, 2);
  {
    const auto abandoned =
        SaveDirectory(scratch / "s").begin(tiny_config(), model.params, state_at(2), {}, alone, copy);
  }
  CHECK(list_iterations(scratch / "s") == std::vector<std::int64_t>{1});
  CHECK(list_leftovers(scratch / "s").size() == 1);
  CHECK(save_behind(kOneRank, scratch / "s", 3)[0].empty());
  CHECK(list_iterations(scratch / "s") == std::vector<std::int64_t>{3, 1});
  CHECK(list_leftovers(scratch / "s").empty());
}

TEST_CASE("pending save: a copy that is too small is an error on all ranks, and nothing is written") {
  ScratchFolder scratch;
  TestParams model(tiny_config());
  SelfCommunicator alone;
  std::vector<std::byte> copy(memory_for_copy(model.params).size() / 3);
  const SaveDirectory save(scratch / "s");
  CHECK(contains(error_of([&] { save.begin(tiny_config(), model.params, state_at(1), {}, alone, copy); }),
                 "is too small"));
  CHECK(list_leftovers(scratch / "s").empty());
}
