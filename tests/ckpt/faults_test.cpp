// Faults at every operation during a save: the committed checkpoint still loads, bit for bit.
#include <doctest/doctest.h>

#include <csignal>
#include <limits>

#include "ckpt/checkpoint_folder.h"
#include "ckpt/open_model.h"
#include "ckpt_fixtures.h"

using namespace mtl;
using namespace mtl::test;

namespace {

void save_iteration(const std::string& directory, int iteration, Writes writes = Writes::in_finish) {
  TestParams model(tiny_config());
  fill(model.params, static_cast<float>(iteration));
  SaveOptions options;
  options.kept = 2;
  options.add_files = [](const std::string& folder) { write_file_atomic(folder + "/vocab.json", "{}"); };
  SelfCommunicator alone;
  save_as(writes, SaveDirectory(directory), tiny_config(), model.params, state_at(iteration), options, alone,
          [&] { fill(model.params, -1); });
}

/// Returns the iteration that a restart loads, or -1 if any bit differs from what was saved.
std::int64_t loaded_iteration(const std::string& directory) {
  Console console = quiet_console();
  ModelSource source = open_model(directory, console);
  std::int64_t iteration = source.state()->iteration;
  TestParams expected(tiny_config()), loaded(tiny_config());
  fill(expected.params, static_cast<float>(iteration));
  source.load_values(loaded.params);
  source.load_optimizer(loaded.params);
  return same_tensors(expected.params, loaded.params) ? iteration : -1;
}

}  // namespace

TEST_CASE("checkpoint: a fault at every operation of a replacement leaves a sound copy that no later save deletes") {
  ScratchFolder scratch;
  save_iteration(scratch / "before", 2);
  save_iteration(scratch / "before", 3);
  const std::string replaced = read_file(scratch / "before/iter_0000003/manifest.json");
  for (std::string kind :
       {"kill", "eio", "no-exchange:1,kill", "no-exchange:1,eio", "no-move:1,kill", "no-move:1,eio"}) {
    int operations = 0, failed = 0, kept = 0;
    for (int code = 1; code != 0; ++operations) {
      CAPTURE(kind);
      CAPTURE(operations);
      std::string directory = scratch / "s", path = directory + "/iter_0000003";
      fs::remove_all(directory);
      fs::copy(scratch / "before", directory, fs::copy_options::recursive);
      code = run_under_fault(cat(kind, ":", operations + 1), [&] { save_iteration(directory, 3); });
      failed += code != 0;
      // The last operations remove the replaced copy. If that fails, the save has succeeded all the same.
      if (code == 0 && ends_with(kind, "eio")) CHECK(!list_leftovers(directory).empty());
      // Until the folder is synced, a crash can undo the replacement, so the replaced copy must still exist.
      if (code != 0 && file_exists(path) && read_file(path + "/manifest.json") != replaced) {
        bool is_kept = false;
        for (const auto& entry : fs::directory_iterator(directory)) {
          std::string manifest = entry.path().string() + "/manifest.json";
          is_kept = is_kept || (file_exists(manifest) && read_file(manifest) == replaced);
        }
        CHECK(is_kept);
        ++kept;
      }
      { SaveDirectory next(directory); }
      CHECK(loaded_iteration(directory) == 3);
      save_iteration(directory, 4);
      fs::remove_all(directory + "/iter_0000004");
      CHECK(loaded_iteration(directory) == 3);
    }
    CHECK(operations > 50);
    CHECK(failed == operations - 1);
    CHECK(kept > 0);
  }
}

