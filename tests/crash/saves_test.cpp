// Power failures during saves, rotations of persistent and other checkpoints, resumes, and saves after offloaded
// updates.
#include <doctest/doctest.h>

#include <algorithm>

#include "base/fault_plan.h"
#include "ckpt/manifest.h"
#include "tests/ckpt/ckpt_fixtures.h"
#include "tests/comm/thread_group.h"
#include "tests/crash/operation.h"
#include "tests/optim/rank_params.h"
#include "train/start.h"

using namespace mtl;
using namespace mtl::test;

namespace {

constexpr std::int64_t kNext = 9;  // of the save after the failure

/// Returns true for the iterations whose checkpoints are marked as not persistent.
bool is_marked(std::int64_t iteration) { return iteration == 6 || iteration == 7; }

void save(const SaveDirectory& directory, std::int64_t iteration, SaveOptions options = {}) {
  TestParams model(tiny_config(), false);
  fill(model.params, static_cast<float>(iteration));
  options.add_files = [](const std::string& folder) { write_file_atomic(folder + "/tokenizer.json", "{\"a\": 1}\n"); };
  options.block_bytes = 256;
  TrainState state = state_at(iteration);
  if (is_marked(iteration)) state.extra.set(kNonPersistent, true);
  save_alone(directory, tiny_config(), model.params, state, options);
}

void save(const std::string& path, std::int64_t iteration, const SaveOptions& options = {}) {
  save(SaveDirectory(path), iteration, options);
}

/// Returns the digest of a checkpoint that was saved without a failure.
const std::string& expected_digest(std::int64_t iteration) {
  static std::map<std::int64_t, std::string> digests;
  std::string& digest = digests[iteration];
  if (!digest.empty()) return digest;
  const ScratchFolder scratch;
  save(scratch / "s", iteration);
  return digest = digest_of(cat(scratch / "s", "/", folder_of(iteration)));
}

/// What must hold for a save folder after a failure.
struct Promise {
  std::int64_t newest = 0;              // this or a later one loads; 0: there may be none
  std::int64_t tracker = 0;             // if there is one, it names this or a later one; -1: not checked
  std::vector<std::int64_t> kept = {};  // these load too, unless a later one does
};

/// Checks what the tracker, which must name iteration `tracker` or a later one, and the best checkpoint's file name.
std::string check_names(const std::string& directory, std::int64_t tracker) {
  for (const std::string_view name : {kTrackerName, kBestName}) {
    const std::string path = cat(directory, "/", name);
    if (!file_exists(path) || (name == kTrackerName && tracker < 0)) continue;
    const std::int64_t iteration = parse_int(trim(read_file(path))).value_or(-1);
    if (!is_sound(directory, iteration)) return cat(path, " names no checkpoint");
    if (name == kTrackerName && iteration < tracker) return cat(path, " names an older checkpoint");
  }
  if (tracker > 0 && !file_exists(cat(directory, "/", kTrackerName))) return "no tracker is left";
  return "";
}

/// Checks the checkpoints in a save folder.
std::string check_saves(const std::string& directory, const Promise& promise) {
  Console console = quiet_console();
  console.silent = true;
  const std::optional<std::string> newest = newest_checkpoint(directory, console);
  if (!newest && promise.newest > 0) return "no checkpoint is left";
  const std::int64_t found = newest ? *iteration_in_name(fs::path(*newest).filename().string()) : 0;
  if (found < promise.newest) return cat("the newest checkpoint is ", found);
  for (const std::int64_t iteration : promise.kept) {
    if (found == promise.newest && !is_sound(directory, iteration)) return cat("checkpoint ", iteration, " is lost");
  }
  for (const std::int64_t iteration : list_iterations(directory)) {
    if (!is_sound(directory, iteration)) continue;
    const std::string folder = cat(directory, "/", folder_of(iteration));
    const ModelSource source = open_model(folder, console);
    source.verify();
    if (source.state()->iteration != iteration || digest_of(folder) != expected_digest(iteration))
      return cat(folder, " counts as sound, but is damaged");
  }
  return check_names(directory, promise.tracker);
}

/// Checks that the next save works and removes all leftovers.
std::string save_next(const std::string& directory) {
  Console console = quiet_console();
  console.silent = true;
  save(directory, kNext);
  for (const auto& [path, data] : read_tree(directory)) {
    if (path.find(".tmp") != std::string::npos || path.find(".old") != std::string::npos)
      return cat(path, " is left after the next save");
  }
  return newest_checkpoint(directory, console) == cat(directory, "/", folder_of(kNext)) ? "" : "the next save is lost";
}

std::string save_next_in_s(const std::string& folder) { return save_next(folder + "/s"); }

/// The syncs of saves without which no state is worse.
const std::vector<RedundantSync> kRedundant = {
    {".tmp after rename tokenizer.json", "AtomicFile always syncs; the folder is synced again after its manifest"},
    {"s after rename run_id", "the first save syncs the folder again; until then, only logs contain the id"},
    {"s after sync s", "before leftovers are removed, because an earlier run may have died before its sync"},
    {"s after mark ", "likewise"},
    {"s after rename iter_0000003.rolled_back", "the tracker's sync covers it, unless the tracker is no regular file"},
    {"s after rename latest_checkpointed_iteration.txt (2)", "the best checkpoint's file is synced next"},
};

/// Those of saves without a best checkpoint.
const std::vector<RedundantSync> kRedundantWithoutBest(kRedundant.begin(), kRedundant.end() - 1);

/// Those of a save in place of a checkpoint, where the tracker's content does not change.
const std::vector<RedundantSync> kRedundantInPlace = {
    kRedundant[0],
    {"s after sync s", "before leftovers are removed, because an earlier run may have died before its sync"},
    {"s after exchange iter_0000002", "the next sync comes before the old checkpoint is removed, too"},
    {"s after rename iter_0000002.tmp", "likewise"},
    {"s after rename latest_checkpointed_iteration.txt", "likewise"},
};

const std::string kConvert = "mtl-convert --load s --save hf --to hf --dtype bfloat16";

Operation first_save() {
  return {.name = "first save",
          .run =
              [](const std::string& folder, Recorder& recorder) {
                const SaveDirectory directory(folder + "/a/s");
                directory.run_id();
                save(directory, 1);
                recorder.mark(1);
              },
          .check = [](const std::string& folder, std::int64_t progress) -> std::string {
            if (progress > 0 && trim(read_file(folder + "/a/s/" + kRunIdName)).size() != 16)
              return "the run's id is lost";
            return check_saves(folder + "/a/s", {.newest = progress, .tracker = progress});
          },
          .go_on = [](const std::string& folder) { return save_next(folder + "/a/s"); },
          .redundant = kRedundant};
}

Operation rotation() {
  return {.name = "save with --keep-last and --keep-best",
          .prepare =
              [](const std::string& folder) {
                for (const std::int64_t iteration : {1, 2, 3}) save(folder + "/s", iteration, {.best = 1});
              },
          .run =
              [](const std::string& folder, Recorder& recorder) {
                const SaveDirectory directory(folder + "/s");
                save(directory, 4, {.kept = 2, .best = 1});
                recorder.mark(4);
                save(directory, 5, {.kept = 2, .best = 5});
                recorder.mark(5);
              },
          .check =
              [](const std::string& folder, std::int64_t progress) {
                if (progress == 5) return check_saves(folder + "/s", {5, 5, {4}});
                return check_saves(folder + "/s", progress == 4 ? Promise{4, 4, {3}} : Promise{3, 3, {1}});
              },
          .go_on = save_next_in_s,
          .command = kConvert,
          .redundant = kRedundant};
}

/// Saves with --non-persistent-save-interval, in between and at --save-interval.
Operation non_persistent() {
  return {.name = "saves with --non-persistent-save-interval",
          .prepare =
              [](const std::string& folder) {
                for (const std::int64_t iteration : {5, 6}) save(folder + "/s", iteration);
              },
          .run =
              [](const std::string& folder, Recorder& recorder) {
                const SaveDirectory directory(folder + "/s");
                for (const std::int64_t iteration : {7, 8}) {
                  save(directory, iteration, {.kept = {0, 0, true}});
                  recorder.mark(iteration);
                }
                const std::vector<std::int64_t> persistent = {8, 5};
                require(list_iterations(directory.path()) == persistent, "the marked checkpoints are not removed");
              },
          .check =
              [](const std::string& folder, std::int64_t progress) {
                const std::int64_t newest = std::max<std::int64_t>(progress, 6);
                return check_saves(folder + "/s", {newest, newest, {5}});
              },
          .go_on = save_next_in_s,
          .command = kConvert,
          .redundant = kRedundantWithoutBest};
}

/// Saves an iteration again; without `exchanges`, in a file system that cannot exchange two names.
Operation replacement(bool exchanges) {
  return {
      .name = exchanges ? "save in place of a checkpoint" : "save in place of a checkpoint, without RENAME_EXCHANGE",
      .prepare =
          [](const std::string& folder) {
            for (const std::int64_t iteration : {1, 2}) save(folder + "/s", iteration);
          },
      .run =
          [exchanges](const std::string& folder, Recorder& recorder) {
            plan_faults(exchanges ? "" : "no-exchange:1");
            save(folder + "/s", 2);
            plan_faults("");
            recorder.mark(2);
          },
      .check =
          [](const std::string& folder, std::int64_t) {
            const std::string directory = folder + "/s";
            { SaveDirectory recovers(directory); }
            return check_saves(directory, {2, 2, {1}});
          },
      .go_on = save_next_in_s,
      .command = kConvert,
      .redundant = kRedundantInPlace};
}

/// Resumes a run that a failure ended after the rename of its last checkpoint, rolls back, and marks it as finished.
Operation resume() {
  return {.name = "resume, rollback and end of a run",
          .prepare =
              [](const std::string& folder) {
                for (const std::int64_t iteration : {1, 2, 3, 4}) save(folder + "/s", iteration);
                fs::resize_file(folder + "/s/iter_0000004/shard_00000.safetensors", 99);
                write_text(folder + "/s/" + kTrackerName, "3\n");
                fs::copy(folder + "/s/iter_0000002", folder + "/s/iter_0000003.tmp.77");
              },
          .run =
              [](const std::string& folder, Recorder& recorder) {
                const std::string path = folder + "/s";
                const SaveDirectory directory(path);
                TrainOptions options;
                options.checkpoint.save = path;
                Console console = quiet_console();
                console.silent = true;
                SelfCommunicator alone;
                adopt_start(
                    {.folder = path + "/iter_0000002", .kind = "checkpoint", .iteration = 2, .is_rollback = true},
                    options, alone, console);
                recorder.mark(1);
                TrainState state = state_at(2);
                state.extra.set("finished", true);
                directory.replace_state(state, 0, alone);
                recorder.mark(2);
              },
          .check = [](const std::string& folder, std::int64_t progress) -> std::string {
            const std::string path = folder + "/s";
            const std::vector<std::int64_t> iterations = list_iterations(path);
            if (progress >= 1 && iterations != std::vector<std::int64_t>{2, 1}) return "the rollback is lost";
            if (progress == 2 && !read_sound_manifest(path + "/iter_0000002").state.extra.bool_or("finished", false))
              return "the end of the run is lost";
            return check_saves(path, {2, progress >= 1 ? 2 : -1, {1, 2}});
          },
          .go_on = save_next_in_s,
          .command = kConvert,
          .redundant = kRedundant};
}

/// Updates weights with the optimizer's state in files, then saves them.
Operation offloaded() {
  const auto run = [](const std::string& folder, const std::string& save_to) {
    make_directories(folder + "/states");
    run_ranks(layout_of({}, 0).grid, [&](int, const ProcessGroups& groups) {
      RankParams own(layout_of({}, 0), tiny_gpt(1), kPrecisionFp32,
                     {.bucket_elements = 600, .optimizer_folder = folder + "/states"});
      Optimizer optimizer(own.store, {.clip_grad = 1, .overlap = {}, .seed = 5}, own.stream, groups);
      Arena scratch(Device::cpu, "scratch", 1 << 16);
      StepState state;
      state.lr = 0.1f;
      state.step = 1;
      optimizer.set_factors(state);
      optimizer.begin_step();
      own.chunk.params([&](Param& param, const ParamSpec&) {
        param.take_grad();
        const Tensor grad = own.store.grad(param.index);
        for (std::int64_t i = 0; i < grad.numel(); ++i) grad.data<float>()[i] = static_cast<float>(i % 7);
      });
      optimizer.step(scratch, &state);
      save_alone(SaveDirectory(save_to), tiny_gpt(1), own.store, state_at(1));
    });
  };
  const auto expected = [run] {
    static const std::string digest = [run] {
      const ScratchFolder scratch;
      run(scratch.path(), scratch / "s");
      return digest_of(scratch / "s/iter_0000001");
    }();
    return digest;
  };
  return {.name = "update with --offload-optimizer, and save",
          .prepare =
              [](const std::string& folder) {
                for (const char* name : {"/s", "/states"}) make_directories(folder + name);
                const SaveDirectory makes_the_lock(folder + "/s");
              },
          .run =
              [run](const std::string& folder, Recorder& recorder) {
                run(folder, folder + "/s");
                recorder.mark(1);
              },
          .check = [expected](const std::string& folder, std::int64_t progress) -> std::string {
            if (fs::exists(folder + "/states") && !fs::is_empty(folder + "/states")) return "a state file has a name";
            Console console = quiet_console();
            console.silent = true;
            const auto newest = newest_checkpoint(folder + "/s", console);
            if (!newest) return progress == 0 ? check_names(folder + "/s", 0) : "no checkpoint is left";
            open_model(*newest, console).verify();
            if (digest_of(*newest) != expected()) return "the checkpoint is damaged";
            return check_names(folder + "/s", progress);
          },
          .go_on = save_next_in_s,
          .command = kConvert,
          .progress_of_command = 1,
          .redundant = kRedundant};
}

void test_saves(bool is_long) {
  for (const Operation& operation :
       {first_save(), rotation(), non_persistent(), replacement(true), replacement(false), resume(), offloaded()})
    test_operation(operation, is_long);
}

}  // namespace

TEST_CASE("power failure: a checkpoint that was saved loads, and none is damaged") { test_saves(false); }

TEST_CASE("power failure: every fsync of a save is needed" * doctest::skip()) { test_saves(true); }
