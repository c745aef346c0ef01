// Runs for Weights & Biases: their bytes, one row for each step, and what a resumed session removes.
#include "train/wandb_run.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "base/crc32.h"
#include "base/protobuf.h"
#include "tests/scratch_folder.h"
#include "tests/train/reported_run.h"

using namespace mtl;
using namespace mtl::test;

namespace {

constexpr std::string_view kWandbHeader(":W&B\xe1\xbe\x00", 7);

std::string wandb_file(const std::vector<std::string>& records) {
  std::string file(kWandbHeader);
  for (const std::string& record : records) file += wandb_bytes(record, file.size());
  return file;
}

/// Returns the type of each record in a file of one block, and a row's step.
std::string wandb_records(std::string_view file) {
  std::string out;
  for (file.remove_prefix(7); !file.empty();) {
    std::string_view record = file.substr(7, little_endian(file.substr(4, 2)));
    file.remove_prefix(7 + record.size());
    const ProtobufField type = take_field(record);
    out += cat(out.empty() ? "" : " ", type.number);
    for (std::string_view row = type.bytes; type.number == 2 && !row.empty();) {
      const ProtobufField field = take_field(row);
      std::string_view step = field.bytes;
      if (field.number == 2) out += cat(":", take_field(step).value);
    }
  }
  return out;
}

/// Returns the files of all sessions, the first one first.
std::vector<std::string> sessions(const std::string& folder) {
  std::vector<std::string> paths;
  for (const auto& entry : fs::directory_iterator(folder + "/wandb"))
    paths.push_back(cat(entry.path().string(), "/run-a.wandb"));
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace

TEST_CASE("wandb: the bytes of a run equal those that wandb writes") {
  const WandbOptions options{.project = "gpt", .name = "345m", .entity = "team", .save_dir = ""};
  const Json data = Json::parse(R"({"path": "owt", "files": [1, 2]})");
  std::vector<std::string> records{
      wandb_start(options, "5f0c", Json::object({{"precision", "bf16"}, {"data", data}}), 1700000000)};
  for (const auto& [step, loss] : {std::pair<std::int64_t, double>(10, 2.5), {300, NAN}}) {
    for (const std::string& record : wandb_row(step, Json::object({{"_step", step}, {"lm loss", loss}})))
      records.push_back(record);
  }
  records.push_back(wandb_exit(75));
  records.push_back(wandb_exit(0));
  const std::string ours = wandb_file(records), golden = read_file("golden/wandb/run.wandb");
  CHECK(hex(ours) == hex(golden));
  CHECK(wandb_records(ours) == "17 2:10 3 2:300 3 18 18");
}

TEST_CASE("wandb: records end and begin anywhere in a block as in wandb's files") {
  std::istringstream lines(read_file("golden/wandb/blocks.txt"));
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    std::istringstream numbers(line);
    std::vector<std::string> records(3);
    for (std::string& record : records) {
      std::size_t size = 0;
      numbers >> size;
      for (std::size_t at = 0; at < size; ++at) record += static_cast<char>(at % 251);
    }
    std::uint32_t crc = 0;
    numbers >> crc;
    const std::string file = wandb_file(records);
    CAPTURE(line);
    CHECK(crc32(std::as_bytes(std::span(file))) == crc);
    CHECK(wandb_bytes_until(file, 0) == file.size());
    records.pop_back();
    CHECK(wandb_bytes_until(std::string_view(file).substr(0, file.size() - 1), 0) == wandb_file(records).size());
  }
  CHECK(count == 45);
}

TEST_CASE("wandb: rows after a step end where the first of them begins") {
  const std::string start = wandb_start({}, "a", Json::object({{"text", std::string(40000, 'x')}}), 1);
  std::vector<std::string> records{start};
  std::vector<std::size_t> ends;  // of the file after each row
  for (std::int64_t step : {2, 4, 200}) {
    for (const std::string& record : wandb_row(step, Json::object({{"loss", 1.0}}))) records.push_back(record);
    ends.push_back(wandb_file(records).size());
  }
  records.push_back(wandb_exit(0));
  const std::string file = wandb_file(records);
  CHECK(wandb_bytes_until(file, 200) == file.size());
  CHECK(wandb_bytes_until(file, 199) == ends[1]);
  CHECK(wandb_bytes_until(file, 3) == ends[0]);
  CHECK(wandb_bytes_until(file, 0) == wandb_file({start}).size());
  std::string damaged = file;
  damaged[ends[0] + 20] ^= 1;
  CHECK(wandb_bytes_until(damaged, 200) == ends[0]);
  CHECK(wandb_bytes_until(file + std::string(100, 'x'), 200) == file.size());
}

TEST_CASE("wandb: a step has one row, and a resumed session repeats none") {
  const test::ScratchFolder folder;
  MetricsOptions options;
  options.terminal = false;
  options.wandb = {.project = "p", .name = "n", .entity = "", .save_dir = folder.path()};
  const auto session = [&](std::int64_t iteration, std::int64_t last) {
    options.from = {.run = "a", .iteration = iteration, .consumed_samples = 8 * iteration, .train_iterations = 10};
    Metrics metrics(options, quiet_console);
    train(metrics, iteration + 1, last);  // with a validation at 4 and 8
    metrics.finish(Exit::requeue);
  };
  const auto expect = [&](const std::vector<std::string>& records) {
    const std::vector<std::string> paths = sessions(folder.path());
    REQUIRE(paths.size() == records.size());
    for (std::size_t at = 0; at < paths.size(); ++at) CHECK(wandb_records(read_file(paths[at])) == records[at]);
  };
  session(0, 5);
  expect({"17 2:1 3 2:2 3 2:3 3 2:4 3 2:5 3 18"});
  const std::string rows = read_file(sessions(folder.path())[0]);
  CHECK(rows.find("lm loss validation ppl") != std::string::npos);
  CHECK(rows.find("samples vs steps\x82\x01\x04"
                  "32.0") != std::string::npos);
  CHECK(rows.find("iteration-time") != std::string::npos);
  CHECK(rows.ends_with("\x92\x01\x02\x08\x4b"));  // exit code 75
  CHECK(is_directory(parent_folder(sessions(folder.path())[0]) + "/files"));
  // Nothing lies beyond iteration 5. The session has no report, and no folder.
  session(5, 5);
  expect({"17 2:1 3 2:2 3 2:3 3 2:4 3 2:5 3 18"});
  session(3, 4);
  expect({"17 2:1 3 2:2 3 2:3 3", "17 2:4 3 18"});
  // An incomplete record goes, too; what wandb has uploaded stays, and so does another run's file.
  OutputFile(sessions(folder.path())[0], true).write("cut off");
  OutputFile(sessions(folder.path())[1] + ".synced").close();
  OutputFile(parent_folder(sessions(folder.path())[0]) + "/run-b.wandb").write("x");
  session(2, 3);
  expect({"17 2:1 3 2:2 3", "17 2:4 3 18", "17 2:3 3 18"});
  CHECK(read_file(parent_folder(sessions(folder.path())[0]) + "/run-b.wandb") == "x");
}
