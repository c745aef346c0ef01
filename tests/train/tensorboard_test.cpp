// TensorBoard's event files: their bytes, and what a resumed session drops and repeats.
#include "train/tensorboard.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>

#include "base/files.h"
#include "tests/scratch_folder.h"
#include "tests/train/reported_run.h"

using namespace mtl;
using namespace mtl::test;

TEST_CASE("tensorboard: crc32c equals the test vectors of RFC 3720") {
  CHECK(crc32c(std::string(32, '\0')) == 0x8a9136aau);
  CHECK(crc32c(std::string(32, '\xff')) == 0x62a8ab43u);
  CHECK(crc32c("123456789") == 0xe3069283u);
}

TEST_CASE("tensorboard: the bytes of a record equal TensorBoard's") {
  // tensorboard 2's RecordWriter and Event protobuf wrote this for the same event.
  std::string event = scalars_event(1700000000.5, 300, {{"lm loss", 2.5}});
  CHECK(hex(tensorboard_record(event)) ==
        "1e00000000000000d9dc12320900002040fc54d94110ac022a100a0e0a076c6d206c6f73731500002040efedbc3d");
  CHECK(hex(scalars_event(0, 1, {}).substr(9, 2)) == "1001");  // field 2, the step
}

TEST_CASE("tensorboard: one file per session holds all its reports") {
  const test::ScratchFolder folder;
  MetricsOptions options;
  options.terminal = false;
  options.tensorboard_dir = folder.path() + "/tb";
  Metrics first(options, quiet_console);
  Metrics second(options, quiet_console);
  train(first, 1, 4);
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(options.tensorboard_dir)) names.push_back(entry.path().string());
  std::sort(names.begin(), names.end());
  REQUIRE(names.size() == 2);
  std::vector<std::string> records = read_records(read_file(names[0]));
  REQUIRE(records.size() == 1 + 2 * 5);  // the version, then two summaries per report
  CHECK(records[0].substr(9) ==
        "\x1a\x0d"
        "brain.Event:2");  // after the time; without a step
  CHECK(records[1].find("iteration-time") != std::string::npos);
  CHECK(records[2].find("lm loss vs samples") != std::string::npos);
  CHECK(records[9].find("lm loss validation ppl") != std::string::npos);
  CHECK(read_records(read_file(names[1])).size() == 1);
}

TEST_CASE("tensorboard: a resumed session drops the points of later iterations, and repeats what is lost with them") {
  const test::ScratchFolder folder;
  MetricsOptions options;
  options.terminal = false;
  options.tensorboard_dir = folder.path() + "/tb";
  const auto session = [&](std::int64_t iteration, std::int64_t last) {
    options.from = {.run = "a", .iteration = iteration, .consumed_samples = 8 * iteration, .train_iterations = 10};
    Metrics metrics(options, quiet_console);
    train(metrics, iteration + 1, last);
  };
  const auto names = [&] {
    std::vector<std::string> paths;
    for (const auto& entry : fs::directory_iterator(options.tensorboard_dir)) paths.push_back(entry.path().string());
    std::sort(paths.begin(), paths.end());
    return paths;
  };
  const std::string start = std::string("\x3a\x02\x08\x01", 4);  // field 7: a SessionLog with status START
  session(0, 6);
  const std::vector<std::string> first = read_records(read_file(names().at(0)));
  REQUIRE(first.size() == 1 + 2 * 7);
  // Nothing lies beyond iteration 6.
  session(6, 6);
  CHECK(read_records(read_file(names().at(1))).size() == 1);
  // Beyond iteration 3, iterations have been done. Of the points against samples, START at step 4 drops all from 8 on.
  session(3, 5);
  std::vector<std::string> records = read_records(read_file(names().at(2)));
  REQUIRE(records.size() == 1 + 1 + 3 + 2 * 3);
  CHECK(records[1].size() > start.size());
  CHECK(records[1].substr(9) == std::string("\x10\x04", 2) + start);
  CHECK(records[2] == first[2]);  // 8, 16 and 24 samples
  CHECK(records[3] == first[4]);
  CHECK(records[4] == first[6]);
  // The next session finds only what START left.
  session(4, 4);
  records = read_records(read_file(names().at(3)));
  REQUIRE(records.size() == 1 + 1 + 5);  // samples 8 to 32, and the validation at 32
  CHECK(records[2] == first[2]);
  session(4, 4);
  CHECK(read_records(read_file(names().at(4))).size() == 1);
  CHECK(restart_records(folder.path() + "/none", 4, 32).empty());
  OutputFile(names().at(4), true).write("damaged");
  CHECK(restart_records(options.tensorboard_dir, 4, 32).empty());
  // START at step 5 leaves iterations up to 4. It drops them only if it comes after them.
  CHECK(restart_records(options.tensorboard_dir, 3, 24).size() > 0);
}

