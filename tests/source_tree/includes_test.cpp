// Includes: modules may include only lower modules. Reads the #include lines in every source file. Fails if a line
// breaks this order, or if a file includes a library's header and may not.
//
// With sanitizers on, g++ 12 warns about std::regex's own code (GCC PR105562).
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "tests/source_tree/pages.h"

using namespace mtl;
using namespace mtl::test;

namespace {

/// Returns the modules that each module may include, in addition to itself.
const std::map<std::string, std::set<std::string>>& visible_modules() {
  static const std::map<std::string, std::set<std::string>> modules = [] {
    std::map<std::string, std::set<std::string>> sees;
    sees["base"] = {};
    for (const char* leaf : {"text", "data", "layout", "chart"}) sees[leaf] = {"base"};
    sees["prep"] = {"base", "text", "data"};
    sees["device"] = {"base"};
    sees["kernels"] = {"base", "device"};
    sees["comm"] = {"base", "device", "layout"};
    sees["nn"] = {"base", "device", "kernels", "comm", "layout"};
    sees["optim"] = sees["nn"];
    sees["optim"].insert("nn");
    sees["formats"] = {"base", "device", "layout"};
    sees["models"] = {"base", "device", "layout", "nn", "optim", "formats"};  // no communicator
    sees["ckpt"] = sees["optim"];
    sees["ckpt"].insert({"optim", "formats", "models"});
    sees["engine"] = sees["optim"];
    sees["engine"].insert("optim");
    sees["run"] = sees["engine"];
    sees["run"].insert({"engine", "formats", "models", "data", "text"});
    sees["eval"] = sees["run"];
    sees["eval"].insert("ckpt");
    sees["train"] = sees["eval"];
    sees["train"].insert("run");
    sees["topo"] = sees["planner"] = sees["run"];
    for (const char* module : {"topo", "planner"}) sees[module].insert({"run", "chart"});
    std::set<std::string> all;
    for (const auto& [module, others] : sees) all.insert(module);
    sees["apps"] = all;
    return sees;
  }();
  return modules;
}

/// Returns the module that a file or a quoted include belongs to. The path is relative to the repository root or to
/// libcore.
std::string module_of(std::string_view path) {
  for (std::string_view folder : {"libcore/", "./"}) {
    if (starts_with(path, folder)) path.remove_prefix(folder.size());
  }
  std::string module(path.substr(0, path.find('/')));
  return module == "cli" ? "apps" : module;
}

/// Returns true if the file may include this header. Sets `library` to the name of the header's library, for the error
/// message.
bool may_include(const std::string& file, const std::string& header, std::string* library) {
  struct Rule {
    const char* name;  // the library's name
    std::regex headers;
    std::regex files;  // the files that may include it
  };
  static const std::vector<Rule> rules = {
      {"CUDA",
       std::regex("(cuda|cublas|cudnn|cufft|curand|nvtx|nvml|cub/|thrust/|cooperative_groups|cutlass).*|mma\\.h"),
       std::regex(".*_cuda\\.[a-z]+|kernels/cuda/.*")},
      {"MPI", std::regex("mpi(-ext)?\\.h"), std::regex("libcore/comm/mpi_[a-z_]+\\.cpp")},
      {"NCCL", std::regex("(rccl|nccl).*"), std::regex("libcore/comm/.*")},
      {"the decompressors", std::regex("(zlib|lzma|zstd|zdict|bzlib).*\\.h|lzma/.*"), std::regex("libcore/text/.*")},
      {"simdjson", std::regex("simdjson.*"), std::regex("libcore/text/.*")},
      {"oneDNN", std::regex("(dnnl|oneapi/).*"), std::regex("kernels/.*")},
      {"Highway", std::regex("hwy/.*"), std::regex("kernels/.*|libcore/text/.*|libcore/base/simd\\.h")},
      {"CLI11", std::regex("CLI/.*"), std::regex("apps/cli/flags\\.cpp")},
      {"xxHash", std::regex("xxh.*"), std::regex("libcore/base/.*")},
      {"doctest", std::regex("doctest.*"), std::regex("tests/.*")},
  };
  for (const Rule& rule : rules) {
    if (!std::regex_match(header, rule.headers)) continue;
    *library = rule.name;
    return std::regex_match(file, rule.files);
  }
  return true;
}

/// Returns the problems in one file's include lines, each as "file:line: why".
std::vector<std::string> violations(const std::string& file, const std::string& content) {
  static const std::regex include_line(R"rx(^\s*#\s*include(_next)?\s*([<"])([^>"]+)[>"].*)rx");
  std::vector<std::string> found;
  const std::set<std::string>& sees = visible_modules().at(module_of(file));
  std::size_t number = 0;
  for (const std::string& line : split(content, '\n')) {
    ++number;
    std::smatch parts;
    if (!std::regex_match(line, parts, include_line)) continue;
    std::string header = parts[3], library;
    auto report = [&](const std::string& why) {
      found.push_back(cat(file, ":", number, ": includes ", header, ": ", why));
    };
    if (!may_include(file, header, &library)) report(cat("headers of ", library, " do not belong here"));
    bool is_ours = parts[2] == "\"" && library.empty() && header != "version.h";
    if (!is_ours) continue;
    std::string target = module_of(header);
    if (visible_modules().count(target) == 0) {
      report("is not written as ROOM/FILE");
    } else if (target != module_of(file) && sees.count(target) == 0) {
      report(cat(module_of(file), " does not see ", target));
    }
  }
  return found;
}

