// SAVE folders: the tracker, leftovers of dead jobs, replaced checkpoints, and what warnings and errors say.
#include "ckpt/checkpoint_folder.h"

#include <doctest/doctest.h>

#include "ckpt/manifest.h"
#include "ckpt_fixtures.h"
#include "tests/lfs_pointer.h"

using namespace mtl;
using namespace mtl::test;

namespace {

using Names = std::vector<std::string>;

void save_one(const SaveDirectory& save, int iteration, const SaveOptions& options = {}) {
  TestParams model(tiny_config());
  save_alone(save, tiny_config(), model.params, state_at(iteration), options);
}

/// Makes a save folder with checkpoints of iterations 1 to `count`.
void make_run(const std::string& directory, int count) {
  fs::remove_all(directory);
  const SaveDirectory save(directory);
  for (int i = 1; i <= count; ++i) save_one(save, i);
}

Names sorted_names(const std::string& directory) {
  Names names;
  for (const auto& entry : fs::directory_iterator(directory)) names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

/// Returns what newest_checkpoint() returns, or its error, and its warnings.
std::pair<std::string, std::string> newest_in(const std::string& directory, const Names& damaged = {}) {
  std::string found;
  const std::string warnings = stderr_of([&] {
    Console console = quiet_console();
    const std::string error =
        error_of([&] { found = newest_checkpoint(directory, console, damaged).value_or("none"); });
    if (!error.empty()) found = error;
  });
  return {found, warnings};
}

void no_warning(const std::string& message) { FAIL_CHECK(message); }

}  // namespace

TEST_CASE("checkpoint folder: a warning says why the tracker does not name the newest checkpoint") {
  const ScratchFolder scratch;
  const std::string run = scratch / "s", tracker = cat(run, "/", kTrackerName), newest = run + "/iter_0000002";
  make_run(run, 2);
  const auto expect = [&](const std::string& problem) {
    const auto [found, warnings] = newest_in(run);
    CHECK(found == newest);
    CHECK(warnings == (problem.empty() ? ""
                                       : cat("test: warning: ", tracker, problem,
                                             "; using the newest valid checkpoint, iteration 2\n")));
  };
  expect("");
  for (const auto& [text, problem] : std::initializer_list<std::pair<std::string, const char*>>{
           {"1\n", " says 1"}, {" \n", " is empty"}, {"release", " is not a number"}, {" 2", ""}}) {
    write_text(tracker, text);
    expect(problem);
  }
  write_text(tracker, std::string(63, ' ') + "2");
  expect("");
  write_text(tracker, std::string(64, ' ') + "2");
  expect(" is empty");
  fs::remove(tracker);
  expect(" is missing");
  make_directories(tracker);
  expect(" is not a regular file");
}

TEST_CASE("checkpoint folder: invalid checkpoints are skipped with a warning; if none is left, the error lists them") {
  const ScratchFolder scratch;
  const std::string run = scratch / "s", first = run + "/iter_0000001", second = run + "/iter_0000002";
  make_run(run, 2);
  CHECK(newest_in(run, {second}).first == first);
  CHECK(contains(newest_in(run, {first, second}).first,
                 "messages above say why 2 checkpoints are damaged; restore a copy"));
  fs::rename(second, run + "/iter_0000003");
  const std::string renamed =
      run + "/iter_0000003: the folder contains the checkpoint of iteration 2; rename the folder to iter_0000002";
  auto [found, warnings] = newest_in(run);
  CHECK(found == first);
  CHECK(starts_with(warnings, cat("test: warning: skipping an invalid checkpoint: ", renamed, "\n")));
  fs::remove_all(first);
  CHECK(newest_in(run).first == cat(run, ": the only checkpoint is not valid\n  ", renamed));
  CHECK(newest_in(run).second.empty());
  write_text(run + "/iter_0000003/adapter_config.json", "{}");
  CHECK(contains(newest_in(run).first, "the folder contains checkpoints from another program: iter_0000003 is an ad"));
  CHECK(newest_in(scratch / "absent").first == "none");

  make_run(run, 2);
  write_text(second + "/shard_00000.safetensors", lfs_pointer(1000));
  CHECK(contains(newest_in(run).first, "git lfs"));  // not damaged: the older one is no replacement
  make_run(run, 1);
  make_directories(run + "/release/mp_rank_00");
  write_text(run + "/release/mp_rank_00/model_optim_rng.pt", "");
  CHECK(contains(newest_in(run).first, "of mtl (iter_0000001) and of Megatron-LM (release)"));
}

TEST_CASE("checkpoint folder: checkpoints are folders, and links even if they lead nowhere") {
  const ScratchFolder scratch;
  for (const char* name : {"iter_0000002", "iter_0000010", "iter_7", "iter_0000005.old"})
    make_directories(scratch / name);
  write_text(scratch / "iter_0000009", "");
  fs::create_symlink("nowhere", scratch / "iter_0000008");
  CHECK(list_iterations(scratch.path()) == std::vector<std::int64_t>{10, 8, 2});
  CHECK(list_iterations(scratch / "absent").empty());
  CHECK(contains(error_of([&] { list_iterations(scratch / "iter_0000009"); }, Exit::io), "cannot list: "));
}

TEST_CASE("checkpoint folder: leftovers are recognized by their whole name") {
  const ScratchFolder scratch;
  const Names leftovers = {"best_checkpointed_iteration.txt.tmp.9",
                           "iter_0000001.tmp.9",
                           "iter_0000001.tmp.damaged.9",
                           "iter_0000001.tmp.old.9",
                           "latest_checkpointed_iteration.txt.tmp.9",
                           "run_id.tmp.9"};
  const Names others = {"iter_0000001",
                        "iter_0000001.old",
                        "iter_0000001.tmp.",
                        "iter_0000001.tmp.keep",
                        "iter_0000001.tmp.new.9",
                        "iter_x.tmp.9",
                        "latest_checkpointed_iteration.txt.tmp.old.9",
                        "notes.tmp.9",
                        "run_id.tmp.x"};
  for (const Names* names : {&leftovers, &others}) {
    for (const std::string& name : *names) make_directories(scratch / name);
  }
  Names listed = list_leftovers(scratch.path());
  for (std::string& path : listed) path = fs::path(path).filename().string();
  std::ranges::sort(listed);
  CHECK(listed == leftovers);
  remove_leftovers(scratch.path(), no_warning);
  CHECK(sorted_names(scratch.path()) == others);
}

TEST_CASE("checkpoint folder: a checkpoint that was set aside is removed, or put back if the new one is not sound") {
  const ScratchFolder scratch;
  const std::string run = scratch / "s", second = run + "/iter_0000002";
  for (const std::string kind : {"sound", "damaged", "missing"}) {
    CAPTURE(kind);
    make_run(run, 2);
    fs::copy(second, second + ".old", fs::copy_options::recursive);
    write_text(second + ".old/mark", "");
    fs::copy(second, run + "/iter_0000002.older", fs::copy_options::recursive);
    if (kind == "damaged") fs::remove(second + "/manifest.json");
    if (kind == "missing") fs::remove_all(second);
    recover_replaced(run, no_warning);
    CHECK(file_exists(second + "/mark") == (kind != "sound"));
    CHECK(is_sound(run, 2));
    Names expected = {"iter_0000001", "iter_0000002", "iter_0000002.older", kTrackerName, "lock"};
    if (kind == "damaged") expected.insert(expected.begin() + 3, cat("iter_0000002.tmp.damaged.", ::getpid()));
    CHECK(sorted_names(run) == expected);
  }
  // A replacement that failed in this process leaves the same.
  make_run(run, 2);
  const SaveDirectory save(run);
  fs::rename(second, second + ".old");
  save_one(save, 3);
  CHECK(list_iterations(run) == std::vector<std::int64_t>{3, 2, 1});
}

TEST_CASE("checkpoint folder: the run's id is made once, and read from the file later") {
  const ScratchFolder scratch;
  const std::string path = scratch / "run_id";
  const std::string made = run_id_of(scratch.path());
  CHECK(made.size() == 16);
  CHECK(made.find_first_not_of("0123456789abcdef") == std::string::npos);
  CHECK(read_file(path) == made + "\n");
  CHECK(run_id_of(scratch.path()) == made);
  write_text(path, " \n");
  CHECK(run_id_of(scratch.path()) != made);
  CHECK(run_id_of(scratch.path()).size() == 16);
  write_text(path, std::string(70, 'a'));
  CHECK(run_id_of(scratch.path()) == std::string(64, 'a'));
}

TEST_CASE("checkpoint folder: what cannot be removed is a warning, each once, and no error") {
  const ScratchFolder scratch;
  const std::string run = scratch / "s";
  int code = -1;
  const std::string warnings = stderr_of([&] {
    code = run_under_fault("no-remove:1", [&] {
      Console console = quiet_console();
      const SaveDirectory save(run, &console);
      for (int i = 1; i <= 5; ++i) save_one(save, i, {.kept = 2});
    });
  });
  CHECK(code == 0);
  CHECK(list_iterations(run) == std::vector<std::int64_t>{5, 4});
  Names lines = split(warnings, '\n');
  std::erase(lines, "");
  for (const std::string& line : lines) CHECK(contains(line, "; no checkpoint needs it, so remove it yourself"));
  CHECK(lines.size() == 3);  // iterations 1, 2 and 3
  // A leftover with the name of the new folder, whose files would be in the checkpoint.
  code = run_under_fault("no-remove:1", [&] {
    make_directories(cat(run, "/iter_0000006.tmp.", ::getpid()));
    write_text(cat(run, "/iter_0000006.tmp.", ::getpid(), "/other"), "");
    save_one(SaveDirectory(run), 6);
  });
  CHECK(code == static_cast<int>(Exit::io));
  CHECK_FALSE(file_exists(run + "/iter_0000006"));
}

TEST_CASE("checkpoint folder: leftovers go before a save writes, and the manifest says what wrote it") {
  const ScratchFolder scratch;
  const std::string run = scratch / "s";
  make_run(run, 1);
  make_directories(run + "/iter_0000001.tmp.9");
  bool has_leftover = true;
  save_one(SaveDirectory(run), 2, {.command_line = "mtl-train --x", .add_files = [&](const std::string& folder) {
                                     has_leftover = file_exists(run + "/iter_0000001.tmp.9");
                                     write_text(folder + "/merges.txt", "");
                                   }});
  CHECK_FALSE(has_leftover);
  const Manifest manifest = read_sound_manifest(run + "/iter_0000002");
  CHECK(manifest.files.size() == 2);
  CHECK(manifest.find_file("merges.txt")->bytes == 0);
  CHECK(starts_with(manifest.provenance.at("program").as_string(), "mtl "));
  CHECK(manifest.provenance.at("command_line").as_string() == "mtl-train --x");
  CHECK(manifest.provenance.at("time").as_string().size() >= 19);
  CHECK(contains(error_of([&] { save_one(SaveDirectory(run), 3, {.block_bytes = 0}); }), "block_bytes is 0"));
}

TEST_CASE("checkpoint folder: a save that fails before its folder is complete leaves nothing") {
  const ScratchFolder scratch;
  const std::string run = scratch / "s";
  make_run(run, 1);
  const Names before = sorted_names(run);
  const SaveDirectory save(run);
  const auto fail_now = [] { fail(Exit::io, "full"); };
  CHECK(contains(error_of([&] { save_one(save, 2, {.add_files = [&](const std::string&) { fail_now(); }}); }), "full"));
  CHECK(sorted_names(run) == before);
  SelfCommunicator alone;
  const GptConfig config = tiny_config();
  const TrainState state = state_at(2);
  const CheckpointContent content{config, state, [&] { return fail_now(), std::vector<TensorToSave>(); }};
  CHECK(contains(error_of([&] { commit_checkpoint(run, content, {}, alone, no_warning); }), "full"));
  CHECK(sorted_names(run) == before);
}

TEST_CASE("checkpoint folder: replacing a state finishes an interrupted commit first") {
  const ScratchFolder scratch;
  const std::string run = scratch / "s";
  make_run(run, 3);
  make_directories(run + "/iter_0000001.tmp.9");
  write_text(cat(run, "/", kTrackerName), "2\n");
  SelfCommunicator alone;
  TrainState state = state_at(3);
  state.consumed_samples = 77;
  SaveDirectory(run).replace_state(state, 2, alone);
  CHECK(sorted_names(run) == Names{"iter_0000002", "iter_0000003", kTrackerName, "lock"});
  CHECK(read_file(cat(run, "/", kTrackerName)) == "3\n");
  CHECK(read_sound_manifest(run + "/iter_0000003").state == state);
}

TEST_CASE("checkpoint folder: a save directory that is moved keeps its path, lock, folders and warnings") {
  const ScratchFolder scratch;
  const std::string run = scratch / "a/s";
  Console console = quiet_console();
  {
    SaveDirectory save = SaveDirectory::of_other_rank("other");
    CHECK(save.path() == "other");
    save = SaveDirectory(run, &console);
    CHECK(save.path() == run);
    CHECK(contains(error_of([&] { SaveDirectory second(run); }), "another job saves here"));
    make_directories(cat(run, "/", kTrackerName));
    CHECK(contains(stderr_of([&] { save_one(save, 1); }), "is not a regular file, and is not updated"));
    fs::remove_all(run + "/iter_0000001");
    fs::remove_all(cat(run, "/", kTrackerName));
  }
  CHECK_FALSE(file_exists(scratch / "a"));
  const SaveDirectory save(run);
  write_text(run + "/lock", "pid 1 on host elsewhere");
  CHECK(contains(error_of([&] { save_one(save, 1); }, Exit::failure), "took this lock"));
  CHECK(list_iterations(run).empty());
}