TEST_CASE("tensorboard: files are read in the order of their names, and points up to START are beyond no iteration") {
  const test::ScratchFolder folder;
  const auto file = [&](const std::string& name) { return LogFile(cat(folder.path(), "/events.out.tfevents.", name)); };
  const std::string version = tensorboard_record(
      "\x1a\x0d"
      "brain.Event:2");
  const auto point = [](std::int64_t step) { return tensorboard_record(scalars_event(0, step, {{"loss", 1}})); };
  const std::string time = std::string("\x09", 1) + std::string(8, '\0');
  const auto start = [&](char step) {
    return tensorboard_record(time + "\x10" + step + std::string("\x3a\x02\x08\x01", 4));
  };
  file("2").write(version + start(4) + point(4));
  file("1").write(version + point(6));
  CHECK(restart_records(folder.path(), 4, 0).empty());
  CHECK_FALSE(restart_records(folder.path(), 3, 0).empty());
  file("3").write(version + start(3));
  CHECK(restart_records(folder.path(), 2, 0).empty());
  CHECK_FALSE(restart_records(folder.path(), 1, 0).empty());
  // Other fields of an event are skipped: here 4 bytes, 8 bytes, text, and a number as field 5's.
  std::string foreign =
      "\x4d"
      "abcd"
      "\x51"
      "abcdefgh"
      "\x5a\x02"
      "ab"
      "\x10\x09"
      "\x18\x63";  // another number than the step
  file("4").write(tensorboard_record(foreign + std::string("\x2a\x00", 2)));
  CHECK_FALSE(restart_records(folder.path(), 8, 0).empty());
  CHECK(restart_records(folder.path(), 9, 0).empty());
  // Fields after a summary do not change what it is, and files of other names are not read.
  const std::string by_samples =
      "\x10\x32"
      "\x2a\x0b vs samples"
      "\x5a\x02"
      "ab";
  file("4").write(tensorboard_record(by_samples));
  CHECK(restart_records(folder.path(), 9, 0x32).empty());
  CHECK_FALSE(restart_records(folder.path(), 9, 0x31).empty());
  LogFile(folder.path() + "/notes").write(version + point(99));
  CHECK(restart_records(folder.path(), 9, 0x32).empty());
  // What is no event is skipped, too: an end in the middle of a field, and a kind of field that does not exist.
  for (const std::string& wrong : {std::string("\x10"),
                                   std::string("\x10\x0b\x2a\x05"
                                               "a"),
                                   std::string("\x10\x0b\x2b")})
    file("5").write(tensorboard_record(wrong));
  CHECK(restart_records(folder.path(), 9, 0x32).empty());
}

TEST_CASE("tensorboard: a point that START keeps is not repeated") {
  const test::ScratchFolder folder;
  {
    EventFile events(folder.path(), 0, 0);
    // As in runs of one sample per iteration.
    for (std::int64_t step = 1; step <= 5; ++step)
      events.add({{step, {{"loss", 1}}}, {step, {{"loss vs samples", 1}}}});
  }
  CHECK(read_records(restart_records(folder.path(), 3, 3)).size() == 1);  // START at step 4
}