bool is_source(const fs::path& path) {
  static const std::set<std::string> kinds = {".h", ".hpp", ".inc", ".cpp", ".cc", ".cu", ".cuh"};
  return kinds.count(path.extension().string()) > 0;
}

std::vector<std::string> source_files() {
  std::vector<std::string> files;
  for (const char* folder : {"libcore", "kernels", "apps"}) {
    for (const auto& entry : fs::recursive_directory_iterator(fs::path("..") / folder)) {
      if (entry.is_regular_file() && is_source(entry.path())) {
        files.push_back(fs::relative(entry.path(), "..").generic_string());
      }
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

TEST_CASE("includes: every include follows the order of the modules") {
  std::vector<std::string> files = source_files();
  CHECK(files.size() > 20);
  for (const std::string& file : files) {
    REQUIRE_MESSAGE(visible_modules().count(module_of(file)) == 1, file, " is in no known module");
    for (const std::string& violation : violations(file, read_file("../" + file))) FAIL_CHECK(violation);
  }
}

TEST_CASE("includes: CONTRIBUTING's chains of modules are visible") {
  static const std::regex module("[a-z]+");
  const auto modules_in = [](const std::string& text) {
    return std::set<std::string>(std::sregex_token_iterator(text.begin(), text.end(), module), {});
  };
  int links = 0;
  for (const std::string& chain : code_of(prose_of("../CONTRIBUTING.md"))) {
    const std::vector<std::string> parts = split(chain, '<');
    for (std::size_t i = 1; i < parts.size() && parts[i].starts_with("-"); ++i) {
      for (const std::string& lower : modules_in(parts[i - 1])) {
        for (const std::string& higher : modules_in(parts[i])) {
          CAPTURE(lower);
          CAPTURE(higher);
          ++links;
          CHECK(visible_modules().at(higher).contains(lower));
        }
      }
    }
  }
  CHECK(links > 10);
}

TEST_CASE("includes: the checker finds every kind of violation") {
  struct Case {
    const char* file;
    const char* line;
    const char* why;  // empty: allowed
  };
  const Case cases[] = {
      {"libcore/base/json.cpp", "#include \"device/tensor.h\"", "base does not see device"},
      {"libcore/data/sampler.h", "#include \"text/bpe.h\"", "data does not see text"},
      {"libcore/data/provenance.cpp", "#include \"prep/preprocess.h\"", "data does not see prep"},
      {"libcore/prep/preprocess.cpp", "#include \"run/options.h\"", "prep does not see run"},
      {"libcore/run/run_plan.cpp", "#include \"train/trainer.h\"", "run does not see train"},
      {"libcore/planner/simulate.cpp", "#include \"train/trainer.h\"", "planner does not see train"},
      {"libcore/chart/svg.cpp", "#include \"train/metrics.h\"", "chart does not see train"},
      {"libcore/layout/ranks.cpp", "#include \"comm/communicator.h\"", "layout does not see comm"},
      {"libcore/comm/self.cpp", "#include \"kernels/gemm.h\"", "comm does not see kernels"},
      {"libcore/nn/mlp.cpp", "  #  include \"libcore/optim/adamw.h\"  // why", "nn does not see optim"},
      {"libcore/engine/stage.cpp", "#include \"data/gpt_dataset.h\"", "engine does not see data"},
      {"libcore/train/trainer.cpp", "#include \"eval/perplexity.h\"", "train does not see eval"},
      {"libcore/eval/tasks.cpp", "#include \"train/trainer.h\"", "eval does not see train"},
      {"libcore/train/trainer.cpp", "#include \"topo/report.h\"", "train does not see topo"},
      {"libcore/train/trainer.cpp", "#include \"cli/flags.h\"", "train does not see apps"},
      {"libcore/topo/checks.cpp", "#include \"cli/flags.h\"", "topo does not see apps"},
      {"kernels/gemm_cpu.cpp", "#include \"nn/mlp.h\"", "kernels does not see nn"},
      {"kernels/gemm.cpp", "#include \"gemm.h\"", "is not written as ROOM/FILE"},
      {"kernels/gemm_cpu.cpp", "#include <cublasLt.h>", "CUDA"},
      {"libcore/device/stream.h", "#include <cuda_runtime.h>", "CUDA"},
      {"libcore/train/trainer.cpp", "#include <mpi.h>", "MPI"},
      {"libcore/engine/pipeline.cpp", "#include <nccl.h>", "NCCL"},
      {"libcore/data/indexed.cpp", "#include <zstd.h>", "decompressors"},
      {"libcore/base/json.h", "#include <simdjson.h>", "simdjson"},
      {"libcore/nn/linear.cpp", "#include <dnnl.hpp>", "oneDNN"},
      {"libcore/base/str.cpp", "#include \"hwy/highway.h\"", "Highway"},
      {"libcore/text/bpe.cpp", "#include <hwy/highway.h>", ""},
      {"libcore/text/inflate.cpp", "#include <zlib.h>", ""},
      {"libcore/text/json_lines.cpp", "#include <simdjson.h>", ""},
      {"libcore/comm/groups.cpp", "#include <mpi.h>", "MPI"},
      {"apps/cli/flags.h", "#include <CLI/App.hpp>", "CLI11"},
      {"libcore/base/str.cpp", "#include <CLI/CLI.hpp>", "CLI11"},
      {"apps/cli/flags.cpp", "#include <CLI/CLI.hpp>", ""},
      {"libcore/comm/mpi_wire.h", "#include <mpi.h>", "MPI"},
      {"libcore/comm/mpi_wire.cpp", "#include <mpi.h>", ""},
      {"libcore/comm/nccl_cuda.cpp", "#include <cuda_runtime.h>", ""},
      {"kernels/gemm_cuda.cu", "#include <cublasLt.h>", ""},
      {"kernels/gemm_cpu.cpp", "#include <oneapi/dnnl/dnnl.hpp>", ""},
      {"libcore/eval/generate.cpp", "#include \"text/tokenizer.h\"", ""},
      {"libcore/nn/tp_region.cpp", "#include \"comm/communicator.h\"", ""},
      {"libcore/chart/svg.cpp", "#include \"chart/axis.h\"", ""},
      {"apps/mtl_plot.cpp", "#include \"libcore/chart/svg.h\"", ""},
      {"apps/cli/run_main.cpp", "#include \"version.h\"", ""},
      {"libcore/base/str.cpp", "// not #include \"train/metrics.h\"", ""},
  };
  for (const Case& test : cases) {
    CAPTURE(test.file);
    CAPTURE(test.line);
    std::vector<std::string> found = violations(test.file, cat("#pragma once\n", test.line, "\n"));
    if (*test.why == '\0') {
      CHECK(found.empty());
    } else {
      REQUIRE(found.size() == 1);
      CHECK(found[0].find(cat(test.file, ":2: ")) == 0);
      CHECK(found[0].find(test.why) != std::string::npos);
    }
  }
}