TEST_CASE("checkpoint: a fault at every operation of a save loses nothing") {
  ScratchFolder scratch;
  save_iteration(scratch / "before", 1);
  save_iteration(scratch / "before", 2);
  int operations = 1000;
  for (const auto& [kind, writes] : {std::pair(std::string("kill"), Writes::in_finish),
                                     {"kill", Writes::behind},
                                     {"eio", Writes::in_finish},
                                     {"eio", Writes::behind},
                                     {"enospc", Writes::behind},
                                     {"short", Writes::in_finish},
                                     {"eintr", Writes::behind}}) {
    int failed = 0;
    for (int at = 1; at <= operations + (kind == "kill" ? 1 : 0); ++at) {
      CAPTURE(kind);
      CAPTURE(at);
      std::string directory = scratch / "s";
      fs::remove_all(directory);
      fs::copy(scratch / "before", directory, fs::copy_options::recursive);
      int code = run_under_fault(cat(kind, ":", at), [&] { save_iteration(directory, 3, writes); });
      if (kind == "kill" && code == 0) {                               // the save took fewer operations
        CHECK((writes == Writes::in_finish || operations == at - 1));  // a thread writes no others
        operations = at - 1;
        break;
      }
      std::int64_t found = loaded_iteration(directory);
      CHECK((found == 2 || found == 3));
      if (code == 0) CHECK(found == 3);
      if (code != 0) CHECK(code == (kind == "kill" ? 128 + SIGKILL : 74));
      failed += code != 0;
      if (at % 10 != 1) continue;
      save_iteration(directory, 4);  // the next save succeeds and removes all leftovers
      CHECK(loaded_iteration(directory) == 4);
      int entries = 0;
      for (const auto& entry : fs::directory_iterator(directory)) {
        ++entries;
        CHECK(entry.path().string().find(".tmp.") == std::string::npos);
      }
      CHECK(entries == 4);
    }
    CHECK(operations > 50);
    CHECK(operations < 1000);
    if (kind != "short") CHECK(failed > 10);
  }
}

TEST_CASE("checkpoint: a crash at every operation of a save leaves the best checkpoint, and a file that names it") {
  ScratchFolder scratch;
  const std::string directory = scratch / "s", before = scratch / "before";
  const auto save = [](const std::string& to, int iteration, int best) {
    TestParams model(tiny_config());
    SaveOptions options;
    options.kept = 2;
    options.best = best;
    save_alone(SaveDirectory(to), tiny_config(), model.params, state_at(iteration), options);
  };
  save(before, 1, 1);
  for (int iteration : {2, 3, 4}) save(before, iteration, 1);
  CHECK(list_iterations(before) == std::vector<std::int64_t>{4, 3, 1});
  for (const int best : {1, 5}) {  // the new one is the best, or not
    CAPTURE(best);
    int operations = 0;
    for (int code = 1; code != 0; ++operations) {
      CAPTURE(operations);
      fs::remove_all(directory);
      fs::copy(before, directory, fs::copy_options::recursive);
      code = run_under_fault(cat("kill:", operations + 1), [&] { save(directory, 5, best); });
      const std::int64_t named = parse_int(trim(read_file(cat(directory, "/", kBestName)))).value_or(-1);
      CHECK((named == 1 || named == best));
      CHECK(is_sound(directory, named));
    }
    CHECK(operations > 20);
    CHECK(list_iterations(directory) ==
          (best == 1 ? std::vector<std::int64_t>{5, 4, 1} : std::vector<std::int64_t>{5, 4}));
  }
}

TEST_CASE("checkpoint: non-finite weights and moments are not committed") {
  ScratchFolder scratch;
  save_iteration(scratch / "s", 1);
  for (bool is_moment : {false, true}) {
    for (float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
      TestParams model(tiny_config());
      fill(model.params, 2);
      const int param = model.params.size() - 1;
      Tensor tensor = is_moment ? model.params.row_part(param, kFirstState + 1) : model.params.value(param);
      tensor.data<float>()[tensor.numel() - 1] = bad;
      const std::string name = model.params.specs().back().name;
      const SaveDirectory directory(scratch / "s");
      CHECK_THROWS_WITH_AS(save_alone(directory, tiny_config(), model.params, state_at(2), {}),
                           doctest::Contains((name + "' contains NaN or infinity").c_str()), Error);
      CHECK(loaded_iteration(scratch / "s") == 1);
      CHECK(!file_exists(scratch / "s/iter_0000002"));
    }
  }
}

TEST_CASE("checkpoint: replacing the state leaves the tensors unchanged") {
  ScratchFolder scratch;
  save_iteration(scratch / "s", 1);
  TrainState state = state_at(1);
  state.extra.set("finished", true);
  SelfCommunicator alone;
  SaveDirectory(scratch / "s").replace_state(state, 0, alone);
  Console console = quiet_console();
  CHECK(open_model(scratch / "s", console).state()->extra.bool_or("finished", false));
  open_model(scratch / "s", console).verify();
  CHECK(loaded_iteration(scratch / "s") == 1);
}
